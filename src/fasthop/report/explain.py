"""The interpretation of a Result: for every recipe sentences that follow from its figures, and what is best.

Nothing here knows why a rung helps; what a rung is comes from the rung's own words, handed in by
name. A difference within its interval is called no change, one that the seeds cannot decide undecided.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from fasthop.measure.compare import accuracy_difference
from fasthop.measure.run import Result, Run
from fasthop.report.figures import fixed, is_measured, measured, number, seconds, size, span
from fasthop.report.prediction import prediction_sentence
from fasthop.report.rows import change
from fasthop.report.words import check_lang, in_language, phrase, sentences
from fasthop.verify.verdict import Verdict

MEMORY_TIE = (
    0.02  # peaks nearer than 2 % are called the same: allocator rounding alone moves a small peak by that
)
CLOSE = (
    0.10  # times to accuracy nearer than 10 % are called level: they come from epochs, and carry no interval
)


def explanations(
    result: Result, lang: str = "en", rung_words: Mapping[str, str] | None = None
) -> list[tuple[str, str]]:
    """Per run its name and its paragraph, in the ladder's order.

    rung_words: what each rung does, by the rung's name, in the same language.
    Raises InvalidConfig for an unknown language.
    """
    check_lang(lang)
    return [(run.name, sentences(_about(run, result, lang, rung_words or {}), lang)) for run in result.runs]


def _about(run: Run, result: Result, lang: str, rung_words: Mapping[str, str]) -> list[str]:
    baseline = result.baseline
    parts = [_what(run, result, lang, rung_words)]
    if run.skipped is not None:
        parts.append(phrase("explain.skipped", lang, reason=run.reason(lang)))
    if run.skipped is None or measured(run.time_per_epoch_ms) is not None:
        parts += _time(run, baseline, lang)
        parts += prediction_sentence(run, baseline, lang)
        parts += _memory(run, baseline, lang)
        parts += _accuracy(run, baseline, lang)
        parts += _proof(run, lang)
        parts += _cost(run, result, lang)
        parts += _to_accuracy(run, result, lang)
    return parts + [in_language(note, lang) for note in run.notes]


def _what(run: Run, result: Result, lang: str, rung_words: Mapping[str, str]) -> str:
    if run is result.baseline:
        return phrase("explain.baseline", lang)
    if len(run.rungs) == 1:
        return rung_words.get(run.rungs[0], "")
    before = next((other for other in result.runs if other.rungs == run.rungs[:-1]), None)
    if run.name.startswith("+") and before is not None:  # a rung of a cumulative ladder
        added = phrase("explain.added", lang, rung=run.rungs[-1], before=before.name)
        return sentences([added, rung_words.get(run.rungs[-1], "")], lang)
    return phrase("explain.combination", lang, rungs=" + ".join(run.rungs)) if run.rungs else ""


def _proof(run: Run, lang: str) -> list[str]:
    """The verdict on an exact recipe, in its own words."""
    if run.verdict is None:
        return []
    return [in_language(Verdict.from_json(run.verdict).sentence, lang)]


def _time(run: Run, baseline: Run, lang: str) -> list[str]:
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


def _memory(run: Run, baseline: Run, lang: str) -> list[str]:
    if run.peak_bytes is None:
        return []
    kind = memory_change(run, baseline)
    fields = {"memory": size(run.peak_bytes)}
    if kind in ("less", "more"):
        times = run.peak_bytes / (baseline.peak_bytes or 1)
        fields |= {"times": number(times), "baseline": size(baseline.peak_bytes)}
    parts = [phrase(f"memory.{kind}", lang, **fields)]
    if run.peak_reserved_bytes is not None:
        parts.append(phrase("memory.reserved", lang, reserved=size(run.peak_reserved_bytes)))
    if run.process_peak_bytes is not None:
        parts.append(phrase("memory.process", lang, process=size(run.process_peak_bytes)))
    return parts


def _accuracy(run: Run, baseline: Run, lang: str) -> list[str]:
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


def _signed(value: float) -> str:
    text = fixed(value, 2)
    return f"+{text}" if value > 0 and float(text) > 0 else text.replace("-", "−")


def _cost(run: Run, result: Result, lang: str) -> list[str]:
    parts = []
    prepare, compile_s = run.prepare_s, run.compile_s
    compiled = is_measured(compile_s) and bool(compile_s)
    prepared = is_measured(prepare) and bool(prepare)
    if compiled and prepared:
        parts.append(phrase("cost.both", lang, prepare=seconds(prepare), compile=seconds(compile_s)))
    elif compiled:
        parts.append(phrase("cost.compile", lang, compile=seconds(compile_s)))
    elif prepared:
        parts.append(phrase("cost.prepare", lang, prepare=seconds(prepare)))
    for key, count in (
        ("compile.recompiles", run.num_recompiles),
        ("compile.breaks", run.num_graph_breaks),
        ("scaler.skipped", run.num_skipped_steps),
    ):
        if count:
            parts.append(phrase(key, lang, count=f"{count:,}"))
    kind = change(run, result.baseline)
    if kind == "alone":
        return parts
    epochs, trained = run.break_even_epochs, result.task.get("epochs")
    if kind != "faster" or epochs is None or not math.isfinite(epochs):
        return [*parts, phrase("cost.never", lang)] if compiled or prepared else parts
    if epochs <= 0:
        return [*parts, phrase("cost.free", lang)]
    needed = math.ceil(epochs)
    if isinstance(trained, int) and needed > trained:
        return [*parts, phrase("cost.too_late", lang, epochs=f"{needed:,}", trained=f"{trained:,}")]
    return [*parts, phrase("cost.break_even", lang, epochs=f"{needed:,}")]


def _to_accuracy(run: Run, result: Result, lang: str) -> list[str]:
    if result.target_accuracy is None or run.accuracy is None:
        return []
    target = fixed(result.target_accuracy)
    if run.time_to_accuracy_s is None:
        return [phrase("to_accuracy.missed", lang, target=target)]
    return [phrase("to_accuracy.reached", lang, target=target, seconds=seconds(run.time_to_accuracy_s))]


def best(result: Result, lang: str = "en") -> str:
    """What is best by time to the baseline's accuracy, and which epoch of equal steps is shortest."""
    check_lang(lang)
    return sentences([*_best_to_accuracy(result, lang), _best_epoch(result, lang)], lang)


def _best_to_accuracy(result: Result, lang: str) -> list[str]:
    timed = sorted(
        ((run.time_to_accuracy_s, place, run) for place, run in enumerate(result.runs)
         if run.time_to_accuracy_s is not None),
        key=lambda entry: entry[:2],
    )  # fmt: skip
    if not timed or result.target_accuracy is None:
        return [phrase("best.unknown", lang)]
    first_s, _, first = timed[0]
    fields = {"target": fixed(result.target_accuracy), "seconds": seconds(first_s)}
    baseline_s = result.baseline.time_to_accuracy_s
    if first is result.baseline:
        parts = [phrase("best.baseline", lang, **fields)]
    elif baseline_s is None:
        parts = [phrase("best.alone", lang, name=first.name, **fields)]
    else:
        parts = [phrase("best.recipe", lang, name=first.name, baseline=seconds(baseline_s), **fields)]
    for second_s, _, second in timed[1:]:
        if second_s <= first_s * (1 + CLOSE):
            parts.append(
                phrase(
                    "best.close",
                    lang,
                    name=second.name,
                    seconds=seconds(second_s),
                    percent=round(CLOSE * 100),
                )
            )
    return parts


def _best_epoch(result: Result, lang: str) -> str:
    baseline = result.baseline
    faster = [
        (time.median, run.name, ratio)
        for run in result.runs
        if change(run, baseline) == "faster"
        and run.num_steps_per_epoch == baseline.num_steps_per_epoch
        and (time := measured(run.time_per_epoch_ms)) is not None
        and (ratio := measured(run.ratio_to_baseline)) is not None
    ]
    if measured(baseline.time_per_epoch_ms) is None:
        return ""
    if not faster:
        return phrase("best.no_epoch", lang)
    time, name, ratio = min(faster, key=lambda entry: entry[0])
    return phrase(
        "best.epoch", lang, name=name, time=number(time), ratio=number(ratio.median), ratio_span=span(ratio)
    )
