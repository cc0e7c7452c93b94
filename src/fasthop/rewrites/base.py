"""A Rung: one optimisation as a small frozen value, with all that is its own."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

import torch

from fasthop.errors import NotApplicable
from fasthop.exactness import Exactness
from fasthop.graph.note import Note
from fasthop.train.setup import Setup


class Inapplicable(NotApplicable):
    """A rung does not apply; `.reason` says why in each language."""

    def __init__(self, reason: Note) -> None:
        super().__init__(reason["en"])
        self.reason = reason


@dataclass(frozen=True, kw_only=True, slots=True)
class Words:
    """What a rung says of itself: a title, what it does, why it helps, what it costs; one language."""

    title: str
    does: str
    why: str
    costs: str


@dataclass(frozen=True, kw_only=True)
class Rung:
    """One optimisation over the baseline.

    A subclass sets the class variables, `apply`, and where there is a question `check` and `missing`. Its
    fields are its knobs.
    """

    name: ClassVar[str]
    exactness: ClassVar[Exactness]
    needs: ClassVar[tuple[Note, ...]] = ()
    words: ClassVar[dict[str, Words]]

    @property
    def knobs(self) -> tuple[str, ...]:
        """The names of what may be turned."""
        return tuple(field.name for field in fields(self))

    def missing(self, device: torch.device) -> Note | None:
        """What the rung needs and this machine lacks, or None."""
        return None

    def check(self, setup: Setup) -> Note | None:
        """Why the rung does not apply to this setup, one sentence, or None where it does."""
        return None

    def apply(self, setup: Setup) -> Setup:
        """The setup with the rung in it. The user's own model is left as it was.

        Raises Inapplicable where only the attempt tells that it does not apply.
        """
        raise NotImplementedError

    def on(self, setup: Setup) -> Setup:
        """`apply` after `missing` and `check`; raises Inapplicable with the reason."""
        reason = self.missing(setup.device) or self.check(setup)
        if reason is not None:
            raise Inapplicable(reason)
        return self.apply(setup)
