"""Resident: a recipe set up once in its worker, whose epochs are timed whenever its turn comes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from fasthop.graph.note import Note, note
from fasthop.machine.clock import elapsed_ns, synchronizer
from fasthop.machine.live import live_tensors
from fasthop.machine.memory import PeakMemory, measure_peak
from fasthop.machine.process import process_peak_bytes
from fasthop.measure.memory_kinds import measure_memory_kinds
from fasthop.measure.phases import measure_phases
from fasthop.rewrites.base import Inapplicable
from fasthop.rewrites.ladder import Recipe
from fasthop.search.predict_time import Machine
from fasthop.search.prediction import Prediction
from fasthop.train.compiled import CompileWatch
from fasthop.train.evaluate import evaluate
from fasthop.train.loop import run_epoch
from fasthop.train.setup import Setup
from fasthop.train.task import Task
from fasthop.verify.verdict import Verdict

# Epochs after the first before any is timed: allocator and thread pools and dynamic shapes settle in
# these. A recompilation among them starts the count again, up to the limit.
NUM_WARM_UP_EPOCHS = 3
MAX_WARM_UP_EPOCHS = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """What came of setting the recipe up."""

    prepare_s: float
    num_steps_per_epoch: int
    notes: tuple[Note, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class FirstEpoch:
    """What the first epoch cost, and one after warm-up, by which rounds are sized."""

    first_epoch_s: float
    compile_s: float
    num_recompiles: int
    num_graph_breaks: int
    warm_epoch_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Steady:
    """What was counted up to the end of the timed epochs."""

    process_peak_bytes: int | None
    compile_s: float
    num_recompiles: int
    num_graph_breaks: int
    num_skipped_steps: int
    last_loss: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Phases:
    """Where an epoch's time goes (see `measure_phases`), and what its memory is at the peak (see `measure_memory_kinds`)."""

    stages_ms: dict[str, float]
    memory_kinds: dict[str, int]
    peak_operator: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Trained:
    """One seed trained from the start: (epoch, validation, test accuracy in percent) where evaluated."""

    points: tuple[tuple[int, float, float], ...]

    @property
    def best_val(self) -> float:
        """The highest validation accuracy; NaN without validation nodes."""
        return max(val for _, val, _ in self.points)

    @property
    def test(self) -> float:
        """The test accuracy where the validation accuracy was highest, at the first such epoch; at the last
        one where there are no validation nodes."""
        if math.isnan(self.points[-1][1]):
            return self.points[-1][2]
        return max(self.points, key=lambda point: point[1])[2]


class Resident:
    """Serves the requests of a trial; each method is one."""

    def __init__(self, task: Task, recipe: Recipe, seed: int, device: torch.device) -> None:
        self.task = task
        self.recipe = recipe
        self.seed = seed
        self.device = device
        self.watch = CompileWatch()
        self._sync = synchronizer(device)
        # What is alive before any model is made is an input: the graph, and what the user's maker carries with it
        # (a lambda over `data` brings all of data along).
        self._inputs = live_tensors()
        self.baseline = Setup.baseline(task, seed=seed, device=device)
        self.setup = self.baseline

    def prepare(self) -> Prepared:
        """Applies the rungs. The time is the rungs' own: the imports and compilations they bring,
        checks, conversions; building the PyG model stands before it for every recipe alike."""
        start = time.perf_counter()
        self.setup = self.recipe.on(self.baseline)
        self.setup.restart(self.seed)
        self._sync()
        prepare_s = time.perf_counter() - start if self.recipe.rungs else 0.0
        self.step = self.setup.step()
        return Prepared(
            prepare_s=prepare_s,
            num_steps_per_epoch=len(self.setup.batches),
            notes=self.setup.notes,
        )

    def predict(self, machine: Machine) -> Prediction | None:
        """What an epoch of the exact rungs should take, from the count of what was built; nothing is run."""
        from fasthop.search.predict import predict_setup

        return predict_setup(self.setup, self.recipe, machine)

    def prove(self, budget_s: float) -> Verdict | None:
        """What is proven of an exact recipe, on this model and graph; None where it claims nothing that could be proven."""
        from fasthop.search.proof import prove_setup

        return prove_setup(self.setup, self.recipe, budget_s=budget_s, seed=self.seed)

    def acting(self) -> tuple[str, ...] | None:
        """The exact rungs that changed what is computed; None where the recipe has none of them."""
        return None if self.setup.exact is None else tuple(sorted(self.setup.exact.acted))

    def first_epoch(self, max_warm_up: int = MAX_WARM_UP_EPOCHS) -> FirstEpoch:
        """The first epoch, with everything lazy in it, then warm-up until nothing compiles any more, or so many epochs."""
        self.watch.__enter__()
        first_ns = elapsed_ns(self._epoch, self._sync)
        self._refuse_failed_compilation()
        quiet, warm_ns = 0, first_ns
        for _ in range(max_warm_up):
            before = self.watch.num_compilations
            warm_ns = elapsed_ns(self._epoch, self._sync)
            quiet = quiet + 1 if self.watch.num_compilations == before else 0
            if quiet >= NUM_WARM_UP_EPOCHS:
                break
        self._refuse_failed_compilation()
        return FirstEpoch(
            first_epoch_s=first_ns / 1e9,
            compile_s=self.watch.seconds,
            num_recompiles=self.watch.num_recompiles,
            num_graph_breaks=self.watch.num_graph_breaks,
            warm_epoch_s=warm_ns / 1e9,
        )

    def timed_epochs(self, num_epochs: int) -> list[int]:
        """Wall time of each of `num_epochs` epochs in ns, the device's queue empty at both ends of each."""
        return [elapsed_ns(self._epoch, self._sync) for _ in range(num_epochs)]

    def steady(self) -> Steady:
        """What was counted so far; asked for right after the last timed epoch."""
        return Steady(
            process_peak_bytes=process_peak_bytes(),
            compile_s=self.watch.seconds,
            num_recompiles=self.watch.num_recompiles,
            num_graph_breaks=self.watch.num_graph_breaks,
            num_skipped_steps=self.step.num_skipped,
            last_loss=float(self._last_loss),
        )

    def memory(self) -> PeakMemory:
        """Peak of live bytes in an epoch over the resident inputs, in a pass that is not timed."""
        return measure_peak(self._epoch, resident=self._inputs, device=self.device)

    def phases(self) -> Phases:
        """Time by stage and memory by kind, in a pass that is not timed: it traces epochs, which slows them."""
        stages_ms = measure_phases(self._epoch, device=self.device)
        x = self.task.graph.x
        found = measure_memory_kinds(
            self._epoch, device=self.device, features=() if x is None else (x,), graph=self._inputs
        )
        return Phases(stages_ms=stages_ms, memory_kinds=found.kinds, peak_operator=found.operator)

    def accuracy(
        self, seed: int, num_epochs: int, evaluate_every: int, on_progress: Callable[[float], None]
    ) -> Trained:
        """Trains from the start with the parameters and draws of `seed`, evaluating on the way."""
        self.setup.restart(seed)
        self.step = self.setup.step()
        points = []
        told = time.monotonic()
        for epoch in range(1, num_epochs + 1):
            self._epoch()
            if epoch % evaluate_every == 0 or epoch == num_epochs:
                accuracies = evaluate(self.setup)
                points.append((epoch, accuracies.val, accuracies.test))
            if time.monotonic() - told > 0.5:
                on_progress(epoch / num_epochs)
                told = time.monotonic()
        return Trained(points=tuple(points))

    def _epoch(self) -> None:
        self._last_loss = run_epoch(self.step, self.setup.batches)

    def _refuse_failed_compilation(self) -> None:
        compiled = self.setup.compiled
        if compiled is not None and compiled.failure is not None:
            raise Inapplicable(
                note(
                    f"torch.compile failed, and the recipe would run without it: {compiled.failure}",
                    f"torch.compile 失败，该方案只能不经编译运行：{compiled.failure}",
                )
            )
