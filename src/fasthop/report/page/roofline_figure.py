"""The roofline (Williams, Waterman and Patterson 2009): each recipe's speed beside what the machine allows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fasthop.measure.run import Result, Run
from fasthop.report.figures import measured, number, size
from fasthop.report.page.figure import Figure, tip
from fasthop.report.page.ladder_figures import recipe_names
from fasthop.report.page.specs import POINTED, log_axis, log_scale, recipe_color
from fasthop.report.peaks import peaks_of
from fasthop.report.rows import header_line
from fasthop.report.words import phrase

SLOPES = {"copy_gb_per_s": "page.roof_copy", "gather_gb_per_s": "page.roof_gather"}
CEILINGS = {"matmul_fp32_gflops": "page.roof_fp32", "matmul_bf16_gflops": "page.roof_bf16"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """A recipe on the plot. intensity: FLOP a byte; speed: GFLOP/s at its measured time."""

    intensity: float
    speed: float
    time_ms: float


def point(run: Run) -> Point | None:
    """Where a run lies, or None where its work or its time is not known."""
    time = measured(run.time_per_epoch_ms)
    if time is None or not time.median or not run.flops or not run.moved_bytes:
        return None
    return Point(
        intensity=run.flops / run.moved_bytes, speed=run.flops / time.median / 1e6, time_ms=time.median
    )


def roofline_figure(result: Result, lang: str) -> Figure | None:
    """The plot; None where no recipe has its work counted."""
    points = {
        name: place
        for name, run in zip(recipe_names(result), result.runs, strict=True)
        if (place := point(run)) is not None
    }
    if not points:
        return None
    peaks = {name: peak for name, peak in peaks_of(result).items() if name in {**SLOPES, **CEILINGS}}
    data, rows = [], []
    for name, place in points.items():
        fields = {
            "speed": number(place.speed),
            "intensity": number(place.intensity),
            "time": number(place.time_ms),
        }
        said = phrase("page.roofline_said", lang, name=name, **fields)
        data.append({"recipe": name, "x": place.intensity, "y": place.speed, "tip": tip(said), "said": said})
        rows.append((name, fields["intensity"], fields["speed"], fields["time"]))
    ends = _ends([place.intensity for place in points.values()], peaks)
    roofs, labels = _roofs(peaks, ends, lang)
    heights = [place.speed for place in points.values()] + [roof["y"] for roof in roofs]
    low, high = min(heights) / 2, max(heights) * 2
    x = {
        "field": "x",
        "type": "quantitative",
        "scale": log_scale(*ends),
        "axis": log_axis(phrase("page.intensity_axis", lang), *ends),
    }
    y = {
        "field": "y",
        "type": "quantitative",
        "scale": log_scale(low, high),
        "axis": log_axis(phrase("page.speed_axis", lang), low, high),
    }
    text = {"type": "text", "color": "$faint", "fontSize": 11, "aria": False}
    layers = [
        {
            "data": {"name": "roofs"},
            "mark": {"type": "line", "color": "$faint", "strokeWidth": 1.5, "aria": False},
            "encoding": {"x": x, "y": y, "detail": {"field": "roof", "type": "nominal"}},
        },
        *(
            {
                "data": {"name": f"{side}_labels"},
                "mark": {**text, "align": side, "dx": 6 if side == "left" else -4, "dy": -7},
                "encoding": {"x": x, "y": y, "text": {"field": "roof", "type": "nominal"}},
            }
            for side in ("left", "right")
        ),
        {
            "data": {"name": "points"},
            "mark": {
                "type": "point", "filled": True, "size": 110, "opacity": 1, "stroke": "$paper", "cursor": "default"
            },
            "encoding": {"x": x, "y": y, "color": recipe_color(list(points)), **POINTED},
        },
    ]  # fmt: skip
    return Figure(
        key="roofline",
        title=phrase("page.roofline", lang),
        note=phrase("page.roofline_note", lang) + (" " + phrase("page.no_peaks", lang) if not peaks else ""),
        spec={"width": "container", "height": 340, "layer": layers},
        datasets={"roofs": roofs, "points": data, **labels},
        head=(
            header_line("recipe", lang),
            phrase("col.intensity", lang),
            phrase("col.speed", lang),
            header_line("time", lang),
        ),
        rows=rows + _peak_rows(peaks, lang),
    )


def _ends(intensities: list[float], peaks: Mapping[str, float]) -> tuple[float, float]:
    """The ends of the axis of intensity: the points, and the ridge where memory and arithmetic meet."""
    slopes = [peaks[name] for name in SLOPES if name in peaks]
    ceilings = [peaks[name] for name in CEILINGS if name in peaks]
    ridges = [max(ceilings) / min(slopes)] if slopes and ceilings else []
    return min(intensities + ridges) / 4, max(intensities + ridges) * 4


def _roofs(
    peaks: Mapping[str, float], ends: tuple[float, float], lang: str
) -> tuple[list[dict[str, Any]], dict[str, list[dict[str, Any]]]]:
    """The lines by two points each, and where their names stand. Bandwidths rise up to the highest ceiling."""
    start, end = ends
    top = max((peaks[name] for name in CEILINGS if name in peaks), default=None)
    roofs, left, right = [], [], []
    for name, key in SLOPES.items():
        if name in peaks:
            bend = min(end, top / peaks[name]) if top else end
            roof = f"{phrase(key, lang)} ({number(peaks[name])} GB/s)"
            roofs += [{"roof": roof, "x": x, "y": x * peaks[name]} for x in (start, bend)]
            left.append({"roof": roof, "x": start, "y": start * peaks[name]})
    slope = max((peaks[name] for name in SLOPES if name in peaks), default=None)
    for name, key in CEILINGS.items():
        if name in peaks:
            begin = max(start, peaks[name] / slope) if slope else start
            roof = f"{phrase(key, lang)} ({number(peaks[name])} GFLOP/s)"
            roofs += [{"roof": roof, "x": x, "y": peaks[name]} for x in (begin, end)]
            right.append({"roof": roof, "x": end, "y": peaks[name]})
    return roofs, {"left_labels": left, "right_labels": right}


def _peak_rows(peaks: Mapping[str, float], lang: str) -> list[tuple[str, ...]]:
    """The machine's limits as rows below the recipes'."""
    dash = "–"
    rows: list[tuple[str, ...]] = []
    for name, key in {**SLOPES, **CEILINGS}.items():
        if name in peaks:
            unit = " GB/s" if name in SLOPES else ""
            rows.append((phrase(key, lang), dash, f"{number(peaks[name])}{unit}", dash))
    return rows


def work_rows(result: Result, lang: str) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The table of floors and predictions: head and rows, none where no recipe has either."""
    head = (
        header_line("recipe", lang),
        *(
            phrase(f"col.{key}", lang)
            for key in ("flops", "moved", "floor", "floor_share", "predicted", "measured")
        ),
    )
    rows = []
    for name, run in zip(recipe_names(result), result.runs, strict=True):
        if (
            run.flops is None
            and run.moved_bytes is None
            and run.floor_ms is None
            and run.predicted_ratio is None
        ):
            continue
        time, ratio = measured(run.time_per_epoch_ms), measured(run.ratio_to_baseline)
        share = (
            100 * run.floor_ms / time.median if run.floor_ms is not None and time and time.median else None
        )
        rows.append(
            (
                name,
                number(None if run.flops is None else run.flops / 1e9),
                size(run.moved_bytes),
                number(run.floor_ms),
                number(share),
                number(run.predicted_ratio),
                number(ratio.median if ratio else None),
            )
        )
    return head, rows
