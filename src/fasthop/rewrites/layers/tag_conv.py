"""TAGConv over prepared matrices (Du et al. 2017)."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor
from torch_geometric.nn import TAGConv

from fasthop.graph.note import Note
from fasthop.rewrites.exact.constant import Constant
from fasthop.rewrites.exact.fast_layer import FastLayer, aggregates_by_other, aggregation
from fasthop.rewrites.exact.hops import Hops, Value, head, linear, times
from fasthop.rewrites.exact.matrix import Matrix
from fasthop.rewrites.exact.sums import plus, plus_linear
from fasthop.rewrites.layers.prepared import gcn_matrix, plain_matrix


class FastTAGConv(FastLayer):
    """X W_0 + A X W_1 + ... + A^K X W_K + b, or by Horner's rule X W_0 + A (X W_1 + A (X W_2 + ...)): K products of as
    many channels as go in, or as come out."""

    covers: ClassVar[Any] = TAGConv
    normalises = True

    @classmethod
    def refusal(cls, layer: TAGConv) -> Note | None:
        return aggregates_by_other(layer)

    @property
    def num_hops(self) -> int:
        return self.layer.K

    def forward(self, x: Value, hops: Hops) -> Tensor:
        layer: Any = self.layer
        reduce = aggregation(layer) or "sum"
        matrices = [
            gcn_matrix(hops, x, add_self_loops=False, hop=hop)
            if layer.normalize
            else plain_matrix(hops, x, hop)
            for hop in range(layer.K)
        ]
        weights = [lin.weight for lin in layer.lins]
        powers = kept_powers(x, matrices, reduce)
        if powers is None and self._by_horner(x, matrices, weights[0], reduce):
            out = linear(x, weights[-1])
            for matrix, weight in zip(matrices, reversed(weights[:-1]), strict=True):
                out = plus_linear(matrix.times(out, reduce), head(x, matrix.num_rows), weight)
        else:
            out = linear(head(x, hops.num_out), weights[0])
            for hop, weight in enumerate(weights[1:]):
                x = powers[hop] if powers is not None else times(matrices[hop], x, reduce)
                out = plus_linear(out, head(x, hops.num_out), weight)
        return out if layer.bias is None else plus(out, layer.bias)

    def _by_horner(self, x: Value, matrices: list[Matrix], weight: Tensor, reduce: str) -> bool:
        if not matrices or reduce not in ("sum", "mean"):
            return False
        num_out, num_in = weight.shape
        first = matrices[0]
        return self.transforms_first(x, first, num_in, num_out, own=False, num_rows=first.num_cols)


def kept_powers(x: Value, matrices: list[Matrix], reduce: str) -> list[Constant] | None:
    """The products of a constant x with the first matrix, the first two, and so on; None unless all are kept."""
    powers: list[Constant] = []
    for matrix in matrices:
        product = x.product(matrix, reduce) if isinstance(x, Constant) else None
        if product is None:
            return None
        powers.append(product)
        x = product
    return powers
