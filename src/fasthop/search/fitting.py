"""Fitting: from a recipe to a training that fits in memory, over recipes that need less and less."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fasthop.errors import DoesNotFit
from fasthop.graph.note import Note, note
from fasthop.machine.live import live_tensors
from fasthop.machine.memory import measure_peak
from fasthop.rewrites.base import Inapplicable
from fasthop.rewrites.ladder import Recipe
from fasthop.search.fitted import Fitted, fitted
from fasthop.search.inference import Inference
from fasthop.search.leaner import free_memory, leaner, ran_out
from fasthop.search.plan_recipe import rungs_to_json
from fasthop.train.progress import TrainProgress
from fasthop.train.run_folder import RunFolder
from fasthop.train.setup import Setup
from fasthop.train.training import Training
from fasthop.train.training_config import TrainConfig

# Batches differ by a few per cent in size; this many are looked at.
NUM_MEASURED_BATCHES = 3


@dataclass(frozen=True, kw_only=True, eq=False)
class Ready:
    """A recipe as it was fitted, and its training, which has not begun."""

    made: Fitted
    training: Training


class Fitting:
    """limit: bytes that a step and an evaluation may take at their peak over what was alive when this was made (the graph), or
    None. prove_budget_s: of exact rungs; 0 skips proofs. batch_size: what sampling begins with where a recipe does not say.
    say: is told every note. Make it before any model is."""

    def __init__(
        self,
        *,
        config: TrainConfig,
        folder: RunFolder | None,
        limit: int | None,
        prove_budget_s: float,
        batch_size: int,
        progress: TrainProgress,
        say: Callable[[Note], None],
    ) -> None:
        self.config, self.folder, self.limit = config, folder, limit
        self.prove_budget_s, self.batch_size = prove_budget_s, batch_size
        self.progress, self.say = progress, say
        self._resident: list[Any] = live_tensors() if limit is not None else []

    def ready(self, recipe: Recipe, baseline: Setup, *, prove: bool) -> Ready:
        """The first recipe from this one on that fits, and its training. Raises DoesNotFit."""
        while True:
            try:
                return self._tried(recipe, baseline, prove=prove)
            except (RuntimeError, MemoryError) as error:
                if not ran_out(error):
                    raise
                reason = str(error) if isinstance(error, DoesNotFit) else "it ran out of memory"
            recipe = self.after(recipe, reason, baseline)

    def after(self, recipe: Recipe, reason: str, baseline: Setup) -> Recipe:
        """A recipe that needs less, after one that did not fit for this reason. Raises DoesNotFit where there is none."""
        free_memory()
        num_train = int(baseline.task.graph.train_mask.sum())
        following = leaner(recipe, num_train=num_train, batch_size=self.batch_size)
        if following is None:
            raise DoesNotFit(
                f"Nothing fits: {recipe.name}: {reason}. Fewer or narrower layers, smaller num_neighbors or more memory would help."
            )
        self.say(
            note(
                f"{recipe.name}: {reason}. Going on with {following.name}.",
                f"{recipe.name}：{reason}。改用 {following.name} 继续。",
            )
        )
        return following

    def _tried(self, recipe: Recipe, baseline: Setup, *, prove: bool) -> Ready:
        made = fitted(
            recipe,
            baseline,
            prove_budget_s=self.prove_budget_s if prove else 0.0,
            peak_bytes=self.limit,
            seed=self.config.seed,
        )
        for said in made.notes:
            self.say(said)
        infer = Inference(made.setup, baseline)
        training = Training(
            made.setup,
            self.config,
            folder=self.folder,
            infer=infer,
            labels={"name": made.recipe.name, "rungs": rungs_to_json(made.recipe.rungs)},
            progress=self.progress,
        )
        if self.limit is not None and baseline.device.type == "cpu":
            self._hold_to_limit(training, infer, self.limit)
        return Ready(made=made, training=training)

    def _hold_to_limit(self, training: Training, infer: Inference, limit: int) -> None:
        """Raises DoesNotFit where a few steps, or an evaluation, rise above the limit. Parameters move; the training begins, or
        goes on, afterwards."""
        batches = training.setup.batches

        def steps() -> None:
            for batch in itertools.islice(batches, NUM_MEASURED_BATCHES):
                training.step(batch)

        steps()
        peak = self._peak(training, steps)
        if peak > limit:
            raise DoesNotFit(f"it needs {size_words(peak)} at its peak, and may take {size_words(limit)}")
        peak = self._peak(training, infer)
        if peak <= limit:
            return
        try:
            infer.by_batches()
        except Inapplicable as error:
            raise DoesNotFit(
                f"its evaluation needs {size_words(peak)} at its peak, and may take {size_words(limit)}; by batches it would be "
                f"wrong ({error})"
            ) from None
        self.say(
            note(
                f"Evaluating all nodes at once needs {size_words(peak)}; it goes by batches.",
                f"一次评估所有节点需要 {size_words(peak)}；改为分批进行。",
            )
        )

    def _peak(self, training: Training, call: Callable[[], object]) -> int:
        return measure_peak(call, resident=self._resident, device=training.setup.device).peak_bytes


def size_words(num_bytes: int) -> str:
    """A number of bytes for people."""
    return f"{num_bytes / 2**30:.2f} GiB" if num_bytes >= 2**30 else f"{num_bytes / 2**20:.1f} MiB"
