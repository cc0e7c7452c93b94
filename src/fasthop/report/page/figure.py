"""A Figure: one chart of the page, as a Vega-Lite specification, and the table that stands behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One chart and its table.

    key: unique on the page in one language. title: the caption. note: how to read it.
    spec: Vega-Lite, in which a text of "$" and a name is a colour of the page's theme ("$ink"); it reads its data from
        `datasets` by name. Every datum that can be pointed at has `tip`, its figures a line each, and `said`, the
        same as a sentence.
    head, rows: the table; left: how many of its columns hold words.
    """

    key: str
    title: str
    spec: dict[str, Any]
    datasets: dict[str, list[dict[str, Any]]]
    head: tuple[str, ...]
    rows: list[tuple[str, ...]]
    note: str = ""
    left: int = 1


def tip(*lines: str) -> str:
    """The lines of what shows on hovering, empty ones left out."""
    return "\n".join(line for line in lines if line)


def unique_names(names: list[str]) -> list[str]:
    """The names of recipes with equal ones told apart: "amp", "amp (2)"; a chart would lay them on one another."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return found
