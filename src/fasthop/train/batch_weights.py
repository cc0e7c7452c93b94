"""BatchWeights: the place where a sampled batch leaves the weights that corrected layers read.

Sampling a GCN naively is wrong: the layer would normalise by the *subgraph's* degrees (an error of
0.33 where 0 is right, on a digraph of 60 nodes). What is unbiased is the full graph's weight of an
edge times degree/k, where k of the target's `degree` in-edges were sampled, the self-loop unscaled.
The layers stand deep inside the user's model, whose `forward(x, edge_index)` has no way to hand weights
down; so the batch leaves them here and the layers, put in by the rung `sample`, read them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch_geometric.data import Data

from fasthop.errors import NotApplicable
from fasthop.graph.graph import Graph

if TYPE_CHECKING:
    from fasthop.train.sample_weights import GCNWeights


class BatchWeights:
    """The weights of the batch at hand, by the normalisation that asks for them.

    A layer registers with `normalised(...)` or `scales()` when it is put in; `bind` computes, for each
    batch, only what was registered.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.probing = False
        self._edge_index: Tensor | None = None
        self._sources: dict[tuple[bool, bool], GCNWeights] = {}
        self._normalised: dict[tuple[bool, bool], tuple[Tensor, Tensor]] = {}
        self._wants_scale = False
        self._scale: Tensor | None = None

    def want_normalised(self, *, improved: bool, add_self_loops: bool) -> tuple[bool, bool]:
        """Registers a symmetric normalisation; returns the key to `normalised`."""
        key = (improved, add_self_loops)
        from fasthop.train.sample_weights import GCNWeights

        if key not in self._sources:
            self._sources[key] = GCNWeights(self.graph, improved=improved, add_self_loops=add_self_loops)
        return key

    def want_scale(self) -> None:
        """Registers the plain factor degree/k."""
        self._wants_scale = True

    def bind(self, data: Data, edge_index: Tensor) -> None:
        """Takes over a batch of the NeighborLoader; `edge_index` is its edges on the model's device."""
        self._edge_index = edge_index
        for key, source in self._sources.items():
            edge_weight, loop_weight = source.for_batch(data)
            self._normalised[key] = (edge_weight.to(edge_index.device), loop_weight.to(edge_index.device))
        if self._wants_scale:
            self._scale = data.edge_scale.to(edge_index.device)

    def normalised(self, key: tuple[bool, bool]) -> tuple[Tensor, Tensor]:
        """(weights of the batch's edges [e], weights of its nodes' self-loops [n])."""
        return self._normalised[key]

    def scale(self) -> Tensor:
        """degree/k of the batch's edges [e]."""
        assert self._scale is not None
        return self._scale

    def check(self, edge_index: Tensor) -> None:
        """While `probing`: raises NotApplicable where a layer is given other edges than a leading part
        of the batch's (which is what `trim_to_layer` leaves); the weights would belong to other edges."""
        if not self.probing or torch.compiler.is_compiling():
            return
        whole = self._edge_index
        assert whole is not None
        num_edges = edge_index.size(1)
        if num_edges > whole.size(1) or not torch.equal(edge_index, whole[:, :num_edges]):
            raise NotApplicable(
                "the model changes edge_index on its way to a layer whose weights the batch carries, "
                "so that they would belong to other edges"
            )
