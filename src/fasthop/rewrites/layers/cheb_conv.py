"""ChebConv over prepared matrices (Defferrard et al. 2016)."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor
from torch_geometric.nn import ChebConv

from fasthop.graph.note import Note
from fasthop.rewrites.exact.constant import Constant
from fasthop.rewrites.exact.fast_layer import (
    FastLayer,
    aggregates_by_other,
    aggregation,
    dtype_of,
    normalised,
)
from fasthop.rewrites.exact.hops import Hops, Value, dense, head, linear, times
from fasthop.rewrites.exact.matrix import Matrix
from fasthop.rewrites.exact.sums import plus, plus_linear


class FastChebConv(FastLayer):
    """The sum of T_k(L) X W_k, T_k Chebyshev's polynomials: by their recurrence on X, or by Clenshaw's on the X W_k, whose
    products have as many channels as come out."""

    covers: ClassVar[Any] = ChebConv
    normalises = True

    @classmethod
    def refusal(cls, layer: ChebConv) -> Note | None:
        return aggregates_by_other(layer)

    @property
    def num_hops(self) -> int:
        return len(self.layer.lins) - 1

    def forward(self, x: Value, hops: Hops) -> Tensor:
        layer: ChebConv = self.layer
        reduce = aggregation(layer) or "sum"
        matrices = [self._matrix(x, hops, hop) for hop in range(self.num_hops)]
        if self._by_clenshaw(x, matrices, reduce):
            out = self._clenshaw(x, matrices, reduce)
        else:
            out = self._recurrence(x, hops, matrices, reduce)
        return out if layer.bias is None else plus(out, layer.bias)

    def _recurrence(self, x: Value, hops: Hops, matrices: list[Matrix], reduce: str) -> Tensor:
        """T_k = 2 L T_k-1 - T_k-2."""
        weights: list[Any] = [lin.weight for lin in self.layer.lins]
        out = linear(head(x, hops.num_out), weights[0])
        before: Value = x
        last: Value = x
        for k, (matrix, weight) in enumerate(zip(matrices, weights[1:], strict=True), start=1):
            if k == 1:
                last = times(matrix, x, reduce)
            else:
                product = matrix.times(dense(last), reduce) * 2
                before, last = last, plus(product, dense(head(before, matrix.num_rows)), alpha=-1)
            out = plus_linear(out, head(last, hops.num_out), weight)
        return out

    def _clenshaw(self, x: Value, matrices: list[Matrix], reduce: str) -> Tensor:
        """B_k = X W_k + 2 L B_k+1 - B_k+2 down to B_1, and then X W_0 + L B_1 - B_2."""
        weights: list[Any] = [lin.weight for lin in self.layer.lins]
        above: Tensor | None = None
        last = linear(x, weights[-1])
        for matrix, k in zip(matrices, reversed(range(len(matrices))), strict=True):
            product = matrix.times(last, reduce)
            out = plus_linear(product if k == 0 else product * 2, head(x, matrix.num_rows), weights[k])
            if above is not None:
                out = plus(out, above[: matrix.num_rows], alpha=-1)
            above, last = last, out
        return last

    def _by_clenshaw(self, x: Value, matrices: list[Matrix], reduce: str) -> bool:
        if not matrices or reduce not in ("sum", "mean"):
            return False
        first = matrices[0]
        if len(matrices) == 1 and isinstance(x, Constant) and x.product(first, reduce) is not None:
            return False
        num_out, num_in = self.layer.lins[0].weight.shape
        return self.transforms_first(x, first, num_in, num_out, own=False, num_rows=first.num_cols)

    def _matrix(self, x: Value, hops: Hops, hop: int) -> Matrix:
        layer: Any = self.layer
        dtype = dtype_of(x)
        return normalised(
            hops,
            ("chebyshev", layer.normalization),
            dtype,
            lambda edge_index, edge_weight: layer.__norm__(
                edge_index, hops.num_nodes, edge_weight, layer.normalization, None, dtype
            ),
            hop=hop,
        )
