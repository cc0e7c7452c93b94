"""The ladder's figures: time per epoch, time to the target accuracy, and peak memory of every recipe."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fasthop.measure.run import Result, Run
from fasthop.report.chart import COLORS, LABEL_SHARE, Bar, memory_bars, time_bars
from fasthop.report.explain import memory_change
from fasthop.report.figures import MISSING, fixed, measured, number, seconds, size, span
from fasthop.report.page.figure import Figure, tip, unique_names
from fasthop.report.page.specs import bars
from fasthop.report.rows import change, header_line
from fasthop.report.words import phrase


def recipe_names(result: Result) -> list[str]:
    """The recipes' names as the charts have them."""
    return unique_names([run.name for run in result.runs])


def time_figure(result: Result, lang: str) -> Figure | None:
    """Time per epoch with its interval; None where no recipe has one."""
    said = [_time_said(name, run, result, lang) for name, run in _named(result)]
    rows = []
    for name, run in _named(result):
        time = measured(run.time_per_epoch_ms)
        ends = (time.low, time.median, time.high) if time else (None, None, None)
        low, median, high = (number(value) for value in ends)
        rows.append((name, median, low, high, _ratio_cell(run, result, lang)))
    head = ("recipe", "time", "low", "high", "change")
    return _figure("time", time_bars(result, lang), said, head, rows, result, lang)


def to_accuracy_figure(result: Result, lang: str) -> Figure | None:
    """Seconds until the target accuracy; None where no recipe got there."""
    if result.target_accuracy is None:
        return None
    target = fixed(result.target_accuracy)
    baseline = result.baseline.time_to_accuracy_s
    found, said, rows = [], [], []
    for name, run in _named(result):
        value = run.time_to_accuracy_s
        if value is None:
            label = "chart.skipped" if run.accuracy is None else "page.missed"
            found.append(Bar(value=None, label=phrase(label, lang)))
            said.append("")
        else:
            color = "baseline" if run is result.baseline else _nearer(value, baseline)
            found.append(Bar(value=value, low=value, high=value, label=seconds(value), color=color))
            said.append(
                phrase("page.to_accuracy_said", lang, name=name, seconds=seconds(value), target=target)
            )
        rows.append((name, seconds(value)))
    axis = phrase("page.to_accuracy_axis", lang, target=target)
    return _figure("to_accuracy", found, said, ("recipe", "to_accuracy"), rows, result, lang, title=axis)


def memory_figure(result: Result, lang: str) -> Figure | None:
    """Peak memory over the inputs; None where none was measured."""
    said, rows = [], []
    for name, run in _named(result):
        parts = [phrase("page.memory_said", lang, name=name, memory=size(run.peak_bytes))]
        times = MISSING
        if run is not result.baseline and run.peak_bytes is not None and result.baseline.peak_bytes:
            times = number(run.peak_bytes / result.baseline.peak_bytes)
            if memory_change(run, result.baseline) in ("less", "more"):
                parts.append(phrase("page.times_said", lang, times=times))
        said.append(tip(*parts) if run.peak_bytes is not None else "")
        rows.append((name, size(run.peak_bytes), times))
    return _figure(
        "memory", memory_bars(result, lang), said, ("recipe", "memory", "change"), rows, result, lang
    )


def _nearer(value: float, baseline: float | None) -> str:
    """The key of a colour: such times carry no interval, so nearer than 10 % is no clear change."""
    if not baseline:
        return "alone"
    if abs(value / baseline - 1) <= 0.10:
        return "same"
    return "better" if value < baseline else "worse"


def _named(result: Result) -> Sequence[tuple[str, Run]]:
    return list(zip(recipe_names(result), result.runs, strict=True))


def _time_said(name: str, run: Run, result: Result, lang: str) -> str:
    time, ratio = measured(run.time_per_epoch_ms), measured(run.ratio_to_baseline)
    if time is None:
        return ""
    first = phrase("page.time_said", lang, name=name, time=number(time.median), span=span(time))
    kind = change(run, result.baseline)
    if kind == "same":
        return tip(first, phrase("page.same_said", lang))
    if kind == "alone" or ratio is None:
        return first
    return tip(first, phrase("page.ratio_said", lang, ratio=number(ratio.median), span=span(ratio)))


def _ratio_cell(run: Run, result: Result, lang: str) -> str:
    ratio, kind = measured(run.ratio_to_baseline), change(run, result.baseline)
    if kind == "same":
        return phrase("table.same", lang)
    return MISSING if kind == "alone" or ratio is None else f"{number(ratio.median)}× ({span(ratio)})"


def _figure(
    key: str,
    found: list[Bar],
    said: list[str],
    head: tuple[str, ...],
    rows: list[tuple[str, ...]],
    result: Result,
    lang: str,
    title: str | None = None,
) -> Figure | None:
    """A figure of bars, whose longest leaves room for its label."""
    drawn = [bar for bar in found if bar.value]
    if not drawn:
        return None
    start, end = _ends(drawn)
    used = [kind for kind in COLORS if any(bar.color == kind for bar in drawn)]
    title = title or phrase(f"chart.{key}", lang)
    data: list[dict[str, Any]] = []
    for name, bar, sentence in zip(recipe_names(result), found, said, strict=True):
        value = bar.value or None
        data.append(
            {
                "recipe": name,
                "value": value,
                "low": bar.low if value else None,
                "high": bar.high if value else None,
                "end": max(value, bar.high) if value else None,
                "label": bar.label,
                "short": bar.label.partition("  (")[0],
                "kind": phrase(f"chart.{bar.color}", lang),
                "tip": sentence,
                "said": sentence.replace("\n", "; "),
            }
        )
    first = [{"value": found[0].value}] if found[0].value else []
    return Figure(
        key=key,
        title=title,
        note=phrase("chart.error", lang) if key == "time" else "",
        spec=bars(
            title,
            start=start,
            end=end,
            kinds=[phrase(f"chart.{kind}", lang) for kind in used],
            colors=[f"${kind}" for kind in used],
            num_rows=len(found),
        ),
        datasets={"bars": data, "baseline": first},
        head=tuple(header_line(column, lang) for column in head),
        rows=rows,
    )


def _ends(drawn: list[Bar]) -> tuple[float, float]:
    """The ends of the axis: room before the shortest bar, and for labels after the longest."""
    lows = [min(bar.low, bar.value) if bar.low > 0 else bar.value for bar in drawn if bar.value]
    highs = [max(bar.high, bar.value) for bar in drawn if bar.value]
    low, high = math.log10(min(lows)), math.log10(max(highs))
    start = low - max(0.25 * (high - low), 0.35)
    return 10**start, 10 ** (start + (high - start) / (1 - LABEL_SHARE))
