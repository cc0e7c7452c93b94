"""Rungs as JSON and back: `{"rung": "sample", "knobs": {"batch_size": 128, "num_neighbors": [10, 5]}}`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from fasthop.errors import InvalidConfig
from fasthop.measure.schema import check_fields
from fasthop.rewrites.amp import DTYPES
from fasthop.rewrites.base import Rung
from fasthop.rewrites.ladder import RUNGS, Recipe
from fasthop.rewrites.pyg_sparse import FORMS
from fasthop.train.compiled import MODES

MOST_RUNGS = 32
MOST_COUNT = 2**31 - 1
# What a knob that is a word may be.
WORDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("amp", "dtype"): ("auto", *DTYPES),
    ("compile", "mode"): tuple(MODES),
    ("pyg_sparse", "form"): ("auto", *FORMS),
}
_BY_NAME = {rung.name: rung for rung in RUNGS}


def rungs_to_json(rungs: Iterable[Rung]) -> list[dict[str, Any]]:
    """The rungs in order, each with all of its knobs."""
    return [
        {"rung": rung.name, "knobs": {name: _plain(getattr(rung, name)) for name in rung.knobs}}
        for rung in rungs
    ]


def rungs_from_json(entries: Any) -> tuple[Rung, ...]:
    """The rungs that `rungs_to_json` told. Raises InvalidConfig where an entry is not one, a rung is unknown or there twice,
    or a knob is unknown or of a value that it cannot have."""
    if not isinstance(entries, Sequence) or isinstance(entries, str | bytes) or len(entries) > MOST_RUNGS:
        raise InvalidConfig(f"rungs is {_shown(entries)}; it is a list of at most {MOST_RUNGS} rungs.")
    rungs = tuple(_rung(entry) for entry in entries)
    names = [rung.name for rung in rungs]
    for name in names:
        if names.count(name) > 1:
            raise InvalidConfig(
                f"The rung {name!r} is there {names.count(name)} times; it can be there once."
            )
    return rungs


def recipe_from_json(name: str, entries: Any) -> Recipe:
    """The recipe of that name and those rungs. Raises InvalidConfig as `rungs_from_json` does."""
    return Recipe(name=name, rungs=rungs_from_json(entries))


def _rung(entry: Any) -> Rung:
    if not isinstance(entry, dict) or set(entry) - {"rung", "knobs"} or "rung" not in entry:
        raise InvalidConfig(f'{_shown(entry)} is no rung; one is {{"rung": name, "knobs": {{...}}}}.')
    name, knobs = entry["rung"], entry.get("knobs", {})
    if not isinstance(name, str) or name not in _BY_NAME:
        raise InvalidConfig(f"There is no rung named {_shown(name)}; there are {', '.join(_BY_NAME)}.")
    if not isinstance(knobs, dict):
        raise InvalidConfig(f"The knobs of {name!r} are {_shown(knobs)}; they are a table by name.")
    kind = _BY_NAME[name]
    known = [field.name for field in dataclasses.fields(kind)]
    for knob in knobs:
        if knob not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise InvalidConfig(f"The rung {name!r} has no knob {_shown(knob)}; {has}.")
    rung = kind(**{knob: tuple(value) if isinstance(value, list) else value for knob, value in knobs.items()})
    try:
        check_fields(rung, name)
    except ValueError as error:
        raise InvalidConfig(f"A knob has a value of the wrong kind: {error}.") from None
    for knob in known:
        _check_knob(name, knob, getattr(rung, knob))
    return rung


def _check_knob(rung: str, knob: str, value: Any) -> None:
    words = WORDS.get((rung, knob))
    if words is not None and value not in words:
        raise InvalidConfig(f"{rung}.{knob} is {_shown(value)}; it is one of {', '.join(words)}.")
    if isinstance(value, int) and not 1 <= value <= MOST_COUNT:
        raise InvalidConfig(f"{rung}.{knob} is {value}; it is a whole number from 1 to {MOST_COUNT:,}.")
    if isinstance(value, tuple):
        if not 1 <= len(value) <= 1000:
            raise InvalidConfig(f"{rung}.{knob} has {len(value)} entries; it has one a hop.")
        for count in value:
            if count != -1 and not 1 <= count <= MOST_COUNT:
                raise InvalidConfig(
                    f"{rung}.{knob} has the entry {count}; each is at least 1, or -1 for all."
                )


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
