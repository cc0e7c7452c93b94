"""A Candidate: a recipe with its knobs turned, the threads and the learning rate; and which of them there are to try."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from fasthop.exactness import Exactness
from fasthop.rewrites.amp import Amp
from fasthop.rewrites.base import Rung
from fasthop.rewrites.compile import Compile
from fasthop.rewrites.cuda_graph import CudaGraph
from fasthop.rewrites.fused_step import FusedStepRung
from fasthop.rewrites.ladder import EXACT, Recipe
from fasthop.rewrites.pyg_sparse import PygSparse
from fasthop.rewrites.reorder_nodes import ReorderNodes
from fasthop.rewrites.sample import Sample
from fasthop.search.plan_recipe import rungs_from_json, rungs_to_json

BATCH_SIZES = (64, 128, 256, 512, 1024, 2048, 4096)
LR_FACTORS = (1.0, 0.5, 2.0, 4.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """What one trial measures. family: the recipe before its knobs were turned; name: how it is called in reports."""

    family: str
    rungs: tuple[Rung, ...]
    threads: int
    lr: float
    name: str

    @property
    def recipe(self) -> Recipe:
        """The recipe under the candidate's name."""
        return Recipe(name=self.name, rungs=self.rungs)

    @property
    def key(self) -> str:
        """The same for two candidates exactly where they are the same to measure."""
        return json.dumps([rungs_to_json(self.rungs), self.threads, self.lr], sort_keys=True)

    @property
    def samples(self) -> bool:
        """Whether an epoch is made of sampled mini-batches."""
        return any(isinstance(rung, Sample) for rung in self.rungs)

    @property
    def trains_as_baseline(self) -> bool:
        """Whether it takes the baseline's steps, up to rounding: as many epochs as the baseline to any accuracy."""
        return self.recipe.exactness is not Exactness.STATISTICAL

    def without(self, rung: str) -> Candidate:
        """The candidate without one of its rungs."""
        rungs = tuple(r for r in self.rungs if r.name != rung)
        return dataclasses.replace(
            self, rungs=rungs, name=f"{self.name} -{rung}", family=f"{self.family}-{rung}"
        )

    def keeping(self, names: set[str], *, name: str) -> Candidate:
        """The candidate with only the rungs of these names."""
        return dataclasses.replace(self, rungs=tuple(r for r in self.rungs if r.name in names), name=name)

    def to_json(self) -> dict[str, Any]:
        """For the study."""
        return {"family": self.family, "name": self.name, "rungs": rungs_to_json(self.rungs), "threads": self.threads,
                "lr": self.lr}  # fmt: skip

    @classmethod
    def from_json(cls, tree: dict[str, Any]) -> Candidate:
        """What `to_json` wrote. Raises InvalidConfig, TypeError, KeyError or ValueError for what it did not."""
        return cls(
            family=str(tree["family"]),
            name=str(tree["name"]),
            rungs=rungs_from_json(tree["rungs"]),
            threads=int(tree["threads"]),
            lr=float(tree["lr"]),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Space:
    """All candidates of a task on a device: families of recipes, and for each the knobs that an optimisation shifts.

    fan_outs: what num_neighbors may be, the first being the default; batch_sizes, likewise. tunes_lr: whether the
    learning rate of sampled recipes is turned: more steps an epoch, and noisier ones, ask for another one.
    """

    families: dict[str, tuple[Rung, ...]]
    fan_outs: tuple[tuple[int, ...], ...]
    batch_sizes: tuple[int, ...]
    threads: tuple[int, ...]
    lr: float
    dtypes: tuple[str, ...]
    modes: tuple[str, ...]
    tunes_lr: bool

    @property
    def baseline(self) -> Candidate:
        """PyG full batch, exactly as written."""
        return Candidate(family="baseline", rungs=(), threads=self.threads[0], lr=self.lr, name="baseline")

    def firsts(self) -> Iterator[Candidate]:
        """Each family once, as it is by default."""
        for family in self.families:
            yield self.candidate(family, lambda _, choices: choices[0])

    def knobs(self, family: str) -> dict[str, tuple[Any, ...]]:
        """What may be turned in a family, by the knob's name, the default first; only what has more than one value."""
        rungs = self.families[family]
        found: dict[str, tuple[Any, ...]] = {"threads": self.threads}
        if any(isinstance(rung, Sample) for rung in rungs):
            found["batch_size"] = self.batch_sizes
            found["num_neighbors"] = tuple(",".join(map(str, hops)) for hops in self.fan_outs)
            if self.tunes_lr:
                found["lr_factor"] = LR_FACTORS
        if any(isinstance(rung, Amp) for rung in rungs):
            found["dtype"] = self.dtypes
        if any(isinstance(rung, Compile) for rung in rungs):
            found["mode"] = self.modes
        return {name: choices for name, choices in found.items() if len(choices) > 1}

    def candidate(self, family: str, choose: Callable[[str, tuple[Any, ...]], Any]) -> Candidate:
        """The candidate of a family with each knob as `choose(name, choices)` has it."""
        knobs = self.knobs(family)
        chosen = {name: choose(name, choices) for name, choices in knobs.items()}
        batch_size = chosen.get("batch_size", self.batch_sizes[0])
        hops = chosen.get("num_neighbors", ",".join(map(str, self.fan_outs[0])))
        made: dict[str, dict[str, Any]] = {
            "sample": {"batch_size": batch_size, "num_neighbors": tuple(map(int, hops.split(",")))},
            "amp": {"dtype": chosen.get("dtype", self.dtypes[0])},
            "compile": {"mode": chosen.get("mode", self.modes[0])},
        }
        rungs = tuple(dataclasses.replace(r, **made.get(r.name, {})) for r in self.families[family])
        turned = [f"{name}={value}" for name, value in chosen.items() if value != knobs[name][0]]
        return Candidate(
            family=family,
            rungs=rungs,
            threads=chosen.get("threads", self.threads[0]),
            lr=self.lr * chosen.get("lr_factor", 1.0),
            name=f"{family} ({', '.join(turned)})" if turned else family,
        )


def families(device: str) -> dict[str, tuple[Rung, ...]]:
    """The recipes that are tried, those first that win most often: what is fast early lets more be left out."""
    exact: tuple[Rung, ...] = tuple(rung() for rung in EXACT if rung is not ReorderNodes)
    sample, fused = Sample(), FusedStepRung()
    found: dict[str, tuple[Rung, ...]] = {
        "exact+fused_step": (*exact, fused),
        "exact": exact,
        "sample": (sample,),
        "exact+reorder_nodes+fused_step": (*exact, ReorderNodes(), fused),
        "exact+reorder_nodes": (*exact, ReorderNodes()),
        "exact+amp": (*exact, Amp()),
        "sample+amp": (sample, Amp()),
        "pyg_sparse": (PygSparse(),),
    }
    for last in range(1, len(exact)):
        found["+".join(rung.name for rung in exact[:last])] = exact[:last]
    found |= {
        "amp": (Amp(),),
        "compile": (Compile(),),
        "compile+sample+amp": (sample, Amp(), Compile()),
    }
    if device == "cuda":
        found["exact+cuda_graph"] = (*exact, CudaGraph())
    return found


def search_space(
    *,
    device: str,
    threads: int,
    lr: float,
    num_train: int,
    num_hops: int,
    batch_size: int,
    num_neighbors: tuple[int, ...] | None,
    tunes_lr: bool,
) -> Space:
    """The space of a task: batch sizes up to the training nodes, fan-outs for the model's hops, threads by halves."""
    hops = max(num_hops, 1)
    usual = (10,) + (5,) * (hops - 1)
    wide = (15, 10) + (5,) * (hops - 2) if hops > 1 else (15,)
    fan_outs = [num_neighbors or usual, usual, (5,) * hops, wide, (20,) + (10,) * (hops - 1)]
    sizes = [batch_size, *(size for size in BATCH_SIZES if size < 2 * num_train)]
    halves = [max(1, threads >> power) for power in range(int(math.log2(max(threads, 1))) + 1)]
    return Space(
        families=families(device),
        fan_outs=tuple(dict.fromkeys(fan_outs)),
        batch_sizes=tuple(dict.fromkeys(sizes)),
        threads=tuple(dict.fromkeys([threads, *halves] if device == "cpu" else [threads])),
        lr=lr,
        dtypes=("bfloat16", "float16") if device == "cuda" else ("bfloat16",),
        modes=("default", "reduce-overhead", "max-autotune")
        if device == "cuda"
        else ("default", "max-autotune"),
        tunes_lr=tunes_lr,
    )
