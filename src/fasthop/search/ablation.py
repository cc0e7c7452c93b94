"""The ablation: each rung of a winner against the recipe without it, by turns; what does not help is taken out."""

from __future__ import annotations

import dataclasses
import statistics
from dataclasses import dataclass, field
from typing import Any

from fasthop.graph.note import Note, note
from fasthop.measure.compare import MIN_ROUNDS, paired_ratio
from fasthop.measure.rounds import turn_order
from fasthop.measure.run import Interval
from fasthop.rewrites.exact.rung import ExactRung
from fasthop.search.candidate import Candidate
from fasthop.search.entrant import Entrant
from fasthop.search.track import Track

# Memory is counted, not timed: a peak that is lower by more than this is lower.
LESS_MEMORY = 0.99
# Of ten rounds the interval leaves the outermost on each side out, of six to eight none: one disturbed round then hides a gain.
USUAL_ROUNDS, ROUNDS_SHARE = 10, 0.04


@dataclass(frozen=True, kw_only=True, slots=True)
class RungVerdict:
    """Whether a rung stays. ratio: how many times as fast the recipe is with it as without it."""

    rung: str
    kept: bool
    reason: Note
    ratio: Interval | None = None

    def to_json(self) -> dict[str, Any]:
        """For the evidence of a plan."""
        ratio = self.ratio and {"median": self.ratio.median, "low": self.ratio.low, "high": self.ratio.high}
        return {"rung": self.rung, "kept": self.kept, "ratio": ratio, "sentence": self.reason}


@dataclass(kw_only=True, eq=False)
class Ablation:
    """candidate, entrant: the winner, ready and warm; both change where a rung is taken out. until_s: how much of the budget
    must be left when it ends."""

    track: Track
    candidate: Candidate
    entrant: Entrant
    until_s: float
    verdicts: list[RungVerdict] = field(default_factory=list)

    def run(self) -> None:
        """Takes out what finds nothing to do, then tries the recipe without each of the others, the last first."""
        self._take_out_idle()
        for rung in reversed(self.candidate.rungs):
            if self.track.clock.left_s < self.until_s + self._takes_s():
                self.verdicts.append(
                    RungVerdict(
                        rung=rung.name,
                        kept=True,
                        reason=note(
                            f"{rung.name} was not tried without: the budget is needed for the last rounds.",
                            f"没有测量去掉 {rung.name} 的情形：余下的预算要留给最后几轮。",
                        ),
                    )
                )
                continue
            # Without its only rung it is the baseline, which the last rounds hold it against.
            if len(self.candidate.rungs) > 1:
                self._try_without(rung.name)
        if any(not verdict.kept for verdict in self.verdicts):
            self.candidate = dataclasses.replace(
                self.candidate, name="+".join(r.name for r in self.candidate.rungs)
            )

    def _take_out_idle(self) -> None:
        """A rung that changed nothing goes without a measurement: the recipe without it is the same."""
        acting = self.track.ask(self.entrant, "acting")
        if acting is None:
            return
        idle = [r.name for r in self.candidate.rungs if isinstance(r, ExactRung) and r.name not in acting]
        if not idle:
            return
        kept = {r.name for r in self.candidate.rungs if r.name not in idle}
        self.candidate = self.candidate.keeping(kept, name=self.candidate.name)
        self.verdicts += [
            RungVerdict(
                rung=name,
                kept=False,
                reason=note(
                    f"{name} found nothing to do on this model and graph.", f"{name} 在此模型和图上无事可做。"
                ),
            )
            for name in idle
        ]

    def _try_without(self, rung: str) -> None:
        without = self.candidate.without(rung)
        other = self.track.enter(without)
        try:
            self.track.get_ready(other)
            self.track.warm_up(other)
            self.track.count_memory(other, limited=True)
            ratio = self._by_turns(other)
        except BaseException:
            self.track.leave(other)
            raise
        if ratio is None and other.failure is None and self.entrant.failure is None:
            self.track.leave(other)
            return  # nothing was decided
        verdict = self._decide(rung, other, ratio)
        self.verdicts.append(verdict)
        self.track.progress.done(other.name, verdict.reason)
        if verdict.kept:
            self.track.leave(other)
            return
        self.track.leave(self.entrant)
        self.candidate = dataclasses.replace(without, name=f"{self.candidate.name} -{rung}")
        self.entrant = other

    def _by_turns(self, other: Entrant) -> Interval | None:
        self.entrant.round_times_ms.clear()
        other.round_times_ms.clear()
        num_rounds = self._num_rounds()
        for index in range(num_rounds):
            for entrant in turn_order((self.entrant, other), index):
                self.track.tell(other, "timing", index / num_rounds)
                if self.track.take_round(entrant) is None:
                    return None
        return paired_ratio(other.round_times_ms, self.entrant.round_times_ms)

    def _decide(self, rung: str, other: Entrant, ratio: Interval | None) -> RungVerdict:
        if ratio is None:
            why = other.failure.reason if other.failure is not None else note("It failed.", "它失败了。")
            return RungVerdict(
                rung=rung,
                kept=True,
                reason=note(
                    f"{rung} stays, because the recipe does not run without it: {why['en']}",
                    f"保留 {rung}，因为去掉它方案就无法运行：{why['zh']}",
                ),
            )
        said = f"{ratio.median:.2f}x [{ratio.low:.2f}, {ratio.high:.2f}]"
        if self.track.config.objective == "memory" and self.entrant.memory and other.memory:
            less = self.entrant.memory.peak_bytes < LESS_MEMORY * other.memory.peak_bytes
        else:
            less = False
        if ratio.low > 1.0 or less:
            return RungVerdict(
                rung=rung,
                kept=True,
                ratio=ratio,
                reason=note(
                    f"{rung} stays: with it an epoch is {said} as fast{' and holds less memory' if less else ''}.",
                    f"保留 {rung}：有它时每个 epoch 的速度是没有时的 {said}{'，且占用内存更少' if less else ''}。",
                ),
            )
        return RungVerdict(
            rung=rung,
            kept=False,
            ratio=ratio,
            reason=note(
                f"{rung} is taken out: with it an epoch is {said} as fast as without, which is no significant gain.",
                f"去掉 {rung}：有它时每个 epoch 的速度是没有时的 {said}，没有显著提升。",
            ),
        )

    def _num_rounds(self) -> int:
        affordable = ROUNDS_SHARE * self.track.config.budget_s / (2 * self._turn_s())
        return USUAL_ROUNDS if affordable >= USUAL_ROUNDS else MIN_ROUNDS

    def _turn_s(self) -> float:
        return max(self.track.config.bench.round_s, self._epoch_s())

    def _epoch_s(self) -> float:
        if self.entrant.round_times_ms:
            return statistics.median(self.entrant.round_times_ms) / 1e3
        return self.entrant.first.warm_epoch_s if self.entrant.first is not None else 0.0

    def _takes_s(self) -> float:
        """About how long one rung takes: a worker's start, its warm-up and the turns of both."""
        turns_s = 2 * self._num_rounds() * self._turn_s()
        return self.track.started_s + self.entrant.paid_before_s + 6 * self._epoch_s() + turns_s
