"""GCNConv over prepared matrices (Kipf and Welling 2017)."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor
from torch_geometric.nn import GCNConv

from fasthop.graph.note import Note, note
from fasthop.rewrites.exact.fast_layer import FastLayer, aggregation
from fasthop.rewrites.exact.hops import Hops, Value, dense, linear
from fasthop.rewrites.layers.prepared import gcn_matrix, plain_matrix


class FastGCNConv(FastLayer):
    """A X W^T + b, the normalised A prepared once, in the order that moves less."""

    covers: ClassVar[Any] = GCNConv
    normalises = True

    @classmethod
    def refusal(cls, layer: GCNConv) -> Note | None:
        if aggregation(layer) is None:
            return note(
                f"GCNConv aggregates by {layer.aggr}, which spmm does not have.",
                f"GCNConv 的聚合方式 {layer.aggr} 不受 spmm 支持。",
            )
        return None

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
            out = self.propagate_linear(x, matrix, weight, own_first=True, reduce=reduce)
        else:  # the largest of the transformed rows is not the transform of the largest
            out = matrix.times(linear(x, weight), reduce)
        out = dense(out)
        return out if layer.bias is None else out + layer.bias
