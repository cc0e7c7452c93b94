"""The figures of one run in sentences: its time, its memory and its accuracy beside the baseline's."""

from __future__ import annotations

from collections.abc import Mapping

from fasthop.measure.compare import accuracy_difference
from fasthop.measure.run import Run
from fasthop.report.explain.listing import clauses, listed, percent
from fasthop.report.figures import fixed, is_measured, measured, number, size, span
from fasthop.report.parts import kind_name, leaf_kinds
from fasthop.report.rows import change
from fasthop.report.words import phrase

MEMORY_TIE = (
    0.02  # peaks nearer than 2 % are called the same: allocator rounding alone moves a small peak by that
)
NAMED_KINDS = 3
NOTICED_KIND = 0.10  # of the peak
RESIDENT = ("features", "graph")
"""Lies there before the epoch, so that the peak does not count it."""


def time_sentences(run: Run, baseline: Run, lang: str) -> list[str]:
    """The time of an epoch with its interval, and how it relates to the baseline's."""
    time, ratio = measured(run.time_per_epoch_ms), measured(run.ratio_to_baseline)
    if time is None:
        return [phrase("time.none", lang)]
    fields = {"time": number(time.median), "span": span(time)}
    kind = change(run, baseline)
    if kind == "alone" or ratio is None:
        parts = [phrase("time.alone", lang, **fields)]
    else:
        fields |= {"ratio_span": span(ratio)}
        if kind != "same":
            fields |= {"ratio": number(ratio.median)}
        parts = [phrase(f"time.{kind}", lang, **fields)]
    steps, baseline_steps = run.num_steps_per_epoch, baseline.num_steps_per_epoch
    if steps and baseline_steps and steps != baseline_steps:
        parts.append(
            phrase(
                "time.steps",
                lang,
                steps=f"{steps:,}",
                step_time=number(time.median / steps),
                baseline_steps=f"{baseline_steps:,}",
            )
        )
    return parts


def memory_change(run: Run, baseline: Run) -> str:
    """How a run's peak relates to the baseline's: "less", "more", "same" (within 2 %) or "alone"."""
    if run is baseline or run.peak_bytes is None or not baseline.peak_bytes:
        return "alone"
    times = run.peak_bytes / baseline.peak_bytes
    if abs(times - 1.0) <= MEMORY_TIE:
        return "same"
    return "less" if times < 1.0 else "more"


def memory_sentences(run: Run, baseline: Run, lang: str) -> list[str]:
    """The peak, what changed of it by kind, and what the allocator and the process held."""
    if run.peak_bytes is None:
        return []
    kind = memory_change(run, baseline)
    fields = {"memory": size(run.peak_bytes)}
    if kind in ("less", "more"):
        times = run.peak_bytes / (baseline.peak_bytes or 1)
        fields |= {"times": number(times), "baseline": size(baseline.peak_bytes)}
    parts = [phrase(f"memory.{kind}", lang, **fields)]
    parts += kinds_sentences(run, lang) if run is baseline else _kinds_moved(run, baseline, kind, lang)
    if run.peak_reserved_bytes is not None:
        parts.append(phrase("memory.reserved", lang, reserved=size(run.peak_reserved_bytes)))
    if run.process_peak_bytes is not None:
        parts.append(phrase("memory.process", lang, process=size(run.process_peak_bytes)))
    return parts


def kinds_sentences(run: Run, lang: str) -> list[str]:
    """What lives at the peak of a run beside its inputs, and the operator that stands there."""
    kinds = {kind: value for kind, value in leaf_kinds(run).items() if kind not in RESIDENT}
    total = sum(kinds.values())
    if not total:
        return []
    named = sorted(kinds, key=lambda kind: -kinds[kind])[:NAMED_KINDS]
    items = [
        phrase("kinds.item", lang, kind=kind_name(kind, lang), memory=size(kinds[kind]))
        for kind in named
        if kinds[kind] >= NOTICED_KIND * total
    ]
    return [phrase("kinds.at_peak", lang, parts=listed(items, lang)), *_operator(run, lang)]


def _kinds_moved(run: Run, baseline: Run, change: str, lang: str) -> list[str]:
    """The kinds that account for a smaller or larger peak."""
    old, new = leaf_kinds(baseline), leaf_kinds(run)
    if change not in ("less", "more") or not old or not new or not baseline.peak_bytes:
        return []
    sign = -1 if change == "less" else 1
    moved = {kind: sign * (new.get(kind, 0.0) - old.get(kind, 0.0)) for kind in {**old, **new}}
    least = NOTICED_KIND * baseline.peak_bytes
    named = [kind for kind in sorted(moved, key=lambda kind: -moved[kind]) if moved[kind] >= least]
    if not named:
        return []
    items = [
        phrase(
            _moved_key(kind, old, new),
            lang,
            kind=kind_name(kind, lang),
            before=size(old.get(kind, 0.0)),
            after=size(new.get(kind, 0.0)),
        )
        for kind in named[:2]
    ]
    return [phrase("kinds.moved", lang, parts=clauses(items, lang)), *_operator(run, lang)]


def _moved_key(kind: str, old: Mapping[str, float], new: Mapping[str, float]) -> str:
    if not old.get(kind) or not new.get(kind):
        return "kinds.gone" if old.get(kind) else "kinds.new"
    return "kinds.less" if new[kind] < old[kind] else "kinds.more"


def _operator(run: Run, lang: str) -> list[str]:
    return [phrase("kinds.operator", lang, operator=run.peak_operator)] if run.peak_operator else []


def accuracy_sentences(run: Run, baseline: Run, lang: str) -> list[str]:
    """Test accuracy, and what the seeds can decide of its difference from the baseline's."""
    own, other = run.accuracy, baseline.accuracy
    if own is None:
        return []
    one = own.count < 2
    value = phrase(
        "accuracy.value_one" if one else "accuracy.value",
        lang,
        mean=fixed(own.mean),
        **({} if one else {"std": fixed(own.std), "count": own.count}),
    )
    if run is baseline or other is None:
        return [phrase("accuracy.alone", lang, accuracy=value)]
    interval = accuracy_difference(own, other)
    if interval is None:
        return [phrase("accuracy.one_seed", lang, accuracy=value, difference=_signed(own.mean - other.mean))]
    if interval.low == interval.high == 0:
        return [phrase("accuracy.equal", lang, accuracy=value)]
    low, high = _signed(interval.low), _signed(interval.high)
    if interval.holds(0.0):
        difference = _signed(interval.median)
        return [phrase("accuracy.undecided", lang, accuracy=value, difference=difference, low=low, high=high)]
    key = "accuracy.higher" if interval.median > 0 else "accuracy.lower"
    return [phrase(key, lang, accuracy=value, difference=fixed(abs(interval.median), 2), low=low, high=high)]


def floor_sentences(run: Run, lang: str) -> list[str]:
    """The time that the run's operations and traffic need at least, and how near it comes."""
    time, floor = measured(run.time_per_epoch_ms), run.floor_ms
    if time is None or floor is None or not is_measured(floor) or not floor or not time.median:
        return []
    share = floor / time.median
    if share >= 1:
        return [phrase("floor.met", lang, floor=number(floor))]
    return [phrase("floor.share", lang, floor=number(floor), share=percent(share))]


def _signed(value: float) -> str:
    text = fixed(value, 2)
    return f"+{text}" if value > 0 and float(text) > 0 else text.replace("-", "−")
