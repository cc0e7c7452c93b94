"""The finals: the last contenders and the baseline side by side, by turns; the winner is ablated, proven and held to its accuracy."""

from __future__ import annotations

import dataclasses
import math
import statistics
from dataclasses import dataclass, field

from fasthop.graph.note import Note, note
from fasthop.measure.compare import MIN_ROUNDS
from fasthop.measure.rounds import turn_order
from fasthop.measure.run import Interval, Run
from fasthop.search.ablation import Ablation, RungVerdict
from fasthop.search.candidate import Candidate
from fasthop.search.entrant import Entrant
from fasthop.search.seeds import train_pairs
from fasthop.search.study import Study
from fasthop.search.track import Track
from fasthop.search.tune_accuracy import LOST, AccuracyVerdict
from fasthop.search.yardstick import Yardstick
from fasthop.verify.verdict import Verdict

FIRST_ROUNDS = MIN_ROUNDS
# The share of what is left that the first rounds of all contenders may take.
FIRST_SHARE = 0.3
# Of the budget, for what the estimates leave out at the end: evaluation, the memory pass, a busy machine.
LAST_SHARE = 0.1


@dataclass(kw_only=True, eq=False)
class Final:
    """What the finals found of one contender. run, baseline_run: their measurements; accuracy: None where no seed was trained."""

    candidate: Candidate
    run: Run
    baseline_run: Run | None
    ratio: Interval | None
    target: float | None
    verdict: Verdict | None
    accuracy: AccuracyVerdict | None
    rungs: tuple[RungVerdict, ...]
    refusal: Note | None = None


@dataclass(kw_only=True, eq=False)
class Finals:
    """baseline: its entrant, resident since the beginning; one that has failed leaves no ratio.

    baseline_counts: whether the baseline itself may be the plan: it fits the limit.
    """

    track: Track
    study: Study
    yardstick: Yardstick
    baseline: Entrant
    baseline_candidate: Candidate
    baseline_counts: bool
    notes: list[Note] = field(default_factory=list)
    tried: list[Final] = field(default_factory=list)

    def run(self, contenders: list[Candidate]) -> Final | None:
        """The first contender that is verified, in the order of the first rounds; the baseline where none is better."""
        for candidate in self._ranked(contenders):
            final = self._judge(candidate)
            if final is None:
                continue
            self.tried.append(final)
            if final.refusal is None:
                return final
            self.notes.append(final.refusal)
        if not self.baseline_counts or not self._alive:
            return None
        self.notes.append(
            note(
                "Nothing was found that is better than the baseline, which is the plan.",
                "没有找到比基线更好的方案，因此计划就是基线。",
            )
        )
        return self._judge_baseline()

    @property
    def _alive(self) -> bool:
        return self.baseline.failure is None and self.baseline.first is not None

    def _ranked(self, contenders: list[Candidate]) -> list[Candidate]:
        """In the order of what they measure by turns: the search measured them minutes apart."""
        # Each of them starts a worker here, and the winner one again.
        if (
            len(contenders) < 2
            or (len(contenders) + 2) * self.track.started_s > FIRST_SHARE * self.track.clock.left_s
        ):
            return contenders
        entrants: list[tuple[Candidate, Entrant]] = []
        values: list[tuple[float, Candidate]] = []
        try:
            entrants.extend((candidate, self._enter(candidate)) for candidate in contenders)
            running = [entry for entry in entrants if entry[1].failure is None and entry[1].first is not None]
            turn_s = sum(self._turn_s(entrant) for _, entrant in running)
            num_rounds = max(
                1, min(FIRST_ROUNDS, int(FIRST_SHARE * self.track.clock.left_s / max(turn_s, 1e-6)))
            )
            for index in range(num_rounds):
                for _, entrant in turn_order(running, index):
                    self.track.tell(entrant, "timing", index / num_rounds)
                    self.track.take_round(entrant)
            for candidate, entrant in entrants:
                if entrant.failure is not None:
                    self.notes.append(_failed(candidate, entrant))
                    continue
                value = self._value(candidate, entrant)
                values.append((math.inf if value is None else value, candidate))
        finally:
            for _, entrant in entrants:
                self.track.leave(entrant)
        return [candidate for _, candidate in sorted(values, key=lambda pair: pair[0])]

    def _judge(self, candidate: Candidate) -> Final | None:
        track = self.track
        entrant = self._enter(candidate)
        if entrant.failure is not None:
            self.notes.append(_failed(candidate, entrant))
            track.leave(entrant)
            return None
        ablation = Ablation(
            track=track, candidate=candidate, entrant=entrant, until_s=self._reserve_s(entrant)
        )
        try:
            ablation.run()
            candidate, entrant = ablation.candidate, ablation.entrant
            final = self._last_rounds(candidate, entrant, tuple(ablation.verdicts))
        finally:
            track.leave(ablation.entrant)
        if entrant.failure is not None and final.refusal is None:
            final = dataclasses.replace(final, refusal=_failed(candidate, entrant))
        track.progress.done(entrant.name, final.refusal)
        return final

    def _judge_baseline(self) -> Final:
        self._take_turns([self.baseline])
        run = self.baseline.run(self.baseline, None)
        return Final(
            candidate=self.baseline_candidate, run=run, baseline_run=run, ratio=run.ratio_to_baseline,
            target=self.yardstick.target, verdict=None, accuracy=None, rungs=(),
        )  # fmt: skip

    def _last_rounds(self, candidate: Candidate, entrant: Entrant, rungs: tuple[RungVerdict, ...]) -> Final:
        track = self.track
        if entrant.recipe.is_exact and track.config.bench.prove_budget_s > 0:
            track.tell(entrant, "prove")
            budget_s = min(track.config.bench.prove_budget_s, max(0.1 * track.clock.left_s, 1.0))
            entrant.verdict = track.ask(entrant, "prove", budget_s=budget_s)
        sides = [self.baseline, entrant] if self._alive else [entrant]
        self._take_turns(sides)
        entrant.steady = track.ask(entrant, "steady")
        track.count_memory(entrant, limited=True)
        accuracy, target = None, None
        if self._alive:
            accuracy, target = train_pairs(track, self.study, self.baseline, entrant, self.notes)
        self.baseline.steady = track.ask(self.baseline, "steady") if self._alive else None
        run = entrant.run(self.baseline, target)
        refusal = self._refusal(candidate, entrant, run, accuracy, target)
        return Final(
            candidate=candidate, run=run, baseline_run=self.baseline.run(self.baseline, target) if self._alive else None,
            ratio=run.ratio_to_baseline, target=target, verdict=entrant.verdict, accuracy=accuracy, rungs=rungs,
            refusal=refusal,
        )  # fmt: skip

    def _take_turns(self, sides: list[Entrant]) -> None:
        """As many rounds as are asked for and as the budget holds beside the seeds; fewer than 6 carry no interval."""
        track = self.track
        for entrant in sides:
            entrant.round_times_ms.clear()
        turn_s = sum(self._turn_s(entrant) for entrant in sides)
        affordable = int(0.5 * max(track.clock.left_s, 0.0) / max(turn_s, 1e-6))
        num_rounds = max(1, min(track.config.bench.rounds, affordable))
        if num_rounds < MIN_ROUNDS <= int(max(track.clock.left_s, 0.0) / max(turn_s, 1e-6)):
            num_rounds = MIN_ROUNDS
        for index in range(num_rounds):
            for entrant in turn_order(sides, index):
                track.tell(entrant, "timing", index / num_rounds)
                track.take_round(entrant)
            if track.clock.left_s <= 0:
                break
        whole = min(len(entrant.round_times_ms) for entrant in sides)
        for entrant in sides:
            if entrant.failure is None:
                del entrant.round_times_ms[whole:]
        if 0 < whole < MIN_ROUNDS:
            self.notes.append(
                note(
                    f"The budget held {whole} rounds, fewer than the {MIN_ROUNDS} that a 95 % interval takes: the ratio has none.",
                    f"预算只够 {whole} 轮，少于给出 95 % 区间所需的 {MIN_ROUNDS} 轮：比值没有区间。",
                )
            )

    def _refusal(
        self,
        candidate: Candidate,
        entrant: Entrant,
        run: Run,
        accuracy: AccuracyVerdict | None,
        target: float | None,
    ) -> Note | None:
        name = candidate.name
        if entrant.failure is not None:
            return _failed(candidate, entrant)
        if entrant.verdict is not None and entrant.verdict.is_refuted:
            said = entrant.verdict.sentence
            return note(f"{name} is refused: {said['en']}", f"{name} 被拒绝：{said['zh']}")
        if accuracy is not None and accuracy.decision == LOST:
            said = accuracy.sentence
            return note(f"{name} is refused: {said['en']}", f"{name} 被拒绝：{said['zh']}")
        if not self.baseline_counts or not self._alive:
            return None
        if self._is_better(entrant, run, target):
            return None
        if self.yardstick.objective == "time-to-accuracy" and target is not None:
            return note(
                f"{name} is refused: it does not reach {target:.2f} % sooner than the baseline, all that is paid beforehand "
                "included.",
                f"{name} 被拒绝：计入事先的全部开销，它并不比基线更早达到 {target:.2f} %。",
            )
        return note(
            f"{name} is refused: by turns with the baseline it is not significantly better.",
            f"{name} 被拒绝：与基线轮流测量，它没有显著优势。",
        )

    def _is_better(self, entrant: Entrant, run: Run, target: float | None) -> bool:
        objective = self.yardstick.objective
        if objective == "memory":
            base = self.baseline.memory.peak_bytes if self.baseline.memory is not None else math.inf
            return run.peak_bytes is not None and run.peak_bytes < base
        if objective == "time-to-accuracy" and target is not None:
            plan_s, base_s = run.time_to_accuracy_s, self.baseline.seconds_to(target)
            return plan_s is not None and (base_s is None or plan_s < base_s)
        ratio = run.ratio_to_baseline
        if ratio is None:  # too few rounds for an interval: every one of them must say so
            pairs = zip(self.baseline.round_times_ms, entrant.round_times_ms, strict=False)
            return bool(entrant.round_times_ms) and all(base > plan for base, plan in pairs)
        return ratio.low > 1.0

    def _enter(self, candidate: Candidate) -> Entrant:
        entrant = self.track.enter(candidate)
        self.track.get_ready(entrant)
        self.track.warm_up(entrant)
        self.track.count_memory(entrant, limited=True)
        return entrant

    def _value(self, candidate: Candidate, entrant: Entrant) -> float | None:
        if not entrant.round_times_ms or entrant.prepared is None:
            return None
        attempt = self.study.settled.get(candidate.key)
        return self.yardstick.value(
            candidate,
            epoch_ms=statistics.median(entrant.round_times_ms),
            num_steps=entrant.prepared.num_steps_per_epoch,
            peak_bytes=entrant.memory.peak_bytes if entrant.memory is not None else None,
            paid_before_s=entrant.paid_before_s,
            epochs=attempt.epochs_to_target if attempt is not None else None,
        )

    def _turn_s(self, entrant: Entrant) -> float:
        epoch_s = entrant.first.warm_epoch_s if entrant.first is not None else 0.0
        return max(self.track.config.bench.round_s, epoch_s)

    def _reserve_s(self, entrant: Entrant) -> float:
        """What the last rounds, the proof and two seeds need."""
        track, bench = self.track, self.track.config.bench
        sides = [self.baseline, entrant] if self._alive else [entrant]
        rounds_s = bench.rounds * sum(self._turn_s(side) for side in sides)
        seeds_s = (
            min(bench.seeds, 2)
            * bench.epochs
            * sum(s.first.warm_epoch_s for s in sides if s.first is not None)
        )
        left_s = track.clock.left_s
        needs_s = (
            min(rounds_s, 0.3 * left_s) + min(seeds_s, 0.3 * left_s) + min(bench.prove_budget_s, 0.1 * left_s)
        )
        return needs_s + LAST_SHARE * track.config.budget_s


def _failed(candidate: Candidate, entrant: Entrant) -> Note:
    why = entrant.failure.reason if entrant.failure is not None else note("It failed.", "它失败了。")
    return note(f"{candidate.name} is refused: {why['en']}", f"{candidate.name} 被拒绝：{why['zh']}")
