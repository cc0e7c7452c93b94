"""GINConv over its prepared matrix (Xu et al. 2019)."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch_geometric.nn import MLP, GINConv

from fasthop.graph.note import Note, note
from fasthop.rewrites.exact.constant import Constant
from fasthop.rewrites.exact.fast_layer import LINEAR, FastLayer, aggregates_by_other, aggregation
from fasthop.rewrites.exact.hops import Hops, Value, dense, head, linear, times
from fasthop.rewrites.exact.matrix import Matrix
from fasthop.rewrites.exact.options import ExactOptions
from fasthop.rewrites.exact.sums import plus
from fasthop.rewrites.layers.prepared import aggregating, rooted_matrix


class FastGINConv(FastLayer):
    """nn((A + (1 + eps) I) X), the sum in one product where eps is not learnt.

    Where nn begins with a linear map, that map may come before the product, in the order that moves less.
    """

    covers: ClassVar[Any] = GINConv

    def __init__(self, layer: Any, options: ExactOptions) -> None:
        super().__init__(layer, options)
        first, self._rest = split(layer.nn)
        self._first_of = (first,)

    @classmethod
    def refusal(cls, layer: GINConv) -> Note | None:
        if not isinstance(layer.nn, torch.nn.Module):
            return note(
                "GINConv's nn is not a module, so what it does with the rows cannot be known.",
                "GINConv 的 nn 不是模块，无法得知它如何处理各行。",
            )
        return aggregates_by_other(layer)

    @property
    def _first(self) -> Any:
        return self._first_of[0]

    def inner_modules(self) -> tuple[torch.nn.Module, ...]:
        return (self.layer.nn,)

    def forward(self, x: Value, hops: Hops) -> Tensor:
        eps = self.layer.eps
        reduce = aggregation(self.layer) or "sum"
        if reduce in ("sum", "mean") and hops.graph.use_spmm and not eps.requires_grad:
            # eps is read in each call, so a value that was set later has a matrix of its own.
            matrix = rooted_matrix(hops, x, reduce, float(1 + eps))
            if self._first is None:
                out = times(matrix, x)
                # What nn is given is its own, to be written into; a product that is kept is not.
                return self.layer.nn(dense(out).clone() if isinstance(out, Constant) else out)
            weight, bias = self._first.weight, self._first.bias
            return self._after_first(self.propagate_linear(x, matrix, weight, bias, own_first=False))
        matrix, reduce = aggregating(hops, x, reduce, weighted=False)
        if self._first is not None and reduce in ("sum", "mean") and self._first_comes_first(x, matrix):
            return self._by_first(x, matrix, reduce)
        rows = dense(head(x, matrix.num_rows))
        return self.layer.nn(dense(times(matrix, x, reduce)) + (1 + eps) * rows)

    def _first_comes_first(self, x: Value, matrix: Matrix) -> bool:
        num_out, num_in = self._first.weight.shape
        return self.transforms_first(x, matrix, num_in, num_out, own=False, num_rows=matrix.num_cols)

    def _by_first(self, x: Value, matrix: Matrix, reduce: str) -> Tensor:
        """nn with its first map W before the sum: A (X W) + (1 + eps) X W."""
        sent = linear(x, self._first.weight)
        out = matrix.times(sent, reduce) + (1 + self.layer.eps) * sent[: matrix.num_rows]
        return self._after_first(out if self._first.bias is None else plus(out, self._first.bias))

    def _after_first(self, out: Tensor) -> Tensor:
        (rest,) = self._rest
        rest.training = self.layer.nn.training
        return rest(out)


def split(nn: torch.nn.Module) -> tuple[Any, tuple[torch.nn.Module]]:
    """(the linear map that nn begins with, what follows it); (None, nn) where it begins with something else.

    What follows shares nn's modules. It stands in a tuple so that no module takes it for a second child.
    """
    if type(nn) in LINEAR:
        return nn, (torch.nn.Identity(),)
    if type(nn) is torch.nn.Sequential and len(nn) > 0 and type(nn[0]) in LINEAR:
        return nn[0], (nn[1:],)
    if type(nn) is MLP and type(nn.lins[0]) in LINEAR:
        rest = copy.copy(nn)
        rest._modules = dict(nn._modules)
        rest.lins = torch.nn.ModuleList([torch.nn.Identity(), *nn.lins[1:]])
        return nn.lins[0], (rest,)
    return None, (nn,)
