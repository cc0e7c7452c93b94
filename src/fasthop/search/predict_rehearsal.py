"""A rehearsal: a step of a recipe on a small graph made for it, whose sizes are then replaced by those of the true one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from fasthop.errors import NotApplicable
from fasthop.graph.graph import Graph
from fasthop.rewrites.base import Rung
from fasthop.rewrites.compile import Compile
from fasthop.rewrites.ladder import Recipe
from fasthop.rewrites.sample import Sample
from fasthop.rewrites.sampled_layers import correct
from fasthop.rewrites.structure import copy_sharing
from fasthop.search.predict_trace import Call, record_step
from fasthop.train.batching import Batch
from fasthop.train.setup import Setup
from fasthop.train.task import Task

CPU = torch.device("cpu")
# Primes, far from the widths that layers have, so that a dimension tells what it is of.
NUM_NODES, NUM_EDGES, NUM_ROWS = 1009, 5003, 307
_TRIES = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """Of a batch: its nodes, its edges, and the rows that enter the loss."""

    num_nodes: int
    num_edges: int
    num_rows: int

    def replacing(self, small: Sizes) -> dict[int, int]:
        """By each dimension that the rehearsal has the one that this batch has; a self-loop a node may come on top."""
        return {
            small.num_nodes: self.num_nodes,
            small.num_edges: self.num_edges,
            small.num_edges + small.num_nodes: self.num_edges + self.num_nodes,
            small.num_rows: self.num_rows,
        }


@dataclass(frozen=True, kw_only=True)
class Rehearsal:
    """The operators of a step, and of which sizes they were."""

    calls: tuple[Call, ...]
    sizes: Sizes

    def at(self, sizes: Sizes) -> tuple[Call, ...]:
        """The operators of a step on a batch of other sizes."""
        replaced = sizes.replacing(self.sizes)
        return tuple(call.scaled(replaced) for call in self.calls)


def rehearse_step(task: Task, recipe: Recipe, seed: int) -> Rehearsal:
    """A step of `recipe` on a small random graph of as many features and classes, on the CPU.

    Compilation is left out: what is recorded is what would be compiled. Neighbour sampling is too: the model is the one that
    the rung `sample` makes, on a batch of the small graph's. Raises NotApplicable where a rung does not apply, and whatever
    a model raises that does not run on another graph than its own.
    """
    model = task.build_model(seed)
    widths = {size for parameter in model.parameters() if _has_shape(parameter) for size in parameter.shape}
    widths |= {task.graph.num_features, task.graph.num_classes}
    sizes = _apart(widths)
    graph = small_graph(task.graph, sizes)
    setup = Setup.baseline(dataclasses.replace(task, graph=graph), seed=seed, device=CPU)
    for rung in recipe.rungs:
        setup = _with(setup, rung)
    (batch,) = setup.batches
    return Rehearsal(calls=record_step(setup, batch), sizes=sizes)


def small_graph(graph: Graph, sizes: Sizes) -> Graph:
    """A random graph without self-loops and parallel edges, features of as many columns and the dtype of `graph`'s."""
    assert graph.x is not None
    generator = torch.Generator().manual_seed(0)
    n, e = sizes.num_nodes, sizes.num_edges
    source = torch.arange(e) % n
    target = (source + 1 + torch.arange(e) // n) % n
    train_mask = torch.zeros(n, dtype=torch.bool)
    train_mask[: sizes.num_rows] = True
    weight = None if graph.edge_weight is None else torch.ones(e, dtype=graph.edge_weight.dtype)
    return Graph(
        x=torch.rand(n, graph.num_features, generator=generator).to(graph.x.dtype),
        edge_index=torch.stack([source, target]),
        edge_weight=weight,
        y=_labels(n, graph),
        train_mask=train_mask,
        val_mask=~train_mask,
        test_mask=~train_mask,
        num_nodes=n,
        num_classes=graph.num_classes,
        name="rehearsal",
    )


def _labels(num_nodes: int, graph: Graph) -> Tensor:
    y = torch.arange(num_nodes) % graph.num_classes
    return torch.nn.functional.one_hot(y, graph.num_classes).float() if graph.is_multilabel else y


def _has_shape(parameter: Tensor) -> bool:
    return not torch.nn.parameter.is_lazy(parameter)


def _apart(widths: set[int]) -> Sizes:
    """Sizes that no width of the model is, nor anything that is likely to come of two of them."""
    n, e, rows = NUM_NODES, NUM_EDGES, NUM_ROWS
    for _ in range(_TRIES):
        if not {n, e, n + e, rows} & widths:
            return Sizes(num_nodes=n, num_edges=e, num_rows=rows)
        n, e, rows = n + 12, e + 18, rows + 4
    raise NotApplicable("The model has widths of all the sizes that a rehearsal could take.")


def _with(setup: Setup, rung: Rung) -> Setup:
    if isinstance(rung, Compile):
        return setup
    if not isinstance(rung, Sample):
        return rung.on(setup)
    reason = rung.check(setup)
    if reason is not None:
        raise NotApplicable(reason["en"])
    (batch,) = setup.batches
    weights = _OneBatch(batch)
    model = correct(copy_sharing(setup.model), weights).train()  # type: ignore[arg-type]
    rows = int(setup.task.graph.train_mask.sum())
    leading = dataclasses.replace(batch, rows=rows)  # a sampled batch's first rows are its seeds
    return dataclasses.replace(setup, model=model, batches=_Batches(leading))


class _Batches:
    """One batch an epoch, which is no full batch."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    def __iter__(self) -> Iterator[Batch]:
        yield self.batch

    def __len__(self) -> int:
        return 1

    def restart(self, seed: int) -> None:
        """Nothing is drawn."""


class _OneBatch:
    """In the place of BatchWeights: weights of the right shapes, so that neither sampler nor kernels are loaded."""

    probing = False

    def __init__(self, batch: Batch) -> None:
        self._edges = torch.ones(batch.edges.size(1), dtype=batch.x.dtype)
        self._loops = torch.ones(batch.x.size(0), dtype=batch.x.dtype)

    def want_normalised(self, *, improved: bool, add_self_loops: bool) -> tuple[bool, bool]:
        return (improved, add_self_loops)

    def want_scale(self) -> None:
        return

    def normalised(self, key: tuple[bool, bool]) -> tuple[Tensor, Tensor]:
        return self._edges, self._loops

    def scale(self) -> Tensor:
        return self._edges

    def check(self, edge_index: Tensor) -> None:
        return
