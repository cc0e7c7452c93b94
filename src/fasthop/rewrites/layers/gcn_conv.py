"""GCNConv over prepared matrices (Kipf and Welling 2017)."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor
from torch_geometric.nn import GCNConv

from fasthop.graph.note import Note
from fasthop.rewrites.exact.fast_layer import FastLayer, aggregates_by_other, aggregation
from fasthop.rewrites.exact.hops import Hops, Value, linear
from fasthop.rewrites.layers.prepared import gcn_matrix, plain_matrix


class FastGCNConv(FastLayer):
    """A X W^T + b, the normalised A prepared once, in the order that moves less."""

    covers: ClassVar[Any] = GCNConv
    normalises = True

    @classmethod
    def refusal(cls, layer: GCNConv) -> Note | None:
        return aggregates_by_other(layer)

    def forward(self, x: Value, hops: Hops) -> Tensor:
        layer: GCNConv = self.layer
        matrix = (
            gcn_matrix(hops, x, improved=layer.improved, add_self_loops=bool(layer.add_self_loops))
            if layer.normalize
            else plain_matrix(hops, x)
        )
        reduce = aggregation(layer) or "sum"
        weight = layer.lin.weight
        if reduce in ("sum", "mean"):
            return self.propagate_linear(x, matrix, weight, layer.bias, own_first=True, reduce=reduce)
        # The largest of the transformed rows is not the transform of the largest.
        out = matrix.times(linear(x, weight), reduce)
        return out if layer.bias is None else out + layer.bias
