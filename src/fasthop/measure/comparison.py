"""Two Results of the same task on the same machine, recipe by recipe: what changed, and what is noise.

Two runs are not paired round by round, and two runs of the same code differ by more than their rounds do: memory lies
elsewhere, other processes come and go, the processor warms up. One pair of runs does not tell by how much, so an
allowance is made for it, from the spread of the rounds themselves.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fasthop.errors import InvalidConfig
from fasthop.measure.compare import MIN_ROUNDS, accuracy_difference, unpaired_ratio
from fasthop.measure.run import Accuracy, Interval, Result, Run

LEAST_ALLOWANCE = 0.06
SPREAD_ALLOWANCE = 1.5
"""How far two runs of the same code may lie apart, on a logarithmic scale: this many standard deviations of a round, and
at least 6 %, since whole runs of the same code lay 3.3 % apart (a standard deviation; docs/design/measure.md)."""
MEMORY_TIE = (
    0.02  # peaks nearer than 2 % are the same: the allocator's rounding alone moves a small one by that
)
# What may differ between two runs of the same task: how much was measured, and words.
_NOT_TASK = ("notes", "rounds", "seeds")
_MACHINE = ("machine_id", "limits", "on_battery")


@dataclass(frozen=True, kw_only=True, slots=True)
class RecipeChange:
    """What changed of one recipe. Every figure is None where one of the runs does not have it.

    time_ratio: how many times as long an epoch takes after as before, with its 95 % interval, the allowance included.
    peak_ratio: peak memory after over before. accuracy_difference: points of test accuracy, after less before, with its 95 %
        interval; of equal ends where the seeds do not vary.
    lost: why the recipe was measured before and not after, by language code; empty where no reason is known; None where it
        is not lost.
    """

    name: str
    before: Run
    after: Run
    time_ratio: Interval | None = None
    peak_ratio: float | None = None
    accuracy_difference: Interval | None = None
    lost: dict[str, str] | None = None

    @property
    def time_change(self) -> str:
        """ "slower", "faster", "same" (no significant change) or "alone" (nothing to compare)."""
        if self.time_ratio is None:
            return "alone"
        if self.time_ratio.holds(1.0):
            return "same"
        return "slower" if self.time_ratio.median > 1.0 else "faster"

    @property
    def memory_change(self) -> str:
        """ "more", "less", "same" (within 2 %) or "alone"."""
        if self.peak_ratio is None:
            return "alone"
        if abs(self.peak_ratio - 1.0) <= MEMORY_TIE:
            return "same"
        return "more" if self.peak_ratio > 1.0 else "less"

    @property
    def accuracy_change(self) -> str:
        """ "higher", "lower", "same" (not decided by the seeds, or equal) or "alone"."""
        difference = self.accuracy_difference
        if difference is None:
            return "alone"
        if difference.holds(0.0):
            return "same"
        return "higher" if difference.median > 0 else "lower"

    @property
    def is_changed(self) -> bool:
        """Whether anything changed beyond the noise."""
        kinds = {self.time_change, self.memory_change, self.accuracy_change}
        return self.lost is not None or bool(kinds - {"same", "alone"})

    def is_regression(self, limit: float) -> bool:
        """Whether it got worse: an epoch or the peak by more than `limit` (0.05 is 5 %) and beyond the noise, the
        accuracy beyond what the seeds leave open, or the recipe is no longer measured."""
        slower = (
            self.time_change == "slower"
            and self.time_ratio is not None
            and self.time_ratio.median > 1 + limit
        )
        more = self.memory_change == "more" and self.peak_ratio is not None and self.peak_ratio > 1 + limit
        return slower or more or self.accuracy_change == "lower" or self.lost is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultChange:
    """What changed between two Results.

    changes: one a recipe that both have, in the order of the later one. only_before, only_after: recipes of one alone.
    versions: packages whose versions differ, with both. forced: what differs of machine and task, where it was compared all
        the same.
    """

    changes: tuple[RecipeChange, ...]
    only_before: tuple[str, ...] = ()
    only_after: tuple[str, ...] = ()
    versions: dict[str, tuple[Any, Any]]
    forced: tuple[str, ...] = ()

    @property
    def is_changed(self) -> bool:
        """Whether any recipe changed beyond the noise."""
        return any(change.is_changed for change in self.changes)

    def regressions(self, limit: float) -> tuple[RecipeChange, ...]:
        """The recipes that got worse by more than `limit`; see `RecipeChange.is_regression`."""
        return tuple(change for change in self.changes if change.is_regression(limit))

    @property
    def together(self) -> tuple[float, float] | None:
        """The least and the largest factor of time where two recipes or more were timed and all moved the same way
        beyond the noise: then something that all share changed, or the machine did. Else None."""
        timed = [change for change in self.changes if change.time_ratio is not None]
        if (
            len(timed) < 2
            or len({change.time_change for change in timed}) > 1
            or timed[0].time_change == "same"
        ):
            return None
        ratios = [change.time_ratio.median for change in timed if change.time_ratio is not None]
        return min(ratios), max(ratios)


def compare_results(before: Result, after: Result, *, force: bool = False) -> ResultChange:
    """Pairs the recipes of two Results by name.

    force: compare although machine or task differ.
    Raises InvalidConfig where they differ, or no recipe is in both.
    """
    differences = _differences(before, after)
    if differences and not force:
        raise InvalidConfig(
            f"The two runs are not of the same task on the same machine: {'; '.join(differences)}. Measure both alike, or "
            "pass --force (force=True) to compare them all the same."
        )
    earlier, later = _by_name(before), _by_name(after)
    shared = [name for name in later if name in earlier]
    if not shared:
        raise InvalidConfig(
            f"The two runs have no recipe in common: {', '.join(earlier)} and {', '.join(later)}; compare runs of one ladder."
        )
    return ResultChange(
        changes=tuple(_change(earlier[name], later[name]) for name in shared),
        only_before=tuple(name for name in earlier if name not in later),
        only_after=tuple(name for name in later if name not in earlier),
        versions=_changed_versions(before, after),
        forced=tuple(differences),
    )


def _change(before: Run, after: Run) -> RecipeChange:
    was_measured, is_measured = before.time_per_epoch_ms is not None, after.time_per_epoch_ms is not None
    lost = None
    if was_measured and not is_measured:
        lost = after.skipped_words or ({"en": after.skipped} if after.skipped else {})
    peaks = before.peak_bytes, after.peak_bytes
    return RecipeChange(
        name=after.name,
        before=before,
        after=after,
        time_ratio=_time_ratio(before, after),
        peak_ratio=peaks[1] / peaks[0] if peaks[0] and peaks[1] is not None else None,
        accuracy_difference=_accuracy_difference(before.accuracy, after.accuracy),
        lost=lost,
    )


def _time_ratio(before: Run, after: Run) -> Interval | None:
    """The ratio of two runs' times, its interval widened by what two runs of the same code may differ by."""
    times = [
        [time for time in run.round_times_ms if math.isfinite(time) and time > 0] for run in (before, after)
    ]
    if min(map(len, times)) < MIN_ROUNDS:
        return None
    ratio = unpaired_ratio(*times)
    allowance = math.exp(max(LEAST_ALLOWANCE, SPREAD_ALLOWANCE * max(map(spread, times))))
    return Interval(median=ratio.median, low=ratio.low / allowance, high=ratio.high * allowance)


def spread(times: list[float]) -> float:
    """The standard deviation of the logarithms of times, as the median distance from their median tells it: a
    single disturbed round does not count."""
    logs = [math.log(time) for time in times]
    middle = statistics.median(logs)
    # 1.4826: the median distance of a normal distribution is that part of its standard deviation.
    return 1.4826 * statistics.median(abs(entry - middle) for entry in logs)


def _accuracy_difference(before: Accuracy | None, after: Accuracy | None) -> Interval | None:
    return None if before is None or after is None else accuracy_difference(after, before)


def _by_name(result: Result) -> dict[str, Run]:
    found: dict[str, Run] = {}
    for run in result.runs:
        found.setdefault(run.name, run)
    return found


def _differences(before: Result, after: Result) -> list[str]:
    """What differs of machine and task, a phrase each."""
    found = []
    for key in _MACHINE:
        own, other = before.machine.get(key), after.machine.get(key)
        if own != other:
            found.append(f"machine.{key} is {_shown(own)} and {_shown(other)}")
    for key in dict.fromkeys((*before.task, *after.task)):
        own, other = before.task.get(key), after.task.get(key)
        if key not in _NOT_TASK and own != other:
            found.append(f"{key} is {_shown(own)} and {_shown(other)}")
    return [" ".join(text.split()) for text in found]


def _shown(value: Any) -> str:
    text = "unknown" if value is None else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _changed_versions(before: Result, after: Result) -> dict[str, tuple[Any, Any]]:
    own, other = (_versions(result) for result in (before, after))
    return {
        name: (own.get(name), other.get(name))
        for name in dict.fromkeys((*own, *other))
        if own.get(name) != other.get(name)
    }


def _versions(result: Result) -> dict[str, Any]:
    versions = result.machine.get("versions")
    found = dict(versions) if isinstance(versions, Mapping) else {}
    return {**found, "fasthop": result.fasthop_version}


def change_tree(change: RecipeChange) -> dict[str, Any]:
    """A recipe's change as JSON has it."""
    return {
        "name": change.name,
        "time_change": change.time_change,
        "time_ratio": None if change.time_ratio is None else dataclasses.asdict(change.time_ratio),
        "memory_change": change.memory_change,
        "peak_ratio": change.peak_ratio,
        "accuracy_change": change.accuracy_change,
        "accuracy_difference": None
        if change.accuracy_difference is None
        else dataclasses.asdict(change.accuracy_difference),
        "lost": change.lost,
    }
