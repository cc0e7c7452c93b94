"""APPNP over prepared matrices (Gasteiger et al. 2019)."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor
from torch_geometric.nn import APPNP

from fasthop.graph.note import Note, note
from fasthop.rewrites.exact.fast_layer import FastLayer, aggregates_by_other, aggregation
from fasthop.rewrites.exact.hops import Hops, Value, dense
from fasthop.rewrites.exact.sums import plus
from fasthop.rewrites.layers.prepared import gcn_matrix, plain_matrix


class FastAPPNP(FastLayer):
    """K times Z <- (1 - alpha) A Z + alpha X; each hop computes the rows that the next one reads."""

    covers: ClassVar[Any] = APPNP
    normalises = True

    @classmethod
    def refusal(cls, layer: APPNP) -> Note | None:
        if layer.dropout > 0:
            return note(
                f"APPNP drops entries of its matrix with probability {layer.dropout}, anew in each hop.",
                f"APPNP 以概率 {layer.dropout} 在每一跳重新丢弃矩阵元素。",
            )
        return aggregates_by_other(layer)

    @property
    def num_hops(self) -> int:
        return self.layer.K

    def forward(self, x: Value, hops: Hops) -> Tensor:
        layer: APPNP = self.layer
        reduce = aggregation(layer) or "sum"
        # (1 - alpha) stands in the matrix's values, which are there anyway: one pass over the rows less a hop.
        scales = layer.normalize and reduce in ("sum", "mean")
        teleport = out = dense(x)
        for hop in range(layer.K):
            if layer.normalize:
                scale = 1 - layer.alpha if scales else 1.0
                matrix = gcn_matrix(hops, x, add_self_loops=layer.add_self_loops, hop=hop, scale=scale)
            else:
                matrix = plain_matrix(hops, x, hop)
            out = matrix.times(out, reduce)
            if not scales:
                out = out * (1 - layer.alpha)
            out = plus(out, teleport[: matrix.num_rows], alpha=layer.alpha)
        return out
