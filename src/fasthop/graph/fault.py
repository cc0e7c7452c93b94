"""Findings: what is wrong, odd or was changed in a user's graph, and the two ways of meeting one.

Every fault is defined once, where it is looked for. `load_graph` stops at the first; `diagnose` goes on and
collects them all. Which of the two is `Faults`' business, and nobody else's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from fasthop.errors import InvalidGraph
from fasthop.graph.note import Note, note

Level = Literal["error", "warning", "note"]
Words = tuple[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing found in a graph.

    code: its kind, such as "mask-integer"; the same in every language.
    level: "error" keeps the graph from being used, "warning" may make its numbers mean something else, "note"
        tells of what was done or left.
    sentence, hint: what is wrong, with the value and its place, and what to do about it; by language code.
    is_mendable: whether there is one right repair, which `fasthop check --fix` makes.
    """

    code: str
    level: Level
    sentence: Note
    hint: Note | None = None
    is_mendable: bool = False

    def text(self, lang: str = "en") -> str:
        """Sentence and hint in one language."""
        if self.hint is None:
            return self.sentence[lang]
        return self.sentence[lang] + ("" if lang == "zh" else " ") + self.hint[lang]

    def note(self) -> Note:
        """The finding as a report shows it."""
        return note(self.text("en"), self.text("zh"))


class FaultyGraph(InvalidGraph):
    """The graph has a fault, told in every language by its `finding`."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.text())
        self.finding = finding

    def __reduce__(self) -> tuple[Any, ...]:
        return FaultyGraph, (self.finding,)


def fault(code: str, en: str, zh: str, hint: Words | None = None) -> FaultyGraph:
    """The exception that tells of a fault, to be raised."""
    return FaultyGraph(finding(code, "error", en, zh, hint))


def finding(
    code: str, level: Level, en: str, zh: str, hint: Words | None = None, *, is_mendable: bool = False
) -> Finding:
    """A Finding from its sentences; hint: (English, Chinese)."""
    said = None if hint is None else note(*hint)
    return Finding(code=code, level=level, sentence=note(en, zh), hint=said, is_mendable=is_mendable)


class Faults:
    """Where findings go while a graph is read.

    collecting: False raises the first error (`load_graph`); True keeps it and goes on with the next part
        (`diagnose`), and repairs what has one right repair.
    findings: everything said so far, in order.
    """

    def __init__(self, *, collecting: bool = False) -> None:
        self.collecting = collecting
        self.findings: list[Finding] = []

    @contextmanager
    def part(self) -> Iterator[None]:
        """A piece of work that one error may end; when collecting, what comes after it goes on."""
        try:
            yield
        except FaultyGraph as error:
            if not self.collecting:
                raise
            self.findings.append(error.finding)
        except InvalidGraph as error:
            if not self.collecting:
                raise
            self.findings.append(finding("invalid", "error", str(error), str(error)))

    def fail(self, code: str, en: str, zh: str, hint: Words | None = None) -> NoReturn:
        """An error that ends the part."""
        raise fault(code, en, zh, hint)

    def error(self, code: str, en: str, zh: str, hint: Words | None = None) -> None:
        """An error after which the part can still be looked through; returns only when collecting."""
        self._error(finding(code, "error", en, zh, hint))

    def mendable(self, code: str, en: str, zh: str, hint: Words | None = None) -> None:
        """An error with one right repair, which the caller makes where this returns: when collecting."""
        self._error(finding(code, "error", en, zh, hint, is_mendable=True))

    def _error(self, found: Finding) -> None:
        if not self.collecting:
            raise FaultyGraph(found)
        self.findings.append(found)

    def warn(self, code: str, en: str, zh: str, hint: Words | None = None) -> None:
        """Says what may make the graph's numbers mean something else."""
        self.findings.append(finding(code, "warning", en, zh, hint))

    def note(self, code: str, en: str, zh: str, hint: Words | None = None) -> None:
        """Says what was done or left."""
        self.findings.append(finding(code, "note", en, zh, hint))

    def mended(self, code: str, en: str, zh: str, *, level: Level = "note") -> None:
        """Says what was changed without a guess; a file written by --fix needs the change no more."""
        self.findings.append(finding(code, level, en, zh, is_mendable=True))

    @property
    def errors(self) -> list[Finding]:
        """Those that keep the graph from being used."""
        return [found for found in self.findings if found.level == "error"]

    @property
    def notes(self) -> tuple[Note, ...]:
        """What a loaded graph's report says."""
        return tuple(found.note() for found in self.findings)
