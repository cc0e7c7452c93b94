"""The proof of a fast model: both sides made from the user's model and data, in any dtype, on all of the graph or a part."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fasthop.graph.graph import Graph
from fasthop.rewrites.exact.build import Built, build_fast_model
from fasthop.rewrites.exact.options import ExactOptions
from fasthop.rewrites.structure import copy_sharing
from fasthop.train.mode import evaluating
from fasthop.verify.subgraph import Reach, Subgraph
from fasthop.verify.subject import Maker, Subject


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
                return twin(*inputs.call)

        return Subject.of(twin, lambda: twin(*inputs.call)[rows], predict=predict)

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
            return out if not built.order.is_whole else out[rows]

        def predict() -> Tensor:
            with evaluating(fast):
                return fast(*inputs.call)

        return Subject.of(twin, forward, predict=predict)

    return make


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


def _cast(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x.detach().to(dtype)
