"""A Contest: the entrants take turns, so that whatever drifts on the machine hits all of them alike."""

from __future__ import annotations

import math
import statistics

from fasthop.graph.note import note
from fasthop.measure.run import Run
from fasthop.search.config import BenchConfig
from fasthop.search.entrant import Entrant
from fasthop.search.predict_time import Machine
from fasthop.search.progress import Progress
from fasthop.search.protocol import Failure

# Evaluations a seed: enough points for a curve and for the time to an accuracy; each costs a forward pass.
MAX_EVALUATIONS = 100
# The accuracy that time_to_accuracy counts to, as a share of the baseline's mean best validation accuracy:
# the mean itself would be missed by half of the baseline's own seeds.
TARGET_SHARE = 0.99


class Contest:
    """Measures the entrants, the first of which is the baseline; only one of them works at any moment."""

    def __init__(
        self, entrants: list[Entrant], config: BenchConfig, progress: Progress, machine: Machine | None = None
    ) -> None:
        self.entrants = entrants
        self.config = config
        self.progress = progress
        self.machine = machine
        self.baseline = entrants[0]
        self.target_accuracy: float | None = None

    def run(self) -> bool:
        """All phases. False where Ctrl-C cut them short after the baseline had been timed."""
        try:
            for entrant in self.entrants:
                self._get_ready(entrant)
                if self.baseline.failure is not None:
                    return True
            self._take_turns()
            self._count_memory()
            self._tell_phases_apart()
            self._train_to_accuracy()
        except KeyboardInterrupt:
            if len(self.baseline.round_times_ms) < 1:
                raise
            self._keep_whole_rounds()
            return False
        return True

    def runs(self) -> tuple[Run, ...]:
        """The immutable Runs, in the ladder's order."""
        return tuple(entrant.run(self.baseline, self.target_accuracy) for entrant in self.entrants)

    def _get_ready(self, entrant: Entrant) -> None:
        tell = self.progress.update
        tell(entrant.name, "start", None)
        entrant.attempt(lambda trial: trial.ready())
        tell(entrant.name, "prepare", None)
        entrant.prepared = entrant.attempt(lambda trial: trial.ask("prepare"))
        if entrant.recipe.is_exact and entrant.prediction is None and self.machine is not None:
            entrant.prediction = entrant.attempt(lambda trial: trial.ask("predict", machine=self.machine))
        tell(entrant.name, "first_epoch", None)
        entrant.first = entrant.attempt(lambda trial: trial.ask("first_epoch"))
        if entrant.prepared is not None:
            # What is said of the baseline holds for all, and is said once.
            said = self.baseline.notes if entrant is not self.baseline else ()
            entrant.notes.extend(line for line in entrant.prepared.notes if line not in said)
            self._prove(entrant)
        if entrant.failure is not None:
            self.progress.done(entrant.name, entrant.failure.reason)

    def _prove(self, entrant: Entrant) -> None:
        """The proof of an exact recipe, before it is timed: one that is refuted is not shown as a gain."""
        if not entrant.recipe.is_exact or self.config.prove_budget_s == 0 or entrant.failure is not None:
            return
        self.progress.update(entrant.name, "prove", None)
        budget_s = self.config.prove_budget_s
        entrant.verdict = entrant.attempt(lambda trial: trial.ask("prove", budget_s=budget_s))
        if entrant.verdict is not None and entrant.verdict.is_refuted:
            entrant.failure = Failure(kind="refuted", reason=entrant.verdict.sentence)

    def _take_turns(self) -> None:
        """The timed rounds: every entrant's epochs in turn, the order reversed in every other round."""
        num_rounds = self.config.rounds
        for index in range(num_rounds):
            for entrant in self.entrants if index % 2 == 0 else reversed(self.entrants):
                first = entrant.first
                if first is None:
                    continue
                self.progress.update(entrant.name, "timing", index / num_rounds)
                num_epochs = max(1, round(self.config.round_s / max(first.warm_epoch_s, 1e-6)))
                times_ns = entrant.attempt(
                    lambda trial, count=num_epochs: trial.ask("timed_epochs", num_epochs=count)
                )
                if times_ns is not None:
                    entrant.round_times_ms.append(statistics.median(times_ns) / 1e6)
                    entrant.mean_times_ms.append(statistics.mean(times_ns) / 1e6)
        for entrant in self.entrants:
            entrant.steady = entrant.attempt(lambda trial: trial.ask("steady"))
            if entrant.steady is not None and not math.isfinite(entrant.steady.last_loss):
                entrant.notes.append(note("Its loss is no longer finite.", "它的损失已不是有限值。"))

    def _count_memory(self) -> None:
        for entrant in self.entrants:
            if entrant.first is not None:
                self.progress.update(entrant.name, "memory", None)
                entrant.memory = entrant.attempt(lambda trial: trial.ask("memory"))

    def _tell_phases_apart(self) -> None:
        """After the timed rounds and the memory pass: what it traces and wraps must not reach either."""
        for entrant in self.entrants:
            if entrant.first is not None:
                self.progress.update(entrant.name, "memory", None)
                entrant.phases = entrant.attempt(lambda trial: trial.ask("phases"))

    def _train_to_accuracy(self) -> None:
        for entrant in self.entrants:
            if entrant.first is None:
                continue
            for index in range(self._affordable_seeds(entrant)):

                def tell(done: float, entrant: Entrant = entrant, index: int = index) -> None:
                    self.progress.update(entrant.name, "accuracy", (index + done) / self.config.seeds)

                tell(0.0)
                trained = entrant.attempt(
                    lambda trial, index=index, tell=tell: trial.ask(
                        "accuracy",
                        on_progress=tell,
                        seed=self.config.seed + index,
                        num_epochs=self.config.epochs,
                        evaluate_every=math.ceil(self.config.epochs / MAX_EVALUATIONS),
                    )
                )
                if trained is not None:
                    entrant.trained.append(trained)
            if entrant is self.baseline and entrant.trained:
                best = statistics.mean(t.best_val for t in entrant.trained)
                self.target_accuracy = TARGET_SHARE * best if math.isfinite(best) else None
            self.progress.done(entrant.name, entrant.failure.reason if entrant.failure else None)

    def _affordable_seeds(self, entrant: Entrant) -> int:
        """How many seeds the accuracy budget holds by prediction; what is left out is said in a note."""
        wanted = self.config.seeds
        if not wanted or not entrant.round_times_ms:
            return 0
        seed_s = self.config.epochs * statistics.median(entrant.round_times_ms) / 1e3
        affordable = int(self.config.accuracy_budget_s / max(seed_s, 1e-9))
        if affordable >= wanted:
            return wanted
        budget = f"{self.config.accuracy_budget_s:g} s"
        entrant.notes.append(
            note(
                f"Accuracy was measured over {affordable} of {wanted} seeds: one takes about {seed_s:.0f} s, and the "
                f"budget is {budget} a recipe.",
                f"准确率只测了 {wanted} 个种子中的 {affordable} 个：每个约需 {seed_s:.0f} 秒，而每个方案的预算是 {budget}。",
            )
        )
        return affordable

    def _keep_whole_rounds(self) -> None:
        """After Ctrl-C in the middle of a round: drops what the others have not had their turn for."""
        counts = [len(entrant.round_times_ms) for entrant in self.entrants if entrant.round_times_ms]
        for entrant in self.entrants:
            del entrant.round_times_ms[min(counts) :]
