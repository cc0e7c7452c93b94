"""How a figure is written: three significant digits, one way everywhere, a dash where none was measured."""

from __future__ import annotations

import math

from fasthop.measure.run import Interval

MISSING = "–"
UNITS = ("B", "kB", "MB", "GB", "TB")


def is_measured(value: float | None) -> bool:
    """Whether `value` is a finite number."""
    return value is not None and math.isfinite(value)


def measured(interval: Interval | None) -> Interval | None:
    """The interval, or None where its median is not a finite number."""
    return interval if interval is not None and is_measured(interval.median) else None


def number(value: float | None) -> str:
    """Three significant digits, thousands grouped: 0.452, 5.41, 54.1, 541, 12,200, 0."""
    if value is None or not math.isfinite(value):
        return MISSING
    size = abs(float(f"{value:.3g}"))
    if size >= 1000:
        return f"{value:,.0f}"
    if size == 0:
        return "0"
    if size < 1e-4:
        return f"{value:.3g}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(size)))}f}"


def span(interval: Interval) -> str:
    """The ends of an interval: 5.32–5.50."""
    return f"{number(interval.low)}–{number(interval.high)}"


def fixed(value: float | None, digits: int = 1) -> str:
    """A number with `digits` digits after the point and no minus before a zero."""
    if value is None or not math.isfinite(value):
        return MISSING
    return f"{round(value, digits) + 0.0:.{digits}f}"


def seconds(value: float | None) -> str:
    """Seconds to the millisecond at most: a first epoch of 0.0004 s is 0.000."""
    if value is None or not math.isfinite(value):
        return MISSING
    return "0" if value == 0 else fixed(value, 3) if abs(value) < 0.1 else number(value)


def size(num_bytes: float | None) -> str:
    """Bytes in decimal units: 12.3 MB is 12,300,000 bytes."""
    if num_bytes is None or not math.isfinite(num_bytes):
        return MISSING
    value = float(num_bytes)
    for unit in UNITS:
        if abs(float(f"{value:.3g}")) < 1000 or unit == UNITS[-1]:
            break
        value /= 1000
    return f"{int(num_bytes)} B" if unit == "B" else f"{number(value)} {unit}"
