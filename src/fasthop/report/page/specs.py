"""Pieces of Vega-Lite that the figures are made of. Colours are names of the page's theme, written "$ink"."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

Spec = dict[str, Any]
NUM_SERIES = 8
DASHES = ([], [6, 3], [2, 2], [8, 3, 2, 3])
LEGEND: Spec = {"title": None, "orient": "bottom", "columns": "$columns"}
# Every mark that can be pointed at shows `tip` and is read out as `said`.
POINTED: Spec = {
    "tooltip": {"field": "tip", "type": "nominal"},
    "description": {"field": "said", "type": "nominal"},
}


def series_colors(count: int) -> list[str]:
    """The colours of `count` recipes or parts in order; the first is the baseline's grey."""
    return [f"$series{place % NUM_SERIES}" for place in range(count)]


def part_colors(count: int) -> list[str]:
    """The colours of `count` parts of a whole: all but grey, and then the same lighter."""
    others = NUM_SERIES - 1
    return [f"${'light' if place // others % 2 else 'series'}{1 + place % others}" for place in range(count)]


def recipe_axis() -> Spec:
    """The recipes from top to bottom, in the ladder's order."""
    return {
        "field": "recipe",
        "type": "nominal",
        "sort": None,
        "title": None,
        "axis": {
            "domain": False,
            "ticks": False,
            "grid": False,
            "labelLimit": "$label_limit",
            "labelPadding": 6,
        },
    }


def log_scale(start: float, end: float) -> Spec:
    """A logarithmic scale from `start` to `end`."""
    return {"type": "log", "domain": [start, end], "nice": False}


def log_ticks(start: float, end: float) -> list[float]:
    """Decades within the ends, with 2 and 5 between where there are few of them."""
    steps = (1, 2, 5) if math.log10(end / start) <= 2.5 else (1,)
    decades = range(math.floor(math.log10(start)), math.ceil(math.log10(end)) + 1)
    return [tick for exponent in decades for step in steps if start <= (tick := step * 10.0**exponent) <= end]


def log_axis(title: str, start: float, end: float) -> Spec:
    """The axis of such a scale, its figures as 0.5, 20 and 1,000."""
    return {
        "title": title,
        "values": log_ticks(start, end),
        "format": ",~r",
        "labelOverlap": True,
        "domain": False,
    }


def bars(
    title: str, *, start: float, end: float, kinds: Sequence[str], colors: Sequence[str], num_rows: int
) -> Spec:
    """Horizontal bars on a logarithmic axis with intervals and labels.

    The data set "bars" has recipe, value, low, high, end (where the label starts), label, short (the label where there is
    little room), kind, tip and said; value is null where there is only a label. The baseline's value stands in the data set "baseline" as a dashed line.
    """
    scale, axis = log_scale(start, end), log_axis(title, start, end)

    def x(field: str) -> Spec:
        return {"field": field, "type": "quantitative", "scale": scale, "axis": axis}

    def layer(mark: Spec, only: str, **encoding: Spec) -> Spec:
        return {"transform": [{"filter": only}], "mark": mark, "encoding": encoding}

    legend = {"title": None, "orient": "bottom", "columns": "$columns", "symbolType": "square"}
    color = {
        "field": "kind",
        "type": "nominal",
        "scale": {"domain": list(kinds), "range": list(colors)},
        "legend": legend,
    }
    there, ranged = "isValid(datum.value)", "isValid(datum.value) && datum.high > datum.low"
    return {
        "width": "container",
        "height": 34 * num_rows,
        "data": {"name": "bars"},
        "encoding": {"y": recipe_axis()},
        "layer": [
            layer(
                {"type": "bar", "height": {"band": 0.6}, "cursor": "default"},
                there,
                x=x("value"),
                x2={"datum": start},
                color=color,
                **POINTED,
            ),
            layer(
                {"type": "rule", "color": "$ink", "strokeWidth": 1.5, "aria": False},
                ranged,
                x=x("low"),
                x2={"field": "high"},
            ),
            *(
                layer(
                    {"type": "tick", "color": "$ink", "thickness": 1.5, "size": 9, "aria": False},
                    ranged,
                    x=x(side),
                )
                for side in ("low", "high")
            ),
            layer(
                {"type": "text", "align": "left", "dx": 7, "color": "$ink", "aria": False},
                there,
                x=x("end"),
                text={"field": "$label", "type": "nominal"},
            ),
            layer(
                {
                    "type": "text",
                    "align": "left",
                    "dx": 4,
                    "color": "$faint",
                    "fontStyle": "italic",
                    "aria": False,
                },
                "!isValid(datum.value)",
                x={"datum": start, "type": "quantitative", "scale": scale},
                text={"field": "label", "type": "nominal"},
            ),
            {
                "data": {"name": "baseline"},
                "mark": {
                    "type": "rule",
                    "color": "$ink",
                    "strokeDash": [4, 3],
                    "opacity": 0.6,
                    "aria": False,
                },
                "encoding": {"x": x("value"), "y": {"value": 0}, "y2": {"value": "height"}},
            },
        ],
    }


def stacked(
    title: str, *, field: str, axis: Spec, parts: Sequence[str], colors: Sequence[str], num_rows: int
) -> Spec:
    """Horizontal bars of parts that lie behind one another. The data set "parts" has recipe, part, order, `field`,
    tip and said."""
    return {
        "width": "container",
        "height": 34 * num_rows,
        "data": {"name": "parts"},
        "mark": {"type": "bar", "height": {"band": 0.68}, "cursor": "default", "stroke": "$paper"},
        "encoding": {
            "y": recipe_axis(),
            "x": {
                "field": field,
                "type": "quantitative",
                "stack": "zero",
                "axis": {"title": title, "domain": False, "tickCount": 5, **axis},
            },
            "color": {
                "field": "part",
                "type": "nominal",
                "scale": {"domain": list(parts), "range": list(colors)},
                "legend": {"title": None, "orient": "bottom", "columns": "$columns", "symbolType": "square"},
            },
            "order": {"field": "order", "type": "quantitative"},
            **POINTED,
        },
    }


def recipe_color(names: Sequence[str]) -> Spec:
    """One colour a recipe, and its legend."""
    return {
        "field": "recipe",
        "type": "nominal",
        "scale": {"domain": list(names), "range": series_colors(len(names))},
        "legend": LEGEND,
    }


def recipe_dash(names: Sequence[str]) -> Spec:
    """One dash a round of colours, so that lines of one colour stay apart."""
    dashes = [DASHES[(place // NUM_SERIES) % len(DASHES)] or [1, 0] for place in range(len(names))]
    return {
        "field": "recipe",
        "type": "nominal",
        "scale": {"domain": list(names), "range": dashes},
        "legend": LEGEND,
    }
