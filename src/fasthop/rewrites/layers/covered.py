"""Which of PyG's layers are covered, and by what: reads as a table; a new one is one line here."""

from __future__ import annotations

from typing import Any

from torch_geometric.nn import MessagePassing

from fasthop.graph.note import Note, note
from fasthop.rewrites.exact.fast_layer import FastLayer, unusual
from fasthop.rewrites.exact.options import ExactOptions
from fasthop.rewrites.layers.gcn_conv import FastGCNConv

COVERED: tuple[type[FastLayer], ...] = (FastGCNConv,)
BY_CLASS: dict[type[Any], type[FastLayer]] = {fast.covers: fast for fast in COVERED}


def refusal(layer: MessagePassing) -> Note | None:
    """Why a layer is left as it is, one sentence, or None where it is covered."""
    fast = BY_CLASS.get(type(layer))
    if fast is None:
        name = type(layer).__name__
        return note(f"{name} is not one of the layers that are covered.", f"{name} 不在支持的层之列。")
    return unusual(layer) or fast.refusal(layer)


def fast_layer(layer: MessagePassing, options: ExactOptions) -> FastLayer:
    """The fast form of a layer for which `refusal` is None."""
    return BY_CLASS[type(layer)](layer, options)
