"""When a recipe would pay: the most that it could give, and what would have to be different."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fasthop.measure.run import Result, Run
from fasthop.report.explain.aim import aim
from fasthop.report.explain.cause import causes
from fasthop.report.explain.listing import causes_words, percent
from fasthop.report.explain.versus import Versus, before_words
from fasthop.report.figures import fixed, is_measured, measured, number, size
from fasthop.report.parts import checked
from fasthop.report.peaks import peaks_of
from fasthop.report.words import phrase

LARGER = 10
FIXED = {"overhead", "step"}
"""Does not grow with the graph."""
WORTH_SAYING = 0.05
"""A part below 5 % of an epoch needs no further word."""
FASTER_FORMAT = 1.1
ALL = 0.95
"""Above 95 % of an epoch the bound is a division by nearly nothing."""


def outlook_sentences(found: Versus, result: Result, lang: str) -> list[str]:
    """What follows for another graph, machine or number of epochs; only what the figures bear."""
    parts = [*_bound(found, lang), *_format(found, result, lang)]
    if "sample" in found.run.rungs:
        parts += _loader(found.run, result.baseline, lang)
    if "sample" in found.added:
        parts += _fits(result, lang)
    if "receptive_field" in found.added:
        parts += _receptive(result, lang)
    return parts


def _bound(found: Versus, lang: str) -> list[str]:
    part = aim(found)
    if part is None or found.ratio is None or not WORTH_SAYING < part.share < ALL:
        return []
    if found.ratio.median > part.most:  # it gained elsewhere too, so this is no bound of it
        return []
    fields = {"target": causes_words(part.kinds, lang), "before": before_words(found, lang)}
    parts = [phrase("outlook.bound", lang, most=fixed(part.most, 2), **fields)]
    if set(part.kinds) <= FIXED and found.run.num_steps_per_epoch == 1:
        most = fixed(part.most_at_work(LARGER), 2)
        parts.append(phrase("outlook.larger", lang, times=LARGER, most=most, target=fields["target"]))
    return parts


def _format(found: Versus, result: Result, lang: str) -> list[str]:
    """What matrix products in 16 bits gain on this machine, where the rung is AMP."""
    peaks = peaks_of(result)
    fp32, bf16 = peaks.get("matmul_fp32_gflops"), peaks.get("matmul_bf16_gflops")
    if "amp" not in found.added or fp32 is None or bf16 is None:
        return []
    rates = {"fp32": number(fp32), "bf16": number(bf16)}
    part = aim(found)
    if bf16 < FASTER_FORMAT * fp32:
        return [phrase("outlook.format_same", lang, **rates)]
    parts = [phrase("outlook.format", lang, times=number(bf16 / fp32), **rates)]
    if part is not None and part.kinds == ("transform",) and part.share < ALL:
        most = part.most_at(bf16 / fp32)
        if found.ratio is None or found.ratio.median <= most:
            parts.append(
                phrase("outlook.format_bound", lang, before=before_words(found, lang), most=fixed(most, 2))
            )
    return parts


def _loader(run: Run, baseline: Run, lang: str) -> list[str]:
    found = causes(run)
    time, other = measured(run.time_per_epoch_ms), measured(baseline.time_per_epoch_ms)
    if not found or time is None or other is None:
        return []
    share = found.get("sample", 0.0) / sum(found.values())
    left = (1 - share) * time.median
    if share < WORTH_SAYING or left <= 0:
        return []
    fields = {"share": percent(share), "left": number(left), "ratio": fixed(other.median / left, 2)}
    return [phrase("outlook.loader", lang, **fields)]


def _fits(result: Result, lang: str) -> list[str]:
    """How far the full batch is from this machine's memory."""
    baseline = result.baseline
    kinds = checked(baseline.memory_kinds)
    total = _memory_bytes(result)
    if baseline.peak_bytes is None or "features" not in kinds or total is None:
        return []
    full = baseline.peak_bytes + kinds["features"] + kinds.get("graph", 0.0)
    times = total / full if full else 0.0
    if times < 1:
        return []
    key = "outlook.fits" if times >= 2 else "outlook.nearly_full"
    return [phrase(key, lang, full=size(full), total=size(total), times=number(float(f"{times:.2g}")))]


def _memory_bytes(result: Result) -> float | None:
    """The memory that the task has: the GPU's, or the machine's, or what the process may take of it."""
    if result.task.get("device") == "cuda":
        gpus = result.machine.get("gpus") or ()
        return _number(gpus[0], "memory_bytes") if gpus else None
    limits = result.machine.get("limits")
    known = [
        value
        for value in (_number(result.machine, "memory_bytes"), _number(limits, "memory_bytes"))
        if value is not None
    ]
    return min(known, default=None)


def _number(tree: Any, key: str) -> float | None:
    value = tree.get(key) if isinstance(tree, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not is_measured(value) or value <= 0:
        return None
    return float(value)


def _receptive(result: Result, lang: str) -> list[str]:
    trained, nodes = _number(result.task, "num_train"), _number(result.task, "num_nodes")
    if trained is None or nodes is None or trained > nodes:
        return []
    fields = {"trained": f"{trained:,.0f}", "nodes": f"{nodes:,.0f}", "share": percent(trained / nodes)}
    return [phrase("outlook.receptive", lang, **fields)]
