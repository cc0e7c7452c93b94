"""Outcome: how a training ended."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """reason: "epochs" (all of them), "patience" or "signal". epoch: how many are done. checkpoint_epoch: where it goes on when
    resumed; None where nothing is kept. signal: its number, or None. best_score: None where nothing was evaluated."""

    reason: str
    epoch: int
    checkpoint_epoch: int | None
    best_score: float | None
    best_epoch: int
    num_skipped_steps: int
    signal: int | None = None

    @property
    def finished(self) -> bool:
        """Whether nothing is left to be done."""
        return self.reason != "signal"
