"""The yardstick: what a tune knows of the baseline, and the value that the objective makes of a measurement."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fasthop.search.candidate import Candidate


@dataclass(kw_only=True, eq=False)
class Yardstick:
    """objective: what is to be small; epoch-time stands in for time-to-accuracy where the budget holds no seed of the baseline.

    target: the validation metric in percent that time-to-accuracy counts to; baseline_epochs: when the baseline gets there.
    best: the smallest value that was measured of what fits.
    """

    objective: str
    num_epochs: int
    lr: float
    target: float | None = None
    baseline_epochs: int | None = None
    best: float = math.inf

    def value(
        self, candidate: Candidate, *, epoch_ms: float, num_steps: int = 1, peak_bytes: float | None = None,
        paid_before_s: float = 0.0, epochs: int | None = None,
    ) -> float | None:  # fmt: skip
        """Smaller is better: ms an epoch, bytes, or seconds to the target.

        epochs: until the target, where the candidate was trained; else what it would need at its best: as many as the
        baseline, or with mini-batches as many steps.
        """
        if self.objective == "epoch-time":
            return epoch_ms
        if self.objective == "memory":
            return None if peak_bytes is None else float(peak_bytes)
        if epochs is None:
            if self.baseline_epochs is None:
                return None
            epochs = max(1, math.ceil(self.baseline_epochs / (num_steps if candidate.samples else 1)))
        return paid_before_s + epochs * epoch_ms / 1e3

    def must_train(self, candidate: Candidate) -> bool:
        """Whether only training tells how many epochs the candidate needs."""
        if self.objective != "time-to-accuracy" or self.target is None:
            return False
        return not candidate.trains_as_baseline or candidate.lr != self.lr

    def reached(self, points: tuple[tuple[int, float, float], ...]) -> int | None:
        """The first evaluated epoch whose validation metric is at the target."""
        if self.target is None:
            return None
        return next((epoch for epoch, val, _ in points if val >= self.target), None)
