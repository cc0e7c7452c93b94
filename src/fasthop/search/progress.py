"""Progress: who is told how a bench run gets on. What shows it to a person stands in report/."""

from __future__ import annotations

from typing import Protocol

from fasthop.graph.note import Note

PHASES = ("start", "prepare", "prove", "first_epoch", "timing", "memory", "accuracy")


class Progress(Protocol):
    """What a measurement tells while it runs. `phase` is one of PHASES; `fraction` is from 0 to 1,
    or None where it is not known; `failure` is the reason why a recipe was not measured, by language, or
    None where it was. `close` may come at any time."""

    def start(self, recipes: list[str]) -> None: ...
    def update(self, recipe: str, phase: str, fraction: float | None = None) -> None: ...
    def done(self, recipe: str, failure: Note | None) -> None: ...
    def close(self) -> None: ...


class SilentProgress:
    """Shows nothing."""

    def start(self, recipes: list[str]) -> None:
        pass

    def update(self, recipe: str, phase: str, fraction: float | None = None) -> None:
        pass

    def done(self, recipe: str, failure: Note | None) -> None:
        pass

    def close(self) -> None:
        pass
