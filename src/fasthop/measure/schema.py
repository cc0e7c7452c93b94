"""What a result.json may hold: every field of the kind that its dataclass states, every figure possible.

A file that a person or another program changed is refused here in a sentence, and not by whatever reads it next.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any

# No figure of a run comes near it; the chart's logarithms and exponents hold.
MOST = 1e30


def check_fields(value: Any, place: str) -> None:
    """Raises ValueError with the place of the first field of a dataclass that holds what it cannot."""
    hints = typing.get_type_hints(type(value))
    for field in dataclasses.fields(value):
        entry, where = getattr(value, field.name), f"{place}.{field.name}"
        if not _fits(entry, hints[field.name]):
            raise ValueError(f"{where} is {_shown(entry)}")


def check_measured(value: Any, place: str) -> None:
    """`check_fields`, and that every number is from 0 to `MOST`, and every interval in order."""
    check_fields(value, place)
    for field in dataclasses.fields(value):
        entry, where = getattr(value, field.name), f"{place}.{field.name}"
        if isinstance(entry, int | float) and not 0 <= entry <= MOST:
            raise ValueError(f"{where} is {_shown(entry)}")
    if hasattr(value, "median") and not value.low <= value.median <= value.high:
        raise ValueError(f"{place} has a median of {value.median} outside {value.low} to {value.high}")


def check_dicts(entries: Any, place: str) -> None:
    """Raises ValueError unless this is a list (or nothing) of dicts."""
    if entries is not None and not _fits(entries, list[dict]):
        raise ValueError(f"{place} is {_shown(entries)}")


def _fits(value: Any, hint: Any) -> bool:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return any(_fits(value, part) for part in inner)
    if origin in (tuple, list):
        parts = [part for part in inner if part is not Ellipsis]
        if not isinstance(value, origin):
            return False
        if origin is tuple and len(parts) == len(inner):
            return len(value) == len(parts) and all(map(_fits, value, parts))
        return all(_fits(entry, parts[0]) for entry in value)
    if origin is dict:
        return isinstance(value, dict)
    if hint is Any:
        return True
    if hint is type(None):
        return value is None
    if hint is float:  # JSON writes 1.0 as 1 where other programs do
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, hint) and (hint is bool or not isinstance(value, bool))


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
