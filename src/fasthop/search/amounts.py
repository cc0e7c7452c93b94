"""Amounts as people write them: "2GiB", "300 MB", "10min", "1.5h"."""

from __future__ import annotations

import re

from fasthop.errors import InvalidConfig

BYTES = {
    "": 1, "b": 1,
    "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
}  # fmt: skip
SECONDS = {"": 1.0, "s": 1.0, "sec": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
MOST_BYTES = 2**60
MOST_SECONDS = 1e9
_AMOUNT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE)


def as_bytes(value: str | int | float, name: str = "memory") -> int:
    """Bytes of "2GiB", "300MB", "512m" (powers of 1,024 without the B) or a number of bytes. Raises InvalidConfig."""
    amount = _amount(value, BYTES, name, "an amount of memory such as 2GiB or 300MB")
    if not 1 <= amount <= MOST_BYTES:
        raise InvalidConfig(
            f"{name} is {value!r}; it is at least 1 byte and at most {MOST_BYTES >> 40:,} TiB."
        )
    return int(amount)


def as_seconds(value: str | int | float, name: str = "budget") -> float:
    """Seconds of "10min", "90s", "1.5h" or a number of seconds. Raises InvalidConfig."""
    amount = _amount(value, SECONDS, name, "a time such as 10min, 90s or 1.5h")
    if not 0 < amount <= MOST_SECONDS:
        raise InvalidConfig(f"{name} is {value!r}; it is more than 0 and at most {MOST_SECONDS:g} seconds.")
    return float(amount)


def bytes_text(num_bytes: float) -> str:
    """For people: "1.5 GiB", "300 MiB"."""
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if num_bytes >= size:
            return (
                f"{num_bytes / size:.3g} {unit}"
                if num_bytes < 1000 * size
                else f"{num_bytes / size:,.0f} {unit}"
            )
    return f"{num_bytes:.0f} bytes"


def seconds_text(seconds: float) -> str:
    """For people: "4 min 10 s", "12 s"."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.3g} s" if seconds < 10 else f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


def _amount(value: object, units: dict[str, float] | dict[str, int], name: str, what: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    match = _AMOUNT.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[2].lower() not in units:
        raise InvalidConfig(f"{name} is {value!r}; give {what}.")
    return float(match[1]) * units[match[2].lower()]
