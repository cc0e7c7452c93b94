"""ladder.png and ladder.svg: time per epoch and peak memory of every recipe, on logarithmic scales."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from fasthop.measure.run import Result, Run
from fasthop.report.circumstances import subject
from fasthop.report.explain import memory_change
from fasthop.report.figures import measured, number, size
from fasthop.report.rows import change
from fasthop.report.typeface import drawable, typeface
from fasthop.report.words import check_lang, phrase

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which stay apart for every kind of colour blindness, and in grey by lightness.
COLORS = {
    "baseline": "#4d4d4d",
    "better": "#0072b2",
    "worse": "#e69f00",
    "same": "#a6cbe3",
    "alone": "#bdbdbd",
}
BETTER = {"faster": "better", "less": "better", "slower": "worse", "more": "worse"}
INK, FAINT = "#1a1a1a", "#6b6b6b"
WIDTH_IN, DPI = 10.0, 160  # 1,600 pixels, drawn at about half of that in a README
LABEL_SHARE = 0.40  # the part of a panel's width that is kept free to the right of the longest bar


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """One bar: its value and ends, its label, and the key of its colour. value None: not measured."""

    value: float | None
    low: float = 0.0
    high: float = 0.0
    label: str = ""
    color: str = "alone"


def time_bars(result: Result, lang: str) -> list[Bar]:
    """The time per epoch in milliseconds of every run, with its interval."""
    return [_time_bar(run, result.baseline, lang) for run in result.runs]


def _time_bar(run: Run, baseline: Run, lang: str) -> Bar:
    time, ratio = measured(run.time_per_epoch_ms), measured(run.ratio_to_baseline)
    if time is None:
        return Bar(value=None, label=phrase("chart.skipped", lang))
    kind = change(run, baseline)
    label = number(time.median)
    if kind in ("faster", "slower") and ratio is not None:
        label += f"  ({number(ratio.median)}×)"
    elif kind == "same":
        label += f"  ({phrase('chart.not_significant', lang)})"
    color = "baseline" if run is baseline else BETTER.get(kind, kind)
    return Bar(value=time.median, low=time.low, high=time.high, label=label, color=color)


def memory_bars(result: Result, lang: str) -> list[Bar]:
    """The peak memory in megabytes of every run."""
    bars = []
    for run in result.runs:
        if run.peak_bytes is None:
            bars.append(Bar(value=None, label=phrase("chart.skipped", lang)))
            continue
        kind = memory_change(run, result.baseline)
        value = run.peak_bytes / 1e6
        color = "baseline" if run is result.baseline else BETTER.get(kind, kind)
        bars.append(Bar(value=value, low=value, high=value, label=size(run.peak_bytes), color=color))
    return bars


def draw(result: Result, lang: str = "en") -> Figure:
    """The chart as a matplotlib Figure of its own, apart from pyplot and the user's style.

    Raises InvalidConfig for an unknown language.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    check_lang(lang)
    with rc_context(_defaults()):
        count = len(result.runs)
        height = 1.55 + 0.42 * count
        figure = Figure(figsize=(WIDTH_IN, height), dpi=DPI, facecolor="white")
        FigureCanvasAgg(figure)
        left = _names_width(result, lang) / WIDTH_IN
        bottom, top = 0.80 / height, 1 - 0.72 / height
        gap = 0.02
        panel = (0.985 - left - gap) / 2
        panels = (("chart.time", time_bars(result, lang)), ("chart.memory", memory_bars(result, lang)))
        for place, (key, bars) in enumerate(panels):
            axes = figure.add_axes((left + place * (panel + gap), bottom, panel, top - bottom))
            _panel(axes, bars, lang)
            if place == 0:
                _names(axes, result, lang)
            axes.set_title(
                phrase(key, lang), fontproperties=typeface(lang, 11, bold=True), color=INK, loc="left", pad=8
            )
        _frame(figure, result, lang, height, {bar.color for _, bars in panels for bar in bars if bar.value})
    return figure


def chart_bytes(result: Result, lang: str = "en") -> dict[str, bytes]:
    """The chart as {"png": ..., "svg": ...}. In the SVG all text is paths, so it needs no font;
    the same result gives the same bytes. Raises InvalidConfig for an unknown language."""
    from matplotlib import rc_context

    figure = draw(result, lang)
    files = {}
    with rc_context(_defaults()):
        for kind in ("png", "svg"):
            buffer = io.BytesIO()
            metadata: dict[str, Any] = (
                {"Software": None} if kind == "png" else {"Date": None, "Creator": "fasthop"}
            )
            figure.savefig(buffer, format=kind, dpi=DPI, metadata=metadata)
            files[kind] = buffer.getvalue()
    return files


def _defaults() -> dict[Any, Any]:
    """matplotlib's own defaults, so that a user's style sheet does not reach the chart."""
    from matplotlib import rcParamsDefault

    kept = {
        k: v for k, v in rcParamsDefault.items() if "backend" not in k and k not in ("interactive", "toolbar")
    }
    return kept | {"svg.fonttype": "path", "svg.hashsalt": "fasthop", "axes.unicode_minus": False}


def _limits(bars: Sequence[Bar]) -> tuple[float, float]:
    """The ends of a logarithmic axis: room before the shortest bar, and for labels after the longest."""
    values = [bar.value for bar in bars if bar.value]
    if not values:
        return 0.1, 10.0
    low = math.log10(min(min(bar.low, bar.value) if bar.low > 0 else bar.value for bar in bars if bar.value))
    high = math.log10(max(max(bar.high, bar.value) for bar in bars if bar.value))
    start = low - max(0.25 * (high - low), 0.35)
    return 10**start, 10 ** (start + (high - start) / (1 - LABEL_SHARE))


def _panel(axes: Axes, bars: Sequence[Bar], lang: str) -> None:
    """One panel of horizontal bars, the first recipe on top."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    small = typeface(lang, 9)
    start, end = _limits(bars)
    axes.set_xscale("log")
    axes.set_xlim(start, end)
    axes.set_ylim(len(bars) - 0.4, -0.6)
    for place, bar in enumerate(bars):
        if not bar.value:
            text = bar.label
            axes.text(
                start, place, f" {text}", va="center", fontproperties=small, color=FAINT, style="italic"
            )
            continue
        axes.barh(place, bar.value - start, left=start, height=0.62, color=COLORS[bar.color], zorder=2)
        if bar.high > bar.low > 0:
            ends = [[bar.value - bar.low], [bar.high - bar.value]]
            axes.errorbar(bar.value, place, xerr=ends, color=INK, capsize=3, elinewidth=1.1, zorder=4)
        axes.annotate(
            bar.label,
            (max(bar.value, bar.high), place),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontproperties=typeface(lang, 9.5),
            color=INK,
            zorder=5,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
        )
    if bars[0].value:
        axes.axvline(bars[0].value, color=COLORS["baseline"], linestyle=(0, (4, 3)), linewidth=1.0, zorder=3)
    axes.set_yticks([])
    axes.tick_params(axis="x", colors=FAINT, which="both")
    decades = math.log10(end / start)
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if decades > 2.5 else (1.0, 2.0, 5.0), numticks=12))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _tick(value)))
    axes.xaxis.set_minor_locator(
        NullLocator() if decades <= 2.5 else LogLocator(subs=(2.0, 5.0), numticks=24)
    )
    axes.xaxis.set_minor_formatter(NullFormatter())
    for label in axes.get_xticklabels():
        label.set_fontproperties(small)
    axes.grid(axis="x", color="#e3e3e3", linewidth=0.8, zorder=0)
    axes.set_axisbelow(True)
    for side in ("top", "right", "bottom"):
        axes.spines[side].set_visible(False)
    axes.spines["left"].set_color("#9a9a9a")


def _names_width(result: Result, lang: str) -> float:
    """The inches that the widest name takes, with its distance from the bars and from the edge."""
    from matplotlib.textpath import TextPath

    font = typeface(lang, 10)
    points = max(TextPath((0, 0), drawable(run.name), prop=font).get_extents().width for run in result.runs)
    return min(max(points, 52.0) / 72 + 0.30, 0.4 * WIDTH_IN)


def _names(axes: Axes, result: Result, lang: str) -> None:
    """The recipes' names left of the bars, with the steps an epoch where they differ from the baseline's."""
    for place, run in enumerate(result.runs):
        steps, usual = run.num_steps_per_epoch, result.baseline.num_steps_per_epoch
        named = bool(steps and usual and steps != usual)
        at = partial(
            axes.annotate,
            xy=(0, place),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            ha="right",
            va="center",
        )
        at(drawable(run.name), xytext=(-8, 5 if named else 0), fontproperties=typeface(lang, 10), color=INK)
        if named:
            words = phrase("chart.steps", lang, steps=f"{steps:,}")
            at(words, xytext=(-8, -7), fontproperties=typeface(lang, 8), color=FAINT)


def _tick(value: float) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def _frame(figure: Figure, result: Result, lang: str, height: float, used: set[str]) -> None:
    """Title, the legend of the colours that occur, and how to read the bars."""
    from matplotlib.patches import Patch

    title = phrase("chart.title", lang, **{key: drawable(name) for key, name in subject(result).items()})
    if not result.finished:
        title += f" ({phrase('chart.unfinished', lang)})"
    figure.text(
        0.015,
        1 - 0.16 / height,
        title,
        fontproperties=typeface(lang, 12.5, bold=title.isascii()),
        color=INK,
        va="top",
    )
    small = typeface(lang, 9)
    order = [key for key in COLORS if key in used]
    if order:
        figure.legend(
            handles=[Patch(color=COLORS[key], label=phrase(f"chart.{key}", lang)) for key in order],
            loc="lower right",
            bbox_to_anchor=(0.99, 0.28 / height),
            ncols=len(order),
            frameon=False,
            prop=small,
            handlelength=1.1,
            handleheight=0.9,
            columnspacing=1.3,
            borderaxespad=0.1,
        )
    lines = [phrase("chart.lower", lang), phrase("chart.error", lang)]
    figure.text(0.015, 0.34 / height, lines[0], fontproperties=small, color=FAINT, va="bottom")
    figure.text(0.015, 0.13 / height, lines[1], fontproperties=small, color=FAINT, va="bottom")
