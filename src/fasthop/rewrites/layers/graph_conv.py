"""GraphConv over the prepared edges (Morris et al. 2019)."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor
from torch_geometric.nn import GraphConv

from fasthop.graph.note import Note
from fasthop.rewrites.exact.fast_layer import FastLayer, aggregates_by_other, aggregation
from fasthop.rewrites.exact.hops import Hops, Value
from fasthop.rewrites.layers.prepared import aggregating
from fasthop.rewrites.layers.rooted import rooted


class FastGraphConv(FastLayer):
    """W_rel reduce(e X over the neighbours) + W_root X; mean and sum in the order that moves less."""

    covers: ClassVar[Any] = GraphConv

    @classmethod
    def refusal(cls, layer: GraphConv) -> Note | None:
        return aggregates_by_other(layer)

    def forward(self, x: Value, hops: Hops) -> Tensor:
        layer: GraphConv = self.layer
        matrix, reduce = aggregating(hops, x, aggregation(layer) or "sum", weighted=True)
        return rooted(self, x, x, matrix, layer.lin_rel, layer.lin_root, reduce)
