"""An Entrant: one recipe in a contest, its trial, and all that was measured of it so far."""

from __future__ import annotations

import dataclasses
import math
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fasthop.errors import InvalidConfig
from fasthop.graph.graph import Graph
from fasthop.graph.note import Note
from fasthop.machine.memory import PeakMemory
from fasthop.measure.compare import MIN_ROUNDS, accuracy_summary, median_interval, paired_ratio
from fasthop.measure.run import Interval, Run
from fasthop.rewrites.ladder import Recipe, rung_names
from fasthop.search.config import BenchConfig
from fasthop.search.prediction import Prediction
from fasthop.search.protocol import Failure
from fasthop.search.resident import FirstEpoch, Phases, Prepared, Steady, Trained
from fasthop.search.trial import Trial, WorkerFailed
from fasthop.search.worker import Order
from fasthop.verify.verdict import Verdict


@dataclass(kw_only=True)
class Entrant:
    """One recipe. `failure` is set once its worker failed; what was measured until then stays."""

    recipe: Recipe
    trial: Trial
    failure: Failure | None = None
    prediction: Prediction | None = None
    prepared: Prepared | None = None
    first: FirstEpoch | None = None
    round_times_ms: list[float] = field(default_factory=list)
    mean_times_ms: list[float] = field(default_factory=list)
    """Of each round the mean over its epochs: what a long training takes, outliers and all."""
    steady: Steady | None = None
    memory: PeakMemory | None = None
    phases: Phases | None = None
    verdict: Verdict | None = None
    trained: list[Trained] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    @classmethod
    def enter(
        cls,
        recipe: Recipe,
        config: BenchConfig,
        graph: Graph,
        graph_path: Path,
        folder: Path,
        device: str,
        threads: int,
    ) -> Entrant:
        """Starts the worker of a recipe; it gets ready while others do."""
        order = Order(
            graph_path=graph_path,
            device=device,
            threads=threads,
            deterministic=config.deterministic,
            sys_path=list(sys.path),
            pickled=_pickled((dataclasses.replace(config, data=graph.name), recipe)),
        )
        name = recipe.name.replace(":", "-")
        trial = Trial(recipe.name, order, folder / name, time_limit_s=config.time_limit_s)
        return cls(recipe=recipe, trial=trial)

    @property
    def name(self) -> str:
        """The name of the recipe."""
        return self.recipe.name

    def attempt(self, ask: Callable[[Trial], Any]) -> Any:
        """What `ask` gets from the trial, or None where the worker fails, now or before."""
        if self.failure is not None:
            return None
        try:
            return ask(self.trial)
        except WorkerFailed as error:
            self.failure = error.failure
            return None

    def close(self) -> None:
        """Ends the worker."""
        self.trial.close()

    @property
    def paid_before_s(self) -> float:
        """Seconds paid once, beforehand: preparation, the proof, and what the first epoch took beyond a later one."""
        if self.prepared is None or self.first is None or not self.round_times_ms:
            return 0.0
        steady_s = statistics.median(self.round_times_ms) / 1e3
        proof_s = self.verdict.time_s if self.verdict is not None else 0.0
        return self.prepared.prepare_s + proof_s + max(self.first.first_epoch_s - steady_s, 0.0)

    def seconds_to(self, target: float | None) -> float | None:
        """Training seconds, all that was paid beforehand included, until validation accuracy reaches `target`.

        The median over seeds of the first evaluated epoch that does, times the time of an epoch as the
        rounds measured it: the accuracy runs of different recipes lie minutes apart, and the machine's
        drift between them must not decide. None where fewer than half of the seeds get there.
        """
        if target is None or not self.trained or not self.round_times_ms:
            return None
        never = float("inf")
        firsts = [
            next((epoch for epoch, val, _ in seed.points if val >= target), never) for seed in self.trained
        ]
        epochs = statistics.median_high(firsts)
        if epochs == never:
            return None
        return self.paid_before_s + epochs * statistics.median(self.round_times_ms) / 1e3

    def run(self, baseline: Entrant, target: float | None) -> Run:
        """The immutable Run of what was measured."""
        timed = self.round_times_ms
        ratio = None
        if len(timed) >= MIN_ROUNDS and len(timed) == len(baseline.round_times_ms):
            ratio = paired_ratio(baseline.round_times_ms, timed)
        trained, first, steady, memory = self.trained, self.first, self.steady, self.memory
        foreseen, foreseen_baseline = self.prediction, baseline.prediction
        counted = steady or first
        epoch_s = statistics.median(timed) / 1e3 if timed else None
        # NaN where the graph has no nodes to test or to validate on.
        tests = [seed.test for seed in trained if math.isfinite(seed.test)]
        validated = any(math.isfinite(seed.best_val) for seed in trained)
        return Run(
            name=self.name,
            rungs=rung_names(self.recipe.rungs),
            exactness=self.recipe.exactness.value,
            num_steps_per_epoch=self.prepared.num_steps_per_epoch if self.prepared else None,
            time_per_epoch_ms=_interval(timed),
            ratio_to_baseline=ratio,
            prepare_s=self.prepared.prepare_s if self.prepared else None,
            first_epoch_s=first.first_epoch_s if first else None,
            compile_s=counted.compile_s if counted else None,
            num_recompiles=counted.num_recompiles if counted else None,
            num_graph_breaks=counted.num_graph_breaks if counted else None,
            num_skipped_steps=steady.num_skipped_steps if steady else None,
            break_even_epochs=self._break_even(baseline),
            peak_bytes=memory.peak_bytes if memory else None,
            peak_reserved_bytes=memory.peak_reserved_bytes if memory else None,
            process_peak_bytes=steady.process_peak_bytes if steady else None,
            stages_ms=self.phases.stages_ms if self.phases else None,
            memory_kinds=self.phases.memory_kinds if self.phases else None,
            peak_operator=self.phases.peak_operator if self.phases else None,
            flops=foreseen.flops if foreseen else None,
            moved_bytes=foreseen.moved_bytes if foreseen else None,
            floor_ms=foreseen.floor_ms if foreseen else None,
            predicted_ratio=foreseen_baseline.time_ms / foreseen.time_ms
            if foreseen and foreseen_baseline
            else None,
            accuracy=accuracy_summary(tests) if tests else None,
            time_to_accuracy_s=self.seconds_to(target),
            curve=tuple(
                tuple((self.paid_before_s + epoch * epoch_s, val) for epoch, val, _ in seed.points)
                for seed in trained
            )
            if epoch_s is not None and validated
            else (),
            round_times_ms=tuple(timed),
            verdict=self.verdict.to_json() if self.verdict is not None else None,
            proof_s=self.verdict.time_s if self.verdict is not None else None,
            skipped=self.failure.reason["en"] if self.failure else None,
            skipped_words=self.failure.reason if self.failure else None,
            notes=tuple(self.notes),
        )

    @property
    def _epoch_of_a_training_ms(self) -> float:
        """Of a long training: the mean, in which slow epochs count (15 % over the median on Cora); never below the median."""
        usual = statistics.median(self.round_times_ms)
        return max(statistics.median(self.mean_times_ms or [usual]), usual)

    def _break_even(self, baseline: Entrant) -> float | None:
        """Epochs until what was paid beforehand, over what the baseline pays, is earned back."""
        if self is baseline:
            return 0.0
        if not self.round_times_ms or not baseline.round_times_ms:
            return None
        gain_s = (baseline._epoch_of_a_training_ms - self._epoch_of_a_training_ms) / 1e3
        if gain_s <= 0.0:
            return None
        return max(self.paid_before_s - baseline.paid_before_s, 0.0) / gain_s


def _pickled(order: tuple[BenchConfig, Recipe]) -> bytes:
    """The bytes that a worker reads. Raises InvalidConfig where the user's model cannot travel."""
    import cloudpickle

    try:
        return cloudpickle.dumps(order)
    except Exception as error:  # what a user's object raises when pickled is not to be listed
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InvalidConfig(
            f"The model cannot be sent to the process that measures it ({reason}); give a callable that makes it "
            "and refers to nothing that is open or locked, such as files, locks and generators."
        ) from None


def _interval(times_ms: list[float]) -> Interval | None:
    """The median with its 95 % interval; after Ctrl-C, with too few rounds for one, with their range."""
    if not times_ms:
        return None
    if len(times_ms) >= MIN_ROUNDS:
        return median_interval(times_ms)
    return Interval(median=statistics.median(times_ms), low=min(times_ms), high=max(times_ms))
