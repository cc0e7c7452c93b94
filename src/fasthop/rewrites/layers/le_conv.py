"""LEConv over the prepared edges (Ranjan et al. 2020)."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor
from torch_geometric.nn import LEConv

from fasthop.graph.note import Note
from fasthop.rewrites.exact.fast_layer import FastLayer, aggregates_by_other, aggregation
from fasthop.rewrites.exact.hops import Hops, Value, head, linear
from fasthop.rewrites.exact.sums import plus, plus_linear
from fasthop.rewrites.layers.prepared import plain_matrix


class FastLEConv(FastLayer):
    """The sum of e (W_1 x_j + b_1 - W_2 x_i) over the neighbours, plus W_3 x_i + b_3. What does not depend on j leaves the
    sum: A X W_1^T + s (b_1 - X W_2^T), s the sums of the rows of A."""

    covers: ClassVar[Any] = LEConv

    @classmethod
    def refusal(cls, layer: LEConv) -> Note | None:
        return aggregates_by_other(layer, "sum", "mean")

    def forward(self, x: Value, hops: Hops) -> Tensor:
        layer: LEConv = self.layer
        reduce = aggregation(layer) or "sum"
        matrix = plain_matrix(hops, x)
        root = head(x, matrix.num_rows)
        out = self.propagate_linear(x, matrix, layer.lin1.weight, own_first=True, reduce=reduce)
        sums = matrix.row_sums(reduce, out.dtype)
        own = linear(root, layer.lin2.weight)
        out = plus(out, sums * (own if layer.lin1.bias is None else own - layer.lin1.bias), alpha=-1)
        out = plus_linear(out, root, layer.lin3.weight)
        return out if layer.lin3.bias is None else plus(out, layer.lin3.bias)
