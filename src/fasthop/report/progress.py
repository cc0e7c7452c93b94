"""Live progress on standard error: a bar a recipe on a terminal, plain lines elsewhere, or nothing."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from fasthop.graph.note import Note
from fasthop.report.words import LANGUAGES, check_lang, phrase
from fasthop.search.progress import PHASES as PHASES
from fasthop.search.progress import Progress, SilentProgress

if TYPE_CHECKING:
    from rich.progress import TaskID


class PlainProgress:
    """A line whenever a recipe enters a phase for the first time, with the seconds since the start."""

    def __init__(self, lang: str = "en") -> None:
        self._lang = check_lang(lang)
        self._begun = time.monotonic()
        self._said: set[tuple[str, str]] = set()

    def start(self, recipes: list[str]) -> None:
        self._begun = time.monotonic()
        names = ("、" if self._lang == "zh" else ", ").join(recipes)
        self._say(phrase("progress.start", self._lang, count=len(recipes), names=names))

    def update(self, recipe: str, phase: str, fraction: float | None = None) -> None:
        if (recipe, phase) not in self._said:
            self._said.add((recipe, phase))
            self._say(f"{recipe}: {phase_words(phase, self._lang)}")

    def done(self, recipe: str, failure: Note | None) -> None:
        self._say(f"{recipe}: {outcome_words(failure, self._lang)}")

    def close(self) -> None:
        pass

    def _say(self, line: str) -> None:
        # Whoever read standard error may be gone, or it cannot write these characters: neither ends a measurement.
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(f"[{time.monotonic() - self._begun:4.0f} s] {' '.join(line.split())}\n")
            sys.stderr.flush()


class LiveProgress:
    """A bar a recipe that is redrawn in place, on a terminal; gone when closed."""

    def __init__(self, lang: str = "en") -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        self._lang = check_lang(lang)
        self._bars = RichProgress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[phase]}", markup=False),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._ids: dict[str, TaskID] = {}
        self._phase: dict[str, str] = {}

    def start(self, recipes: list[str]) -> None:
        for name in recipes:
            self._add(name)
        self._bars.start()

    def update(self, recipe: str, phase: str, fraction: float | None = None) -> None:
        number = self._ids.get(recipe)
        if number is None:
            number = self._add(recipe)
        if self._phase.get(recipe) is None:
            self._bars.start_task(number)
        self._phase[recipe] = phase
        total = None if fraction is None else 1.0
        self._bars.update(
            number, total=total, completed=fraction or 0.0, phase=phase_words(phase, self._lang)
        )

    def done(self, recipe: str, failure: Note | None) -> None:
        number = self._ids.get(recipe)
        if number is None:
            number = self._add(recipe)
        text = " ".join(outcome_words(failure, self._lang).split())
        self._bars.update(number, total=1.0, completed=1.0, phase=text)
        self._bars.stop_task(number)

    def close(self) -> None:
        self._bars.stop()

    def _add(self, recipe: str) -> TaskID:
        waiting = phrase("phase.waiting", self._lang)
        number = self._bars.add_task(recipe, start=False, total=1.0, phase=waiting)
        self._ids[recipe] = number
        return number


def phase_words(phase: str, lang: str) -> str:
    """The words of a phase; the key itself where it has none."""
    phrases: Mapping[str, str] = LANGUAGES[lang]
    return phrases.get(f"phase.{phase}", phase)


def outcome_words(failure: Note | None, lang: str) -> str:
    """What is said of a recipe at its end: that it is done, or why it was not measured."""
    return phrase("progress.done", lang) if failure is None else failure.get(lang, failure["en"])


def progress_for(lang: str = "en", *, quiet: bool = False) -> Progress:
    """The progress that suits standard error: live on a terminal, plain lines elsewhere, silent if `quiet`."""
    if quiet or sys.stderr is None:
        return SilentProgress()
    return LiveProgress(lang) if sys.stderr.isatty() else PlainProgress(lang)
