"""Hops: the matrices that one call of a layer multiplies by, from the rows it is given to the rows it returns."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

import torch
from torch import Tensor

from fasthop.rewrites.exact.constant import Constant
from fasthop.rewrites.exact.known import Edges, KnownGraph
from fasthop.rewrites.exact.matrix import Matrix

Value = Tensor | Constant
"""What reaches a layer: activations, or the known input."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Hops:
    """One call site of a layer of `num_hops` hops, whose output lies `depth` hops below the model's output.

    weighted: whether the call hands the graph's edge weights to the layer.
    """

    graph: KnownGraph
    depth: int
    num_hops: int
    weighted: bool

    def matrix(self, key: Hashable, make: Callable[[], Edges], hop: int = 0) -> Matrix:
        """The matrix of hop 0 (the first applied) to num_hops - 1; `make` computes its entries over the whole graph."""
        return self.graph.matrix((key, self.weighted), make, self.depth + self.num_hops - 1 - hop)

    def edges(self) -> Edges:
        """The graph's edges in the user's order, with the weights that the call hands over."""
        return self.graph.edges(self.weighted)

    @property
    def num_out(self) -> int:
        """Rows that the layer returns."""
        return self.graph.order.size(self.depth)

    @property
    def num_nodes(self) -> int:
        """Nodes of the whole graph."""
        return self.graph.num_nodes


def head(x: Value, num_rows: int) -> Value:
    """The first rows, sharing memory."""
    if isinstance(x, Constant):
        return x.head(num_rows)
    return x if x.size(0) == num_rows else x[:num_rows]


def linear(x: Value, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x @ weight.T + bias."""
    if isinstance(x, Constant):
        return x.linear(weight, bias)
    return torch.nn.functional.linear(x, weight, bias)


def dense(x: Value) -> Tensor:
    """x as a tensor."""
    return x.dense() if isinstance(x, Constant) else x


def times(matrix: Matrix, x: Value, reduce: str = "sum") -> Value:
    """matrix @ x; a Constant again where the product is kept."""
    if not isinstance(x, Constant):
        return matrix.times(x, reduce)
    product = x.product(matrix, reduce)
    return matrix.times(x.dense(), reduce) if product is None else product
