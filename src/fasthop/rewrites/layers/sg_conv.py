"""SGConv over prepared matrices (Wu et al. 2019)."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor
from torch_geometric.nn import SGConv

from fasthop.graph.note import Note
from fasthop.rewrites.exact.constant import Constant
from fasthop.rewrites.exact.fast_layer import FastLayer, aggregates_by_other, aggregation
from fasthop.rewrites.exact.hops import Hops, Value, linear, times
from fasthop.rewrites.exact.sums import plus
from fasthop.rewrites.layers.prepared import gcn_matrix


class FastSGConv(FastLayer):
    """A^K X W^T + b. Products of a constant X are kept as far as they stay small; W comes before the others where that
    moves less."""

    covers: ClassVar[Any] = SGConv
    normalises = True

    @classmethod
    def refusal(cls, layer: SGConv) -> Note | None:
        return aggregates_by_other(layer)

    @classmethod
    def remembers_input(cls, layer: SGConv) -> bool:
        return bool(layer.cached)

    @property
    def num_hops(self) -> int:
        return self.layer.K

    def forward(self, x: Value, hops: Hops) -> Tensor:
        layer: SGConv = self.layer
        reduce = aggregation(layer) or "sum"
        weight, bias = layer.lin.weight, layer.lin.bias
        matrices = [
            gcn_matrix(hops, x, add_self_loops=layer.add_self_loops, hop=hop) for hop in range(layer.K)
        ]
        while matrices and isinstance(x, Constant):
            product = x.product(matrices[0], reduce)
            if product is None:
                break
            x = product
            del matrices[0]
        if matrices and reduce in ("sum", "mean"):
            num_out, num_in = weight.shape
            first = matrices[0]
            if self.transforms_first(x, first, num_in, num_out, own=False, num_rows=first.num_cols):
                out = linear(x, weight)
                for matrix in matrices:
                    out = matrix.times(out, reduce)
                return out if bias is None else plus(out, bias)
        for matrix in matrices:
            x = times(matrix, x, reduce)
        return linear(x, weight, bias)
