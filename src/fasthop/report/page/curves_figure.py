"""The figure of validation accuracy against seconds of training."""

from __future__ import annotations

import math
import statistics

from fasthop.measure.run import Result, Run
from fasthop.report.figures import fixed, seconds
from fasthop.report.page.figure import Figure, tip
from fasthop.report.page.ladder_figures import recipe_names
from fasthop.report.page.specs import POINTED, log_axis, log_scale, recipe_color, recipe_dash
from fasthop.report.rows import header_line
from fasthop.report.words import phrase

MOST_DOTS = 12  # dots a recipe that can be pointed at, and rows of the table; the lines have every evaluation


def mean_curve(run: Run) -> list[tuple[float, float]]:
    """Seconds and accuracy in percent, the means over seeds at equal evaluations, as far as every seed has them."""
    curves = [curve for curve in run.curve if curve]
    points = []
    for same in zip(*curves, strict=False):
        time, accuracy = (statistics.fmean(values) for values in zip(*same, strict=True))
        if math.isfinite(time) and math.isfinite(accuracy) and time > 0:
            points.append((time, accuracy))
    return points


def thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most MOST_DOTS of the points, evenly apart, the first and the last among them."""
    if len(points) <= MOST_DOTS:
        return points
    step = (len(points) - 1) / (MOST_DOTS - 1)
    return [points[round(place * step)] for place in range(MOST_DOTS)]


def curves_figure(result: Result, lang: str) -> Figure | None:
    """One line a recipe; None where no recipe has a curve."""
    names = recipe_names(result)
    curves = {
        name: points for name, run in zip(names, result.runs, strict=True) if (points := mean_curve(run))
    }
    if not curves:
        return None
    lines, dots, rows = [], [], []
    for name, points in curves.items():
        lines += [{"recipe": name, "time": time, "accuracy": accuracy} for time, accuracy in points]
        for time, accuracy in thinned(points):
            fields = {"accuracy": fixed(accuracy), "seconds": seconds(time)}
            said = phrase("page.curve_said", lang, name=name, **fields)
            dots.append({"recipe": name, "time": time, "accuracy": accuracy, "tip": tip(said), "said": said})
            rows.append((name, fields["seconds"], fields["accuracy"]))
    times = [point[0] for points in curves.values() for point in points]
    start, end = min(times) / 1.1, max(times) * 1.1
    x = {
        "field": "time",
        "type": "quantitative",
        "scale": log_scale(start, end),
        "axis": log_axis(phrase("page.seconds_axis", lang), start, end),
    }
    y = {
        "field": "accuracy",
        "type": "quantitative",
        "scale": {"zero": False},
        "axis": {"title": phrase("page.accuracy_axis", lang), "domain": False},
    }
    color, dash = recipe_color(list(curves)), recipe_dash(list(curves))
    layers = [
        {
            "data": {"name": "lines"},
            "mark": {"type": "line", "strokeWidth": 2, "aria": False},
            "encoding": {"x": x, "y": y, "color": color, "strokeDash": dash},
        },
        {
            "data": {"name": "dots"},
            "mark": {"type": "point", "filled": True, "size": 34, "opacity": 1, "cursor": "default"},
            "encoding": {"x": x, "y": y, "color": color, **POINTED},
        },
        {
            "data": {"name": "target"},
            "mark": {"type": "rule", "color": "$ink", "strokeDash": [4, 3], "opacity": 0.6, "aria": False},
            "encoding": {"y": y},
        },
    ]
    target = [] if result.target_accuracy is None else [{"accuracy": result.target_accuracy}]
    return Figure(
        key="curves",
        title=phrase("page.curves", lang),
        note=phrase("page.curves_note", lang),
        spec={"width": "container", "height": 320, "layer": layers},
        datasets={"lines": lines, "dots": dots, "target": target},
        head=(header_line("recipe", lang), phrase("col.seconds", lang), phrase("col.validation", lang)),
        rows=rows,
    )
