"""The proof of a fast model: both sides made from the user's model and data, in any dtype, on all of the graph or a part."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten

from fasthop.exactness import Exactness
from fasthop.graph.graph import Graph
from fasthop.rewrites.exact.build import Built, build_fast_model
from fasthop.rewrites.exact.fused import fuse
from fasthop.rewrites.exact.options import ExactOptions
from fasthop.rewrites.fused_step import FusedStepRung
from fasthop.rewrites.ladder import Recipe
from fasthop.rewrites.structure import copy_sharing
from fasthop.train.mode import evaluating
from fasthop.train.presented import attributes_of
from fasthop.train.setup import Setup
from fasthop.verify.budget import Budget
from fasthop.verify.judge import check
from fasthop.verify.subgraph import Reach, Subgraph
from fasthop.verify.subject import Maker, Subject
from fasthop.verify.verdict import Verdict


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Inputs:
    """The graph's tensors, cast to a dtype, on all nodes or on a part."""

    x: Tensor
    edge_index: Tensor
    edge_weight: Tensor | None
    train_mask: Tensor

    @classmethod
    def of(cls, graph: Graph, *, weighted: bool, dtype: torch.dtype, part: Subgraph | None) -> Inputs:
        """On a part, its seeds are the training nodes."""
        assert graph.x is not None
        weight = graph.edge_weight if weighted else None
        if part is None:
            return cls(
                x=_cast(graph.x, dtype),
                edge_index=graph.edge_index,
                edge_weight=None if weight is None else weight.detach().to(dtype),
                train_mask=graph.train_mask,
            )
        x = graph.x if graph.x.layout == torch.strided else graph.x.to_sparse_coo()
        mask = torch.zeros(part.num_nodes, dtype=torch.bool, device=graph.x.device)
        mask[part.seeds] = True
        return cls(
            x=_cast(x.index_select(0, part.n_id), dtype),
            edge_index=part.edge_index,
            edge_weight=None if weight is None else weight.detach()[part.e_id].to(dtype),
            train_mask=mask,
        )

    @property
    def call(self) -> tuple[Tensor, ...]:
        """What the model is called with."""
        if self.edge_weight is None:
            return self.x, self.edge_index
        return self.x, self.edge_index, self.edge_weight


def reference_maker(model: torch.nn.Module, graph: Graph, *, weighted: bool) -> Maker:
    """Makes the original: a copy of the user's model as PyG runs it."""

    def make(dtype: torch.dtype, part: Subgraph | None) -> Subject:
        inputs = Inputs.of(graph, weighted=weighted, dtype=dtype, part=part)
        twin = private_copy(model, dtype)
        rows = inputs.train_mask

        def predict() -> Tensor:
            with evaluating(twin):
                return one_tensor(twin(*inputs.call), rows.numel())

        return Subject.of(twin, lambda: one_tensor(twin(*inputs.call), rows.numel())[rows], predict=predict)

    return make


Rewrite = Callable[[Built], object]
"""What is done to a built fast model before it is judged, such as fusing its program."""


def candidate_maker(
    model: torch.nn.Module,
    graph: Graph,
    *,
    weighted: bool,
    options: ExactOptions,
    then: Rewrite | None = None,
) -> Maker:
    """Makes a rewritten side: a fast model of a copy of the user's model, as `accelerate` builds it."""

    def make(dtype: torch.dtype, part: Subgraph | None) -> Subject:
        inputs = Inputs.of(graph, weighted=weighted, dtype=dtype, part=part)
        twin = private_copy(model, dtype)
        built = build_fast_model(
            twin,
            x=inputs.x,
            edge_index=inputs.edge_index,
            edge_weight=inputs.edge_weight,
            train_mask=inputs.train_mask,
            options=options,
        )
        if then is not None:
            then(built)
        fast = built.model
        rows = inputs.train_mask

        def forward() -> Tensor:
            out = fast(*inputs.call)
            return out if not built.order.is_whole else one_tensor(out, rows.numel())[rows]

        def predict() -> Tensor:
            with evaluating(fast):
                return one_tensor(fast(*inputs.call), rows.numel())

        return Subject.of(twin, forward, predict=predict)

    return make


def one_tensor(out: Any, num_nodes: int) -> Tensor:
    """All that a model returns in one tensor with a row a node, so that nothing of it escapes the proof: of several values
    those with a row a node side by side, and any other one repeated for each node."""
    if isinstance(out, Tensor):
        return out
    found = [leaf for leaf in tree_flatten(out)[0] if isinstance(leaf, Tensor) and leaf.is_floating_point()]
    of_nodes = [
        leaf.reshape(num_nodes, -1)
        if leaf.dim() and leaf.size(0) == num_nodes
        else leaf.reshape(1, -1).expand(num_nodes, -1)
        for leaf in found
    ]
    return torch.cat(of_nodes, dim=1)


def private_copy(model: torch.nn.Module, dtype: torch.dtype) -> torch.nn.Module:
    """A copy with parameters of its own, cast; caches that layers keep of a graph do not come along, because they would
    stay in their old precision."""
    emptied = copy_sharing(model)
    twin = copy.deepcopy(emptied).to(dtype)
    for parameter in twin.parameters():
        parameter.grad = None
    return twin


def reach_of(graph: Graph, num_hops: int | None) -> Reach | None:
    """How a part is cut: the training nodes with all that they depend on; None where rows depend on all others."""
    if num_hops is None:
        return None
    seeds = graph.train_mask.nonzero().view(-1)
    # A normalisation reads the degrees of the sources, one hop further.
    return Reach(
        edge_index=graph.edge_index, num_nodes=graph.num_nodes, seeds=seeds, num_hops=max(num_hops, 1) + 1
    )


def prove_setup(
    setup: Setup, recipe: Recipe, *, budget_s: float, seed: int, peak_bytes: int | None = None
) -> Verdict | None:
    """The verdict on a recipe of exact rungs that `setup` was made with; None for another one. peak_bytes: see `Budget`."""
    if not recipe.is_exact or setup.exact is None:
        return None
    built: Built = setup.exact
    graph, model = setup.task.graph, setup.original
    weighted = built.weighted
    traced = built.untraceable is None and built.mixes is None
    fuses = any(rung.name == FusedStepRung.name for rung in recipe.rungs)
    return check(
        recipe.name,
        reference_maker(model, graph, weighted=weighted),
        candidate_maker(model, graph, weighted=weighted, options=built.options, then=fuse if fuses else None),
        exactness=Exactness.REASSOCIATED,
        dtype=next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32),
        budget=Budget(seconds=budget_s, peak_bytes=peak_bytes),
        # What the forward is given beyond x and the edges is of the whole graph, and is not cut.
        reach=reach_of(graph, built.num_hops if traced and not attributes_of(model) else None),
        seed=seed,
    )


def _cast(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x.detach().to(dtype)
