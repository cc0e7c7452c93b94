"""Pace: how long a training step of the user's model takes and one of the fast model, by turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fasthop.train.task import Loss

MOST_ROUNDS = 9
SECONDS = 1.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """Medians of forward, loss and backward; the optimiser is the same on both sides and left out."""

    original_ms: float
    fast_ms: float
    num_rounds: int

    @property
    def ratio(self) -> float:
        """How many times as fast."""
        return self.original_ms / self.fast_ms

    def break_even_epochs(self, cost_s: float) -> float | None:
        """Steps after which `cost_s` is earned back; None where nothing is gained."""
        gain_s = (self.original_ms - self.fast_ms) / 1e3
        return None if gain_s <= 0 else cost_s / gain_s


def measure_pace(original: Callable[[], None], fast: Callable[[], None]) -> Pace:
    """Runs both by turns for about SECONDS, each once before it is timed, unless that once took so long already."""
    firsts = [_timed(call) for call in (original, fast)]
    times: list[list[float]] = [[], []]
    spent = sum(firsts)
    while len(times[0]) < MOST_ROUNDS and spent < SECONDS:
        for side, call in zip(times, (original, fast), strict=True):
            side.append(_timed(call))
            spent += side[-1]
    if not times[0]:
        times = [[firsts[0]], [_timed(fast)]]
    original_ms, fast_ms = (1e3 * statistics.median(side) for side in times)
    return Pace(original_ms=original_ms, fast_ms=fast_ms, num_rounds=len(times[0]))


def training_step(
    forward: Callable[[], Tensor], y: Tensor, parameters: Sequence[Tensor], loss: Loss = F.cross_entropy
) -> Callable[[], None]:
    """Forward, loss and gradients, with no gradient left on the parameters."""
    wanted = [p for p in parameters if p.requires_grad]

    def step() -> None:
        torch.autograd.grad(loss(forward(), y), wanted, allow_unused=True)

    return step


def _timed(call: Callable[[], None]) -> float:
    start = time.perf_counter()
    call()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start
