"""One trial of a tune: a candidate measured step by step, and left as soon as it cannot win or does not fit."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass

from fasthop.graph.note import Note, note
from fasthop.search.amounts import bytes_text, seconds_text
from fasthop.search.attempt import (
    DOES_NOT_FIT,
    FAILED,
    FORESEEN,
    HALVED,
    INAPPLICABLE,
    MEASURED,
    UNFINISHED,
    Attempt,
)
from fasthop.search.candidate import Candidate
from fasthop.search.contest import MAX_EVALUATIONS
from fasthop.search.entrant import Entrant
from fasthop.search.predict_time import Machine
from fasthop.search.protocol import Failure
from fasthop.search.resident import Trained
from fasthop.search.track import Track
from fasthop.search.yardstick import Yardstick

# A prediction, or a single epoch, this many times over the best that was measured cannot win: predictions of recipes are
# within a factor of 2 of the measurement where they were checked (docs/design/search.md).
HOPELESS = 3.0
# A single epoch decides only where it is long: one of a millisecond may be ten times as long as the next one.
LONG_EPOCH_S = 0.05
ROUNDS = (1, 3, 9)
"""Rounds after which the halving compares."""
# The share of the budget that the rounds of one trial may take, and that the training of a seed may.
ROUNDS_SHARE, SEED_SHARE = 0.04, 0.1
GoesOn = Callable[[float, int], bool]


@dataclass(kw_only=True, eq=False)
class TuneTrial:
    """Measures one candidate. goes_on(value, num_rounds): whether the halving lets it go on. machine: for predictions."""

    candidate: Candidate
    track: Track
    yardstick: Yardstick
    goes_on: GoesOn
    machine: Machine | None = None
    predicted_ms: float | None = None
    machine_id: str = ""

    def foreseen(self, predicted_ms: float | None, floor_bytes: int | None, num_steps: int) -> Attempt | None:
        """The attempt where it need not be started: it cannot fit, or cannot win, by prediction; else None."""
        self.predicted_ms = predicted_ms
        most = self.track.config.memory_bytes
        if most is not None and floor_bytes is not None and floor_bytes > most:
            need, limit = bytes_text(floor_bytes), bytes_text(most)
            return self._attempt(
                DOES_NOT_FIT,
                note(
                    f"Not started: one operator alone needs {need}, and the limit is {limit}.",
                    f"未启动：仅一个算子就需要 {need}，而上限是 {limit}。",
                ),
            )
        if predicted_ms is not None:
            return self._hopeless(predicted_ms, num_steps, FORESEEN)
        return None

    def measure(self) -> Attempt:
        """Starts the worker, measures, and ends it."""
        begun = self.track.clock.spent_s
        entrant = self.track.enter(self.candidate)
        try:
            attempt = self._measure(entrant)
        finally:
            self.track.leave(entrant)
        took_s = self.track.clock.spent_s - begun
        self.track.progress.done(self.candidate.name, attempt.reason)
        return dataclasses.replace(attempt, took_s=took_s)

    def _measure(self, entrant: Entrant) -> Attempt:
        track = self.track
        track.get_ready(entrant)
        if entrant.prepared is None:
            return self._failed(entrant)
        if entrant.recipe.is_exact and self.machine is not None:
            prediction = track.ask(entrant, "predict", machine=self.machine)
            if prediction is not None:
                self.predicted_ms = prediction.time_ms
                ended = self._hopeless(prediction.time_ms, 1, FORESEEN)
                if ended is not None:
                    return ended
        track.warm_up(entrant)
        if entrant.first is not None and entrant.first.warm_epoch_s > LONG_EPOCH_S:
            ended = self._hopeless(
                1e3 * entrant.first.warm_epoch_s, entrant.prepared.num_steps_per_epoch, HALVED
            )
            if ended is not None:
                return dataclasses.replace(ended, times_ms=(1e3 * entrant.first.warm_epoch_s,))
        track.count_memory(entrant, limited=True)
        if entrant.failure is not None:
            return self._failed(entrant)
        left_behind = self._take_rounds(entrant)
        if entrant.failure is not None:
            return self._failed(entrant)
        if left_behind is not None:
            return left_behind
        return self._train(entrant)

    def _take_rounds(self, entrant: Entrant) -> Attempt | None:
        """The rounds, with the halving between them; the attempt where it is left behind."""
        track, budget_s = self.track, self.track.config.budget_s
        begun = track.clock.spent_s
        for count in ROUNDS:
            while len(entrant.round_times_ms) < count:
                track.tell(entrant, "timing", len(entrant.round_times_ms) / ROUNDS[-1])
                if track.take_round(entrant) is None:
                    return None
                if track.clock.spent_s - begun > ROUNDS_SHARE * budget_s:
                    break
            value = self._value(entrant)
            if value is not None and not self.goes_on(value, len(entrant.round_times_ms)):
                num = len(entrant.round_times_ms)
                epoch = f"{statistics.median(entrant.round_times_ms):.4g} ms"
                return self._attempt(
                    HALVED,
                    note(
                        f"Left behind by the halving after {num} {'round' if num == 1 else 'rounds'}, at {epoch} an epoch.",
                        f"在第 {num} 轮后被逐次减半淘汰，每个 epoch {epoch}。",
                    ),
                    entrant,
                    value,
                )
            if track.clock.spent_s - begun > ROUNDS_SHARE * budget_s:
                break
        return None

    def _train(self, entrant: Entrant) -> Attempt:
        """Where only training tells when the target is reached, one seed is trained."""
        yardstick, track = self.yardstick, self.track
        if not yardstick.must_train(self.candidate):
            return self._attempt(MEASURED, None, entrant, self._value(entrant))
        needs_s = yardstick.num_epochs * statistics.median(entrant.round_times_ms) / 1e3
        if needs_s > min(SEED_SHARE * track.config.budget_s, track.clock.left_s):
            takes = seconds_text(needs_s)
            return self._attempt(
                MEASURED,
                note(
                    f"A seed takes about {takes}, too long for the budget: its time to the accuracy is not known.",
                    f"训练一个种子约需 {takes}，超出预算：达到目标准确率所需的时间未知。",
                ),
                entrant,
                None,
            )
        track.tell(entrant, "accuracy", 0.0)
        trained = train_seed(track, entrant, seed=track.config.bench.seed)
        if trained is None:
            return self._failed(entrant)
        epochs = yardstick.reached(trained.points)
        accuracies = (trained.test,) if math.isfinite(trained.test) else ()
        if epochs is None:
            return self._attempt(
                MEASURED,
                note(
                    f"It does not reach {yardstick.target:.2f} % within {yardstick.num_epochs} epochs.",
                    f"在 {yardstick.num_epochs} 个 epoch 内没有达到 {yardstick.target:.2f} %。",
                ),
                entrant,
                None,
                accuracies=accuracies,
            )
        value = self._value(entrant, epochs=epochs)
        return self._attempt(MEASURED, None, entrant, value, epochs=epochs, accuracies=accuracies)

    def _hopeless(self, epoch_ms: float, num_steps: int, outcome: str) -> Attempt | None:
        """The attempt where an epoch of this length is far from winning; under the objective memory no length is."""
        yardstick = self.yardstick
        if yardstick.objective == "memory":
            return None
        value = yardstick.value(self.candidate, epoch_ms=epoch_ms, num_steps=num_steps)
        if value is None or value <= HOPELESS * yardstick.best:
            return None
        times = f"{value / yardstick.best:.1f}"
        if outcome == FORESEEN:
            reason = note(
                f"Not measured: by prediction ({epoch_ms:.4g} ms an epoch) it is {times} times the best so far.",
                f"未测量：按预测（每个 epoch {epoch_ms:.4g} 毫秒），它是目前最好的 {times} 倍。",
            )
        else:
            reason = note(
                f"Left after one warm epoch of {epoch_ms:.4g} ms: {times} times the best so far.",
                f"预热后一个 epoch 用了 {epoch_ms:.4g} 毫秒，是目前最好的 {times} 倍，不再测量。",
            )
        return self._attempt(outcome, reason, value=value)

    def _value(self, entrant: Entrant, *, epochs: int | None = None) -> float | None:
        assert entrant.prepared is not None
        return self.yardstick.value(
            self.candidate,
            epoch_ms=statistics.median(entrant.round_times_ms),
            num_steps=entrant.prepared.num_steps_per_epoch,
            peak_bytes=entrant.memory.peak_bytes if entrant.memory is not None else None,
            paid_before_s=entrant.paid_before_s,
            epochs=epochs,
        )

    def _failed(self, entrant: Entrant) -> Attempt:
        failure = entrant.failure
        assert failure is not None
        outcome = {"memory": DOES_NOT_FIT, "inapplicable": INAPPLICABLE}.get(failure.kind, FAILED)
        if failure.kind == "time" and self.track.clock.left_s <= 0:
            outcome, failure = UNFINISHED, _budget_over()
        return self._attempt(outcome, failure.reason, entrant)

    def _attempt(
        self,
        outcome: str,
        reason: Note | None,
        entrant: Entrant | None = None,
        value: float | None = None,
        *,
        epochs: int | None = None,
        accuracies: tuple[float, ...] = (),
    ) -> Attempt:
        memory = entrant.memory if entrant is not None else None
        prepared = entrant.prepared if entrant is not None else None
        return Attempt(
            candidate=self.candidate,
            outcome=outcome,
            reason=reason,
            predicted_ms=self.predicted_ms,
            times_ms=tuple(entrant.round_times_ms) if entrant is not None else (),
            num_steps=prepared.num_steps_per_epoch if prepared is not None else None,
            peak_bytes=memory.peak_bytes if memory is not None else None,
            paid_before_s=entrant.paid_before_s if entrant is not None else 0.0,
            epochs_to_target=epochs,
            accuracies=accuracies,
            value=value,
            machine_id=self.machine_id,
        )


def train_seed(track: Track, entrant: Entrant, *, seed: int) -> Trained | None:
    """A seed trained from the start; None where the worker failed."""
    bench = track.config.bench
    return track.ask(
        entrant,
        "accuracy",
        on_progress=lambda done: track.tell(entrant, "accuracy", done),
        seed=seed,
        num_epochs=bench.epochs,
        evaluate_every=math.ceil(bench.epochs / MAX_EVALUATIONS),
    )


def _budget_over() -> Failure:
    return Failure(
        kind="time", reason=note("The budget ended in the middle of it.", "它还没有测完，预算就用完了。")
    )
