"""What SAGEConv, GraphConv and ClusterGCNConv share: one linear map of the neighbours, another of the node itself."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from fasthop.rewrites.exact.fast_layer import FastLayer
from fasthop.rewrites.exact.hops import Value, head, linear, times
from fasthop.rewrites.exact.matrix import Matrix
from fasthop.rewrites.exact.sums import plus_linear


def rooted(
    fast: FastLayer,
    x: Value,
    x_r: Value,
    matrix: Matrix,
    neighbours: Any,
    root: Any | None,
    reduce: str,
) -> Tensor:
    """neighbours(reduce of x over the matrix) + root(x_r). neighbours, root: PyG's Linear; root has no bias.

    x: [num_cols, F] rows, x_r: as many or more, of which the first num_rows count.
    """
    if reduce in ("sum", "mean"):
        out = fast.propagate_linear(
            x, matrix, neighbours.weight, neighbours.bias, own_first=False, reduce=reduce
        )
    else:
        out = linear(times(matrix, x, reduce), neighbours.weight, neighbours.bias)
    return out if root is None else plus_linear(out, head(x_r, matrix.num_rows), root.weight)
