"""Calls that hand on their input as it is, and dropouts: with what probability, in the mode in which they were traced."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import fx

from fasthop.rewrites.exact.fast_layer import hidden_state
from fasthop.rewrites.exact.trace import Entry, module_of


def aliases(entry: Entry, graph: fx.Graph) -> dict[fx.Node, fx.Node]:
    """The calls that hand on their input: Identity, and a dropout that drops nothing."""
    found: dict[fx.Node, fx.Node] = {}
    for node in graph.nodes:
        dropped = dropout_of(entry, node)
        if dropped is not None and dropped[1] == 0.0:
            found[node] = dropped[0]
        elif node.op == "call_module" and type(module_of(entry, node)) is torch.nn.Identity:
            found[node] = node.args[0]
    return found


def dropout_of(entry: Entry, node: fx.Node) -> tuple[fx.Node, float] | None:
    """(input, probability) of a call of dropout in the mode in which it was traced; probability 0 where it is off."""
    p: Any
    if node.op == "call_module":
        module = module_of(entry, node)
        if type(module) is not torch.nn.Dropout or hidden_state(module) is not None:
            return None
        source, p, training = node.args[0] if node.args else None, module.p, module.training
    elif node.op == "call_function" and node.target is F.dropout:
        given = dict(zip(("input", "p", "training", "inplace"), node.args, strict=False)) | node.kwargs
        source, p, training = given.get("input"), given.get("p", 0.5), given.get("training", True)
        if given.get("inplace", False):
            return None
    else:
        return None
    if not isinstance(source, fx.Node) or not isinstance(p, int | float) or not isinstance(training, bool):
        return None
    return source, float(p) if training else 0.0
