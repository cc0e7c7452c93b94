"""The row that a recipe is built on, and how the two relate."""

from __future__ import annotations

from dataclasses import dataclass

from fasthop.errors import InvalidConfig
from fasthop.measure.compare import paired_ratio
from fasthop.measure.run import Interval, Result, Run
from fasthop.report.figures import measured
from fasthop.report.words import line, phrase


@dataclass(frozen=True, kw_only=True, slots=True)
class Versus:
    """A run beside the one it is built on.

    ratio: how many times as fast an epoch is, paired round by round; None where it cannot be told.
    change: "faster", "slower", "same" (the interval holds 1) or "alone".
    """

    run: Run
    before: Run
    ratio: Interval | None
    change: str

    @property
    def added(self) -> tuple[str, ...]:
        """The rungs that the run has and the one before it has not."""
        return self.run.rungs[len(self.before.rungs) :]


def before_words(found: Versus, lang: str) -> str:
    """The row that a run is built on as a sentence names it."""
    return line(found.before.name) if found.before.rungs else phrase("explain.the_baseline", lang)


def built_on(run: Run, result: Result) -> Run:
    """The row with all rungs of a run but its last, where there is one with a time; else the baseline."""
    if len(run.rungs) > 1:
        for other in result.runs:
            if other.rungs == run.rungs[:-1] and measured(other.time_per_epoch_ms) is not None:
                return other
    return result.baseline


def versus(run: Run, result: Result) -> Versus | None:
    """A run beside the one it is built on; None for the baseline."""
    if run is result.baseline:
        return None
    before = built_on(run, result)
    ratio = measured(run.ratio_to_baseline) if before is result.baseline else _paired(before, run)
    if ratio is None or measured(run.time_per_epoch_ms) is None:
        return Versus(run=run, before=before, ratio=None, change="alone")
    change = "same" if ratio.holds(1.0) else "faster" if ratio.median > 1.0 else "slower"
    return Versus(run=run, before=before, ratio=ratio, change=change)


def _paired(before: Run, run: Run) -> Interval | None:
    try:
        return paired_ratio(before.round_times_ms, run.round_times_ms)
    except (InvalidConfig, TypeError, ValueError):  # too few rounds, or what a file holds in their place
        return None
