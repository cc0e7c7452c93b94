"""TuneConfig: what `tune` may use up, what it may lose, and what it is to make small; checked before any work."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fasthop.errors import InvalidConfig
from fasthop.search.amounts import as_bytes, as_seconds
from fasthop.search.config import BenchConfig

OBJECTIVES = ("time-to-accuracy", "epoch-time", "memory")
WORKERS = ("local", "ray")
LEAST_BUDGET_S = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class TuneConfig:
    """What a tune searches for.

    bench: data, model and training as given, which the baseline is made of; its seeds are the most that accuracy is
        measured over, its rounds how often the last contenders take turns.
    memory_bytes: the most that a plan's epoch may hold beside the graph itself (peak of live bytes); None is no limit.
    max_accuracy_drop: points of the metric that a plan may lose against the baseline.
    budget_s: seconds for all of it. objective: what is to be small, one of OBJECTIVES.
    workers: "local" measures in processes of this machine, "ray" on a Ray cluster, one trial a node.
    max_trials: the most candidates that are measured; None leaves it to the budget.
    """

    bench: BenchConfig = field(default_factory=BenchConfig)
    memory_bytes: int | None = None
    max_accuracy_drop: float = 0.5
    budget_s: float = 600.0
    objective: str = "time-to-accuracy"
    workers: str = "local"
    max_trials: int | None = None

    def __post_init__(self) -> None:
        if self.memory_bytes is not None:
            object.__setattr__(self, "memory_bytes", as_bytes(self.memory_bytes))
        object.__setattr__(self, "budget_s", as_seconds(self.budget_s))
        if self.budget_s < LEAST_BUDGET_S:
            raise InvalidConfig(f"budget is {self.budget_s:g} s; it is at least {LEAST_BUDGET_S:g} s.")
        drop = self.max_accuracy_drop
        if not isinstance(drop, int | float) or isinstance(drop, bool) or not 0.0 <= drop <= 100.0:
            raise InvalidConfig(f"max_accuracy_drop is {drop!r}; it is a number of points from 0 to 100.")
        if self.objective not in OBJECTIVES:
            raise InvalidConfig(f"objective is {self.objective!r}; it is one of {', '.join(OBJECTIVES)}.")
        if self.workers not in WORKERS:
            raise InvalidConfig(f"workers is {self.workers!r}; it is one of {', '.join(WORKERS)}.")
        most = self.max_trials
        if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 1):
            raise InvalidConfig(f"max_trials is {most!r}; it is a whole number of at least 1.")
        if self.objective == "time-to-accuracy" and self.bench.seeds == 0:
            raise InvalidConfig(
                "objective is 'time-to-accuracy' and seeds is 0, which measures no accuracy; give seeds of at least 1, or the "
                "objective epoch-time."
            )

    def settings(self) -> dict[str, Any]:
        """What decides the measurements, as JSON takes it: a study is only gone on with under the same."""
        found = {
            entry.name: _plain(getattr(self.bench, entry.name))
            for entry in dataclasses.fields(self.bench)
            if entry.name not in FREE
        }
        return found | {
            "memory_bytes": self.memory_bytes,
            "max_accuracy_drop": self.max_accuracy_drop,
            "objective": self.objective,
        }


# What may differ when a study is gone on with: it decides how long and how well is measured, not what.
FREE = (
    "data",
    "time_limit_s",
    "accuracy_budget_s",
    "prove_budget_s",
    "rounds",
    "seeds",
    "ladder",
    "root",
    "unsafe_pickle",
)


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if value is None or isinstance(value, str | int | float):
        return value
    return getattr(value, "__qualname__", type(value).__qualname__)
