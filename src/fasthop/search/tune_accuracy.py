"""Whether a plan keeps the accuracy: decided from seeds that both sides trained with, or said to be undecided."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fasthop.graph.note import Note, note
from fasthop.measure.compare import CONFIDENCE
from fasthop.measure.run import Interval

MOST_SEEDS = 10_000
KEPT, LOST, UNDECIDED = "kept", "lost", "undecided"


@dataclass(frozen=True, kw_only=True, slots=True)
class AccuracyVerdict:
    """What the seeds say of plan less baseline, in points of the metric.

    decision: KEPT (the interval lies above -max_drop), LOST (below it) or UNDECIDED. difference: the mean with its 95 %
    interval over seeds, each seed's two accuracies being a pair; None for fewer than two seeds. needed_seeds: how many
    would decide it by the deviation that was seen, None where it is decided or not to be told.
    """

    decision: str
    max_drop: float
    num_seeds: int
    baseline: tuple[float, ...]
    plan: tuple[float, ...]
    difference: Interval | None = None
    needed_seeds: int | None = None

    @property
    def sentence(self) -> Note:
        """The verdict in a sentence."""
        most = f"{self.max_drop:g}"
        if self.difference is None:
            return note(
                f"Accuracy is undecided: with {_seeds(self.num_seeds)} there is no interval; it takes at least 2 to tell whether "
                f"it drops by more than {most} points.",
                f"准确率未能判定：{self.num_seeds} 个种子给不出区间；要判断下降是否超过 {most} 个百分点，至少需要 2 个种子。",
            )
        d = self.difference
        change = f"{d.median:+.2f} [{d.low:+.2f}, {d.high:+.2f}]"
        if self.decision == KEPT:
            return note(
                f"Accuracy is kept: {change} points against the baseline over {_seeds(self.num_seeds)}, and {most} may be lost.",
                f"准确率得以保持：{self.num_seeds} 个种子上相对基线变化 {change} 个百分点，允许下降 {most}。",
            )
        if self.decision == LOST:
            return note(
                f"Accuracy drops: {change} points against the baseline over {_seeds(self.num_seeds)}, more than the {most} that "
                "may be lost.",
                f"准确率下降：{self.num_seeds} 个种子上相对基线变化 {change} 个百分点，超过允许的 {most}。",
            )
        if self.needed_seeds is None:
            needed_en, needed_zh = f"more than {MOST_SEEDS:,} seeds", f"超过 {MOST_SEEDS:,} 个种子"
        else:
            needed_en, needed_zh = f"about {self.needed_seeds} seeds", f"约 {self.needed_seeds} 个种子"
        return note(
            f"Accuracy is undecided: {change} points against the baseline over {_seeds(self.num_seeds)}, which neither holds nor "
            f"breaks the limit of {most}; {needed_en} would decide it.",
            f"准确率未能判定：{self.num_seeds} 个种子上相对基线变化 {change} 个百分点，既不能确认也不能否定 {most} 的限度；"
            f"需要{needed_zh}才能判定。",
        )

    def to_json(self) -> dict[str, Any]:
        """For `plan.json`."""
        d = self.difference
        return {
            "decision": self.decision,
            "max_drop": self.max_drop,
            "num_seeds": self.num_seeds,
            "baseline": list(self.baseline),
            "plan": list(self.plan),
            "difference": None if d is None else {"median": d.median, "low": d.low, "high": d.high},
            "needed_seeds": self.needed_seeds,
            "sentence": self.sentence,
        }


def judge_accuracy(baseline: Sequence[float], plan: Sequence[float], *, max_drop: float) -> AccuracyVerdict:
    """The verdict on accuracies in percent, one a seed on each side, the same seeds in the same order.

    The interval is Student's t of the differences (paired: a seed gives both sides the same parameters to start from).
    """
    pairs = [(a, b) for a, b in zip(baseline, plan, strict=False) if math.isfinite(a) and math.isfinite(b)]
    count = len(pairs)
    undecided = AccuracyVerdict(
        decision=UNDECIDED,
        max_drop=max_drop,
        num_seeds=count,
        baseline=tuple(a for a, _ in pairs),
        plan=tuple(b for _, b in pairs),
    )
    if count < 2:
        return undecided
    differences = [b - a for a, b in pairs]
    mean, std = statistics.mean(differences), statistics.stdev(differences)
    half = _half_width(std, count)
    interval = Interval(median=mean, low=mean - half, high=mean + half)
    if interval.low >= -max_drop:
        decision = KEPT
    elif interval.high < -max_drop:
        decision = LOST
    else:
        decision = UNDECIDED
    needed = seeds_to_decide(mean, std, max_drop) if decision == UNDECIDED else None
    return dataclasses.replace(undecided, decision=decision, difference=interval, needed_seeds=needed)


def seeds_to_decide(mean: float, std: float, max_drop: float) -> int | None:
    """The fewest seeds whose interval would lie on one side of -max_drop, if mean and deviation stay; None beyond MOST_SEEDS."""
    distance = abs(mean + max_drop)
    low, high = 2, MOST_SEEDS
    if _half_width(std, high) > distance:
        return None
    while low < high:  # the half-width falls with the number of seeds
        middle = (low + high) // 2
        if _half_width(std, middle) <= distance:
            high = middle
        else:
            low = middle + 1
    return low


def _half_width(std: float, count: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(count - 1, 0.5 + CONFIDENCE / 2)) * std / math.sqrt(count)


def _seeds(count: int) -> str:
    return f"{count} seed" if count == 1 else f"{count} seeds"
