"""What one bench run measures: a frozen BenchConfig, checked before any work starts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from fasthop.errors import InvalidConfig
from fasthop.measure.compare import MIN_ROUNDS
from fasthop.train.task_config import MODELS, MOST, TaskConfig, check_int, check_number

DEVICES = ("auto", "cpu", "cuda")
# Threads beyond these end the worker with SIGSEGV; seconds beyond these are no wait that the system knows.
MOST_THREADS = 1024
MOST_SECONDS = 1e9


@dataclass(frozen=True, kw_only=True, slots=True)
class BenchConfig:
    """Everything that decides what a bench run measures.

    data: a graph's name or path (see `fasthop.load_graph`), a PyG `Data` or a `Graph`.
    model, model_args, hidden, layers, dropout, lr, weight_decay, optimizer, loss, class_weight, label_smoothing, metric,
        output, head, forward_args: what is trained; see `fasthop.train.task_config.TaskConfig`, which they are handed to.
    epochs: training epochs a seed in the accuracy runs. seeds: how many seeds; 0 skips accuracy.
    rounds: how often the recipes take turns; at least 6, so that a 95 % interval exists.
    num_neighbors: fan-out a hop; None is 10, then 5 for every further layer.
    nodes: the table of the nodes, where data is an edge list. undirected: add the reverse of each edge that lacks one.
    split: a column of masks with several splits, or "random" or percentages such as "60/20/20" to draw one.
    ladder: the name of a ladder in `rewrites.ladder`.
    time_limit_s: seconds that any one request to a worker (compilation, a round, a seed) may take.
    accuracy_budget_s: seconds that the accuracy runs of one recipe may take by prediction; beyond
        it fewer seeds run, and the report says so.
    prove_budget_s: seconds that the proof of an exact recipe may take; 0 skips it, and the recipe is called not proven.
    round_s: about how many seconds of one recipe's epochs make a turn.
    """

    data: Any = "cora"
    model: str | Callable[..., Any] = "gcn"
    model_args: Mapping[str, Any] = field(default_factory=dict)
    hidden: int = 16
    layers: int = 2
    dropout: float = 0.0
    lr: float = 0.01
    weight_decay: float = 5e-4
    optimizer: str = "adam"
    loss: str | Callable[..., Any] | None = None
    class_weight: str | tuple[float, ...] | None = None
    label_smoothing: float = 0.0
    metric: str | Callable[..., Any] | None = None
    output: int | str | None = None
    head: bool = False
    forward_args: Mapping[str, Any] = field(default_factory=dict)
    epochs: int = 200
    rounds: int = 10
    seeds: int = 5
    num_neighbors: tuple[int, ...] | None = None
    batch_size: int = 128
    ladder: str = "tutorial"
    device: str = "auto"
    threads: int | None = None
    deterministic: bool = False
    time_limit_s: float = 600.0
    accuracy_budget_s: float = 120.0
    prove_budget_s: float = 10.0
    round_s: float = 0.2
    nodes: str | os.PathLike[str] | None = None
    undirected: bool = False
    root: str | None = None
    split: int | str | None = None
    transform: str | None = None
    unsafe_pickle: bool = False
    seed: int = field(default=0)

    def __post_init__(self) -> None:
        task = self.task  # checks what is its own
        object.__setattr__(self, "class_weight", task.class_weight)
        if self.device not in DEVICES:
            raise InvalidConfig(f"device is {self.device!r}; it is one of {', '.join(DEVICES)}.")
        for name, least in (
            ("epochs", 1), ("seeds", 0), ("batch_size", 1), ("rounds", MIN_ROUNDS)
        ):  # fmt: skip
            check_int(name, getattr(self, name), least)
        if self.threads is not None:
            check_int("threads", self.threads, 1, MOST_THREADS)
        check_int("seed", self.seed, 0)
        if not isinstance(self.ladder, str):
            raise InvalidConfig(f"ladder is {self.ladder!r}; it is the name of a ladder, such as 'tutorial'.")
        if self.root is not None and not isinstance(self.root, str | os.PathLike):
            raise InvalidConfig(f"root is {self.root!r}; it is the path of a folder.")
        if self.nodes is not None and not isinstance(self.nodes, str | os.PathLike):
            raise InvalidConfig(f"nodes is {self.nodes!r}; it is the path of the nodes' table.")
        if not isinstance(self.undirected, bool):
            raise InvalidConfig(f"undirected is {self.undirected!r}; it is True or False.")
        if self.split is not None and not isinstance(self.split, str):
            check_int("split", self.split, 0)
        for name in (
            "time_limit_s",
            "accuracy_budget_s",
            "prove_budget_s",
            "round_s",
        ):
            check_number(name, getattr(self, name))
        for name in ("time_limit_s", "accuracy_budget_s", "round_s"):
            if not 0.0 < getattr(self, name) <= MOST_SECONDS:
                raise InvalidConfig(
                    f"{name} is {getattr(self, name)}; it is a positive number of seconds, at most {MOST_SECONDS:g}."
                )
        if not 0.0 <= self.prove_budget_s <= MOST_SECONDS:
            raise InvalidConfig(
                f"prove_budget_s is {self.prove_budget_s}; it is a number of seconds, at most {MOST_SECONDS:g}, and 0 "
                "skips the proof."
            )
        self._check_num_neighbors()

    @property
    def task(self) -> TaskConfig:
        """What is trained, without the data and the measuring."""
        return TaskConfig(**{entry.name: getattr(self, entry.name) for entry in fields(TaskConfig)})

    def _check_num_neighbors(self) -> None:
        if self.num_neighbors is None:
            return
        if not isinstance(self.num_neighbors, tuple):
            if not isinstance(self.num_neighbors, Iterable) or isinstance(self.num_neighbors, str):
                raise InvalidConfig(
                    f"num_neighbors is {self.num_neighbors!r}; give a list with one fan-out a hop, such as [10, 5]."
                )
            object.__setattr__(self, "num_neighbors", tuple(self.num_neighbors))
        if not self.num_neighbors:
            raise InvalidConfig("num_neighbors is empty; it has one fan-out a hop, such as 10,5.")
        for count in self.num_neighbors:
            if (
                not isinstance(count, int)
                or isinstance(count, bool)
                or count < -1
                or count == 0
                or count > MOST
            ):
                raise InvalidConfig(
                    f"num_neighbors has the fan-out {count!r}; each is a positive whole number of at most "
                    f"{MOST:,}, or -1 for all."
                )
        if self.model in MODELS and len(self.num_neighbors) != self.layers:
            raise InvalidConfig(
                f"num_neighbors has {len(self.num_neighbors)} fan-outs and the model has {self.layers} layers; "
                "give one fan-out a layer."
            )

    def fan_outs(self, num_layers: int) -> tuple[int, ...]:
        """The fan-outs that are used for a model of `num_layers` hops."""
        if self.num_neighbors is not None:
            return self.num_neighbors
        return (10,) + (5,) * (num_layers - 1)
