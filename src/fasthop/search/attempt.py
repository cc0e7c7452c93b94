"""An Attempt: what came of one candidate, as it is kept in the study and shown in the table of trials."""

from __future__ import annotations

import dataclasses
import statistics
from dataclasses import dataclass
from typing import Any

from fasthop.graph.note import Note
from fasthop.measure.schema import check_fields
from fasthop.search.candidate import Candidate

MEASURED, HALVED, FORESEEN, DOES_NOT_FIT, INAPPLICABLE, FAILED, UNFINISHED = (
    "measured",
    "halved",
    "foreseen",
    "does_not_fit",
    "inapplicable",
    "failed",
    "unfinished",
)
OUTCOMES = (MEASURED, HALVED, FORESEEN, DOES_NOT_FIT, INAPPLICABLE, FAILED, UNFINISHED)


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """One candidate and what came of it.

    outcome: MEASURED through all rounds; HALVED: left behind by the halving; FORESEEN: not measured, since it cannot win;
    DOES_NOT_FIT: over the memory limit; INAPPLICABLE: a rung does not apply; FAILED: its process failed; UNFINISHED: the
    budget or Ctrl-C ended it, so that it is tried again when the study goes on.
    reason: why it was not measured to the end. predicted_ms: of an epoch. times_ms: medians of the rounds.
    peak_bytes: of live bytes beside the graph. paid_before_s: preparation and the first epoch's surplus.
    epochs_to_target: until the target accuracy, where it was trained; accuracies: of the metric on test, one a seed.
    value: what the objective makes of it, smaller being better. machine_id: where it was measured.
    """

    candidate: Candidate
    outcome: str
    reason: Note | None = None
    predicted_ms: float | None = None
    times_ms: tuple[float, ...] = ()
    num_steps: int | None = None
    peak_bytes: int | None = None
    paid_before_s: float = 0.0
    epochs_to_target: int | None = None
    accuracies: tuple[float, ...] = ()
    value: float | None = None
    took_s: float = 0.0
    machine_id: str = ""

    @property
    def epoch_ms(self) -> float | None:
        """The median over its rounds."""
        return statistics.median(self.times_ms) if self.times_ms else None

    @property
    def is_settled(self) -> bool:
        """Whether it need not be tried again."""
        return self.outcome != UNFINISHED

    def to_json(self) -> dict[str, Any]:
        """For the study and `trials.json`."""
        tree = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return tree | {
            "candidate": self.candidate.to_json(),
            "times_ms": list(self.times_ms),
            "accuracies": list(self.accuracies),
        }

    @classmethod
    def from_json(cls, tree: dict[str, Any]) -> Attempt:
        """What `to_json` wrote; raises InvalidConfig, TypeError, KeyError or ValueError for what it did not."""
        tree = dict(tree)
        candidate = Candidate.from_json(tree.pop("candidate"))
        lists = {name: tuple(tree.pop(name)) for name in ("times_ms", "accuracies")}
        attempt = cls(candidate=candidate, **lists, **tree)
        check_fields(attempt, "attempt")
        if attempt.outcome not in OUTCOMES:
            raise ValueError(f"attempt.outcome is {attempt.outcome!r}")
        return attempt
