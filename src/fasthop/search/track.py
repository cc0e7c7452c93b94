"""The track: where candidates run in processes of their own, and the clock that all of them obey."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fasthop.graph.graph import Graph
from fasthop.graph.note import note
from fasthop.machine.memory import PeakMemory
from fasthop.search.amounts import bytes_text
from fasthop.search.candidate import Candidate
from fasthop.search.entrant import Entrant
from fasthop.search.progress import Progress
from fasthop.search.protocol import Failure
from fasthop.search.tune_config import TuneConfig

# What a trial may take beyond the budget before it is ended.
GRACE_S, GRACE_SHARE = 5.0, 0.05
SLOW_WARM_UP = 1
FULL_WARM_UP = 12


class Clock:
    """The budget of a tune. spent_s: what it took before it was started again."""

    def __init__(self, budget_s: float, spent_s: float = 0.0) -> None:
        self.budget_s = budget_s
        self._begun = time.monotonic() - spent_s

    @property
    def spent_s(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self._begun

    @property
    def left_s(self) -> float:
        """Seconds until the budget ends; below 0 beyond it."""
        return self.budget_s - self.spent_s

    @property
    def grace_s(self) -> float:
        """How much longer the trial that runs at the end may take."""
        return max(GRACE_S, GRACE_SHARE * self.budget_s)


@dataclass(kw_only=True, eq=False)
class Track:
    """Starts the workers of candidates and asks them within the budget.

    graph_path: the graph as the workers map it. folder: each worker's own comes below it. started_s: what a worker takes to be
    ready, as the last one did.
    """

    config: TuneConfig
    graph: Graph
    graph_path: Path
    folder: Path
    device: str
    clock: Clock
    progress: Progress
    started_s: float = 8.0
    _open: list[Entrant] = field(default_factory=list)
    _num_entered: int = 0

    def enter(self, candidate: Candidate) -> Entrant:
        """Starts the worker of a candidate."""
        self._num_entered += 1
        entrant = Entrant.enter(
            candidate.recipe,
            dataclasses.replace(self.config.bench, lr=candidate.lr),
            self.graph,
            self.graph_path,
            self.folder / str(self._num_entered),
            self.device,
            candidate.threads,
        )
        self._open.append(entrant)
        return entrant

    def get_ready(self, entrant: Entrant) -> None:
        """Waits for the worker and prepares the recipe; a failure stays in the entrant."""
        begun = time.monotonic()
        self.tell(entrant, "start")
        self._limit(entrant)
        entrant.attempt(lambda trial: trial.ready())
        self.started_s = time.monotonic() - begun
        self.tell(entrant, "prepare")
        entrant.prepared = self.ask(entrant, "prepare")
        if entrant.prepared is not None:
            entrant.notes.extend(entrant.prepared.notes)

    def warm_up(self, entrant: Entrant, *, max_warm_up: int = FULL_WARM_UP) -> None:
        """The first epoch and those until nothing compiles any more."""
        self.tell(entrant, "first_epoch")
        entrant.first = self.ask(entrant, "first_epoch", max_warm_up=max_warm_up)

    def take_round(self, entrant: Entrant) -> float | None:
        """One turn: the median time in ms of as many epochs as fit in `round_s`; None where it failed."""
        if entrant.first is None:
            return None
        num_epochs = max(1, round(self.config.bench.round_s / max(entrant.first.warm_epoch_s, 1e-6)))
        times_ns = self.ask(entrant, "timed_epochs", num_epochs=num_epochs)
        if times_ns is None:
            return None
        ordered = sorted(times_ns)
        middle = len(ordered) // 2
        median_ns = ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
        entrant.round_times_ms.append(median_ns / 1e6)
        return entrant.round_times_ms[-1]

    def count_memory(self, entrant: Entrant, *, limited: bool) -> int | None:
        """The peak of live bytes of an epoch. limited: over the limit it fails, as a process that does not fit would."""
        self.tell(entrant, "memory")
        found: PeakMemory | None = self.ask(entrant, "memory")
        entrant.memory = found
        if found is None or found.peak_bytes is None:
            return None
        most = self.config.memory_bytes
        if limited and most is not None and found.peak_bytes > most:
            entrant.failure = does_not_fit(found.peak_bytes, most)
        return found.peak_bytes

    def ask(
        self,
        entrant: Entrant,
        request: str,
        *,
        on_progress: Callable[[float], None] | None = None,
        **arguments: Any,
    ) -> Any:
        """The worker's answer, or None where it failed; it fails where the budget and its grace are over."""
        self._limit(entrant)
        return entrant.attempt(lambda trial: trial.ask(request, on_progress=on_progress, **arguments))

    def leave(self, entrant: Entrant) -> None:
        """Ends the worker."""
        entrant.close()
        if entrant in self._open:
            self._open.remove(entrant)

    def close(self) -> None:
        """Ends all workers that still run."""
        for entrant in list(self._open):
            self.leave(entrant)

    def tell(self, entrant: Entrant, phase: str, fraction: float | None = None) -> None:
        """Says what goes on."""
        self.progress.update(entrant.name, phase, fraction)

    def _limit(self, entrant: Entrant) -> None:
        left_s = max(self.clock.left_s, 0.0) + self.clock.grace_s
        entrant.trial.time_limit_s = min(self.config.bench.time_limit_s, left_s)


def does_not_fit(peak_bytes: float, most: int) -> Failure:
    """The failure of what needs more memory than is allowed."""
    peak, limit = bytes_text(peak_bytes), bytes_text(most)
    return Failure(
        kind="memory",
        reason=note(
            f"It does not fit: an epoch's peak is {peak}, and the limit is {limit}.",
            f"内存放不下：一个 epoch 的峰值是 {peak}，而上限是 {limit}。",
        ),
    )
