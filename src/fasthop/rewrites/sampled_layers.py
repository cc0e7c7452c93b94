"""PyG layers that stay right on a sampled batch: they read the batch's weights in place of their own.

`correct(model, weights)` goes over a copy of the user's model. Layers that normalise by the degrees
(GCNConv, GCN2Conv, APPNP, LGConv, TAGConv, SGConv) get the full graph's normalisation times degree/k;
layers that sum their neighbours (GINConv, GraphConv, SAGEConv with "sum") get the factor degree/k on each
message; a mean, a maximum or an attention needs nothing. A sum in a layer that this file does not know is
refused: it may be an attention, whose weights add up to 1 already, or a plain sum, which needs the factor.
`rewrites.sample` checks the outcome on the user's own graph.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import (
    APPNP,
    AGNNConv,
    FeaStConv,
    GATConv,
    GatedGraphConv,
    GATv2Conv,
    GCN2Conv,
    GCNConv,
    GINConv,
    GINEConv,
    GraphConv,
    LGConv,
    MessagePassing,
    ResGatedGraphConv,
    SAGEConv,
    SGConv,
    SuperGATConv,
    TAGConv,
    TransformerConv,
)
from torch_geometric.nn.aggr import SumAggregation

from fasthop.graph.note import note
from fasthop.rewrites.base import Inapplicable
from fasthop.rewrites.structure import message_passing_layers, replace_modules
from fasthop.train.batch_weights import BatchWeights


class _Normalised(torch.nn.Module):
    """Mixed into a layer that normalises: its own normalisation is off, the batch's weights are in."""

    batch_weights: BatchWeights
    weights_key: tuple[bool, bool]

    def with_weights(self, x: Tensor, edge_index: Tensor) -> tuple[Tensor, Tensor]:
        """(edges with a self-loop a node at the end, their weights) for the `x.size(0)` nodes at hand.

        A trimmed batch has a leading part of the nodes and of the edges, so a leading part of the weights.
        """
        self.batch_weights.check(edge_index)
        edge_weight, loop_weight = self.batch_weights.normalised(self.weights_key)
        edge_weight = edge_weight[: edge_index.size(1)].to(x.dtype)
        if not self.weights_key[1]:
            return edge_index, edge_weight
        num_nodes = x.size(0)
        loops = torch.arange(num_nodes, device=x.device, dtype=edge_index.dtype)
        edge_index = torch.cat([edge_index, loops.expand(2, -1)], dim=1)
        return edge_index, torch.cat([edge_weight, loop_weight[:num_nodes].to(x.dtype)])


class _NormalisedConv(_Normalised):
    """forward(x, edge_index, edge_weight): GCNConv, APPNP, LGConv, TAGConv."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        return super().forward(x, *self.with_weights(x, edge_index))  # type: ignore[misc]


class _NormalisedConv2(_Normalised):
    """forward(x, x_0, edge_index, edge_weight): GCN2Conv."""

    def forward(
        self, x: Tensor, x_0: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None
    ) -> Tensor:
        return super().forward(x, x_0, *self.with_weights(x, edge_index))  # type: ignore[misc]


class _NormalisedPower(_Normalised):
    """forward(x, edge_index, edge_weight) of SGConv, which has no switch for its normalisation."""

    K: int

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        edge_index, weight = self.with_weights(x, edge_index)
        for _ in range(self.K):
            x = self.propagate(edge_index, x=x, edge_weight=weight)  # type: ignore[operator]
        return self.lin(x)  # type: ignore[operator]


NORMALISED: dict[type[MessagePassing], type[_Normalised]] = {
    GCNConv: _NormalisedConv,
    APPNP: _NormalisedConv,
    LGConv: _NormalisedConv,
    TAGConv: _NormalisedConv,
    GCN2Conv: _NormalisedConv2,
    SGConv: _NormalisedPower,
}

# Their weights add up to 1 over whatever neighbours there are.
ATTENTIONS = (AGNNConv, FeaStConv, GATConv, GATv2Conv, SuperGATConv, TransformerConv)
# Their messages are added up as they are.
PLAIN_SUMS = (GatedGraphConv, GINConv, GINEConv, GraphConv, ResGatedGraphConv, SAGEConv)


@cache
def _mixed(mixin: type[_Normalised], layer: type[MessagePassing]) -> type:
    return type(f"Sampled{layer.__name__}", (mixin, layer), {})


def correct(model: torch.nn.Module, weights: BatchWeights) -> torch.nn.Module:
    """Makes the layers of `model`, which is a copy of the user's, right on sampled batches, in place.

    Layers keep their class (as a subclass), attributes and parameters. Edge weights that the user's
    forward hands to a normalising layer are in the batch's weights already and are not used twice.
    """

    def build(path: str, layer: MessagePassing) -> torch.nn.Module | None:
        mixin = NORMALISED.get(type(layer))
        if mixin is not None and getattr(layer, "normalize", True):
            return _normalised(layer, mixin, weights)
        if isinstance(layer, ATTENTIONS) or not isinstance(layer.aggr_module, SumAggregation):
            return None
        if not isinstance(layer, PLAIN_SUMS):
            kind = type(layer).__name__
            raise Inapplicable(
                note(
                    f"The layer {path!r} ({kind}) sums its neighbours, and whether a sampled one should count for "
                    "degree/k of them is not known of this kind of layer.",
                    f"层 {path!r}（{kind}）对邻居求和，而这类层的采样邻居是否应乘以 度数/k，fasthop 并不知道。",
                )
            )
        weights.want_scale()
        layer.register_message_forward_hook(_ScaleMessages(weights))
        return None

    return replace_modules(model, build)


def _normalised(layer: MessagePassing, mixin: type[_Normalised], weights: BatchWeights) -> torch.nn.Module:
    improved = bool(getattr(layer, "improved", False))
    # LGConv and TAGConv never add self-loops, and have no attribute that says so.
    adds_loops = bool(getattr(layer, "add_self_loops", False))
    layer.__class__ = _mixed(mixin, type(layer))
    layer.normalize = False  # type: ignore[assignment]
    layer.cached = False  # type: ignore[assignment]
    layer.batch_weights = weights  # type: ignore[assignment]
    layer.weights_key = weights.want_normalised(improved=improved, add_self_loops=adds_loops)  # type: ignore[assignment]
    return layer


class _ScaleMessages:
    """The message hook of a summing layer: each message times degree/k of its edge."""

    def __init__(self, weights: BatchWeights) -> None:
        self.weights = weights

    def __call__(self, layer: MessagePassing, inputs: tuple[Any, ...], out: Tensor) -> Tensor:
        scale = self.weights.scale()[: out.size(layer.node_dim)].to(out.dtype)
        shape = [1] * out.dim()
        shape[layer.node_dim] = -1
        return out * scale.view(shape)


def num_hops(model: torch.nn.Module) -> int:
    """How many hops the model's layers reach together, each layer counted once."""
    total = 0
    for layer in message_passing_layers(model).values():
        steps = getattr(layer, "K", 1)
        total += len(layer.lins) - 1 if isinstance(layer, TAGConv) else steps if isinstance(steps, int) else 1
    return total
