"""The two sides of a row of `exact.py`: PyG's step as a user writes it, and the same task with the exact rungs."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from exact_rows import ARXIV, QUICK_ARXIV, Row
from fasthop import load_graph
from fasthop.graph.graph import Graph
from fasthop.rewrites.base import Inapplicable
from fasthop.rewrites.csr_spmm import CsrSpmm
from fasthop.rewrites.fused_step import FusedStepRung
from fasthop.rewrites.ladder import EXACT, Recipe
from fasthop.rewrites.reorder_nodes import ReorderNodes
from fasthop.train.batching import FullBatch
from fasthop.train.loop import run_epoch
from fasthop.train.setup import Setup
from fasthop.train.task import Task

CPU = torch.device("cpu")
Step = Callable[[], float]


@dataclass(frozen=True, kw_only=True)
class Options:
    """The command line."""

    quick: bool
    rounds: int | None
    reorder: bool
    root: Path


def say(text: str) -> None:
    """Progress, on the standard error."""
    print(f"  [{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


class Graphs:
    """One graph at a time, so that no other counts as memory of a step."""

    def __init__(self, options: Options) -> None:
        self.options, self.name, self.graph = options, "", None

    def __call__(self, name: str) -> Graph:
        name = QUICK_ARXIV if self.options.quick and name == ARXIV else name
        if name != self.name or self.graph is None:
            self.graph = None
            gc.collect()
            root = self.options.root if name.startswith("planetoid:") else None
            self.name, self.graph = name, load_graph(name, root=root)
        return self.graph


def inputs_of(graph: Graph) -> list[Any]:
    """What a step is given, on both sides alike."""
    return [graph.x, graph.edge_index, graph.y, graph.train_mask, graph.val_mask, graph.test_mask]


def baseline(graph: Graph, row: Row, *, dropout: float | None = None) -> Setup:
    """PyG as written. dropout: None is the row's."""
    rate = row.dropout if dropout is None else dropout
    setup = Setup.baseline(Task(graph=graph, make_model=lambda: row.model(graph, rate)), seed=0, device=CPU)
    if row.against == "SparseTensor":
        from torch_sparse import SparseTensor  # pyright: ignore[reportMissingImports]

        size = (graph.num_nodes, graph.num_nodes)
        adj_t = SparseTensor.from_edge_index(graph.edge_index.flip(0).long(), sparse_sizes=size)
        assert isinstance(setup.batches, FullBatch)
        setup = replace(setup, batches=FullBatch(replace(setup.batches.batch, edges=adj_t)))
    return setup


def rewritten(graph: Graph, row: Row, options: Options, *, dropout: float | None = None) -> Setup:
    """The same task with the exact rungs. `csr_spmm` stands last, because the last of several must act."""
    setup = baseline(graph, replace(row, against="edge_index"), dropout=dropout)
    left_out = {*row.without, *(() if options.reorder else (ReorderNodes.name,)), CsrSpmm.name}
    rungs = [rung() for rung in EXACT if rung.name not in left_out]
    setup = Recipe(name="exact", rungs=(*rungs, CsrSpmm())).on(setup)
    try:
        return FusedStepRung().on(setup)
    except Inapplicable:
        return setup


def rungs_of(setup: Setup) -> list[str]:
    """What acts in a setup."""
    return sorted(setup.exact.acted) + (["fused_step"] if setup.make_step is not None else [])


def stepping(setup: Setup) -> Step:
    """A fresh step of a setup, from the parameters that it has."""
    step = setup.step()
    return lambda: float(run_epoch(step, setup.batches))
