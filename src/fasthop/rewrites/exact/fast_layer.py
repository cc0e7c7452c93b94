"""FastLayer: one of PyG's layers over prepared matrices. The base of what stands in layers/."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.utils import parametrize
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.aggr import MaxAggregation, MeanAggregation, MinAggregation, SumAggregation
from torch_geometric.nn.dense import Linear

from fasthop.graph.note import Note, note
from fasthop.rewrites.exact.constant import Constant
from fasthop.rewrites.exact.hops import Hops, Value, linear, times
from fasthop.rewrites.exact.known import Edges
from fasthop.rewrites.exact.matrix import Matrix
from fasthop.rewrites.exact.options import ExactOptions
from fasthop.rewrites.exact.sums import plus

# How much longer a multiplication takes in a sparse product than in a dense one: on the machine of docs/design/kernels.md
# a dense product runs at about 70 billion multiplications a second and spmm, whose rows come from memory, at 5.
SPMM_COST = 14

LINEAR = (torch.nn.Linear, Linear)
"""The linear maps whose weight and bias are all there is to them."""


class FastLayer(torch.nn.Module):
    """The same mathematics as `layer`, whose parameters it uses, over the matrices of a call site.

    A subclass sets `covers`, `forward` and, where there is a question, `refusal` and `num_hops`. It is a module so
    that its training flag follows the model's.
    """

    covers: ClassVar[type[MessagePassing]]
    normalises: ClassVar[bool] = False
    takes_x_0: ClassVar[bool] = False
    """Whether the layer has a second node input of its own name (GCN2Conv's x_0)."""

    def __init__(self, layer: Any, options: ExactOptions) -> None:
        super().__init__()
        self.layer = layer
        self.options = options
        self.acted: set[str] = set()
        self.training = layer.training

    @classmethod
    def refusal(cls, layer: Any) -> Note | None:
        """Why this layer, of the class that is covered, is not: an option that the kernels do not have."""
        return None

    @classmethod
    def remembers_input(cls, layer: Any) -> bool:
        """Whether the layer keeps its first input for good (SGConv with cached=True), so that the fast form is the same
        only where the graph's own x reaches it, nothing random before it."""
        return False

    @property
    def num_hops(self) -> int:
        """How far the layer reaches."""
        return 1

    def inner_modules(self) -> tuple[torch.nn.Module, ...]:
        """The user's own modules that the layer calls on its rows (GINConv's nn); what they do is not known here."""
        return ()

    def forward(self, x: Value, hops: Hops) -> Tensor:
        """x: [size(depth + num_hops), F] rows. Returns [size(depth), C]."""
        raise NotImplementedError

    def transforms_first(
        self, x: Value, matrix: Matrix, num_in: int, num_out: int, *, own: bool, num_rows: int
    ) -> bool:
        """Whether A (X W) moves less than (A X) W. own: what PyG's layer does, kept without the rung `transform_order`.

        num_rows: the rows of X that are multiplied by W if that comes first.
        """
        if not self.options.transform_order:
            return own
        chosen = self._cheaper_first(x, matrix, num_in, num_out, own=own, num_rows=num_rows)
        if chosen != own:
            self.acted.add("transform_order")
        return chosen

    def _cheaper_first(
        self, x: Value, matrix: Matrix, num_in: int, num_out: int, *, own: bool, num_rows: int
    ) -> bool:
        if isinstance(x, Constant):
            return x.sparse is not None or num_out < num_in
        first = num_rows * num_in * num_out + matrix.num_entries * _padded(num_out) * SPMM_COST
        last = matrix.num_rows * num_in * num_out + matrix.num_entries * _padded(num_in) * SPMM_COST
        # Where both cost the same, X W first: A X would be one more [rows, num_in] kept alive for the gradient.
        return first <= last

    def propagate_linear(
        self,
        x: Value,
        matrix: Matrix,
        weight: Tensor,
        bias: Tensor | None = None,
        *,
        own_first: bool,
        reduce: str = "sum",
    ) -> Tensor:
        """matrix @ x @ weight.T + bias in the cheaper order, or from the kept product of a constant x. reduce: "sum" or
        "mean". The result is the caller's own, to be written into."""
        if isinstance(x, Constant):
            product = x.product(matrix, reduce)
            if product is not None:
                return linear(product, weight, bias)
        num_out, num_in = weight.shape
        if not self.transforms_first(x, matrix, num_in, num_out, own=own_first, num_rows=matrix.num_cols):
            return linear(times(matrix, x, reduce), weight, bias)
        out = matrix.times(linear(x, weight), reduce)
        return out if bias is None else plus(out, bias)


def _padded(width: int) -> int:
    """Channels that the sparse product really computes: whole registers of 16."""
    return -(-width // 16) * 16


def hidden_state(module: torch.nn.Module) -> Note | None:
    """What makes a module more than its class says: hooks or parametrizations, which a rewrite would lose."""
    for part in module.modules():
        name = type(part).__name__
        if parametrize.is_parametrized(part):
            return note(
                f"{name} has parametrizations, which are computed anew in each call.",
                f"{name} 带有参数化（parametrization），每次调用都要重新计算。",
            )
        if any(getattr(part, kind, None) for kind in HOOKS):
            return note(
                f"{name} has hooks, which the rewritten layer would not call.",
                f"{name} 挂有钩子（hook），改写后的层不会调用它们。",
            )
        if any(torch.nn.parameter.is_lazy(p) for p in part._parameters.values() if p is not None):
            return note(
                f"{name} has parameters without a shape yet; run the model once.",
                f"{name} 还有未确定形状的惰性参数；请先运行一次模型。",
            )
    return None


HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_propagate_forward_pre_hooks",
    "_propagate_forward_hooks",
    "_message_forward_pre_hooks",
    "_message_forward_hooks",
    "_aggregate_forward_pre_hooks",
    "_aggregate_forward_hooks",
    "_message_and_aggregate_forward_pre_hooks",
    "_message_and_aggregate_forward_hooks",
    "_edge_update_forward_pre_hooks",
    "_edge_update_forward_hooks",
)


AGGREGATIONS = {
    "add": ("sum", SumAggregation),
    "sum": ("sum", SumAggregation),
    "mean": ("mean", MeanAggregation),
    "max": ("max", MaxAggregation),
    "min": ("min", MinAggregation),
}
"""What PyG's short names stand for: spmm's name, and PyG's module that does it."""


def aggregation(layer: MessagePassing) -> str | None:
    """The layer's aggregation as spmm names it, or None for one that spmm does not have."""
    name, module = AGGREGATIONS.get(str(layer.aggr), (None, None))
    return name if type(layer.aggr_module) is module else None


def aggregates_by_other(layer: MessagePassing, *allowed: str) -> Note | None:
    """The refusal of a layer whose aggregation is none of `allowed` (spmm's names; all of them where none is named)."""
    if aggregation(layer) in (allowed or ("sum", "mean", "max", "min")):
        return None
    name = type(layer).__name__
    if aggregation(layer) is None:
        return note(
            f"{name} aggregates by {layer.aggr}, which spmm does not have.",
            f"{name} 的聚合方式 {layer.aggr} 不受 spmm 支持。",
        )
    return note(
        f"{name} aggregates by {layer.aggr}; the fast form knows {' and '.join(allowed)}.",
        f"{name} 的聚合方式为 {layer.aggr}；快速形式只支持 {'、'.join(allowed)}。",
    )


def unusual(layer: MessagePassing) -> Note | None:
    """What of MessagePassing's own options a fast layer does not have."""
    name = type(layer).__name__
    if layer.flow != "source_to_target":
        return note(f"{name} sends against the edges (flow).", f"{name} 逆着边的方向传递（flow）。")
    if layer.node_dim not in (-2, 0):
        return note(f"{name} has node_dim {layer.node_dim}.", f"{name} 的 node_dim 为 {layer.node_dim}。")
    if getattr(layer, "decomposed_layers", 1) > 1:
        return note(f"{name} decomposes its channels.", f"{name} 分解了通道（decomposed_layers）。")
    if getattr(layer, "explain", False):
        return note(f"{name} is being explained.", f"{name} 正处于解释模式。")
    return hidden_state(layer)


def normalised(
    hops: Hops, kind: Hashable, dtype: torch.dtype, make: Callable[..., Any], *, hop: int = 0
) -> Matrix:
    """The matrix of a normalisation, which the layer itself would compute in each call: the rung `cache_norm` acts."""
    hops.graph.acted.add("cache_norm")
    return valued(hops, kind, dtype, make, hop=hop)


def valued(
    hops: Hops, kind: Hashable, dtype: torch.dtype, make: Callable[..., Any], *, hop: int = 0
) -> Matrix:
    """The matrix whose entries `make(edge_index, edge_weight)` computes over the user's graph; kept by `kind` and dtype."""

    def entries() -> Edges:
        edge_index, edge_weight = hops.edges()
        with torch.no_grad():
            return make(edge_index, None if edge_weight is None else edge_weight.to(dtype))

    return hops.matrix((kind, dtype), entries, hop)


def dtype_of(x: Value) -> torch.dtype:
    """The dtype of what reaches a layer."""
    return x.dtype


def parameters_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a function's parameters, in order, without self."""
    return tuple(name for name in inspect.signature(function).parameters if name != "self")
