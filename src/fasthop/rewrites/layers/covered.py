"""Which of PyG's layers are covered, and by what: reads as a table; a new one is one line here."""

from __future__ import annotations

from typing import Any

from torch_geometric.nn import MessagePassing

from fasthop.graph.note import Note, note
from fasthop.rewrites.exact.fast_layer import LINEAR, FastLayer, unusual
from fasthop.rewrites.exact.options import ExactOptions
from fasthop.rewrites.layers.appnp import FastAPPNP
from fasthop.rewrites.layers.cheb_conv import FastChebConv
from fasthop.rewrites.layers.cluster_gcn_conv import FastClusterGCNConv
from fasthop.rewrites.layers.gat_conv import FastGATConv
from fasthop.rewrites.layers.gatv2_conv import FastGATv2Conv
from fasthop.rewrites.layers.gcn2_conv import FastGCN2Conv
from fasthop.rewrites.layers.gcn_conv import FastGCNConv
from fasthop.rewrites.layers.gin_conv import FastGINConv
from fasthop.rewrites.layers.graph_conv import FastGraphConv
from fasthop.rewrites.layers.le_conv import FastLEConv
from fasthop.rewrites.layers.sage_conv import FastSAGEConv
from fasthop.rewrites.layers.sg_conv import FastSGConv
from fasthop.rewrites.layers.tag_conv import FastTAGConv

COVERED: tuple[type[FastLayer], ...] = (
    FastGCNConv,
    FastSAGEConv,
    FastGINConv,
    FastGATConv,
    FastGATv2Conv,
    FastGraphConv,
    FastSGConv,
    FastAPPNP,
    FastTAGConv,
    FastChebConv,
    FastGCN2Conv,
    FastClusterGCNConv,
    FastLEConv,
)
BY_CLASS: dict[type[Any], type[FastLayer]] = {fast.covers: fast for fast in COVERED}
# What a layer's class defines and an instance may have been given its own of.
METHODS = ("forward", "message", "aggregate", "update", "message_and_aggregate", "edge_update", "propagate")


def refusal(layer: MessagePassing) -> Note | None:
    """Why a layer is left as it is, one sentence, or None where it is covered."""
    fast = BY_CLASS.get(type(layer))
    if fast is None:
        name = type(layer).__name__
        return note(f"{name} is not one of the layers that are covered.", f"{name} 不在支持的层之列。")
    return unusual(layer) or changed(layer) or fast.refusal(layer)


def changed(layer: MessagePassing) -> Note | None:
    """What was exchanged in a layer after it was made: a method, or a linear map for something else."""
    name = type(layer).__name__
    for method in METHODS:
        if method in vars(layer):
            return note(
                f"{name} has a {method}() of its own in place of its class's.",
                f"{name} 的 {method}() 已被替换，与其类的定义不同。",
            )
    for place, part in layer.named_children():
        if place in ("aggr_module", "nn"):
            continue
        for each in part.children() if place == "lins" else (part,):
            if type(each) not in LINEAR:
                return note(
                    f"{name} has a {type(each).__name__} where PyG has a linear map ({place}).",
                    f"{name} 的 {place} 是 {type(each).__name__}，而 PyG 中是线性映射。",
                )
    return None


def fast_layer(layer: MessagePassing, options: ExactOptions) -> FastLayer:
    """The fast form of a layer for which `refusal` is None."""
    return BY_CLASS[type(layer)](layer, options)
