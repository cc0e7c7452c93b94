"""Calls that write their result into their input: whose memory that is, and whether anybody else would see it."""

from __future__ import annotations

import operator
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx
from torch_geometric.nn import GINConv, MessagePassing
from torch_geometric.nn.dense.linear import Linear as PyGLinear

from fasthop.rewrites.exact.trace import Entry, module_of, name_of

ASSIGNMENTS: frozenset[Any] = frozenset(
    {operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ipow}
)
# What returns memory of its own, always. All else may hand on its input, or a view of it.
FRESH: frozenset[Any] = frozenset(
    {
        operator.add, operator.sub, operator.mul, operator.truediv, operator.neg, operator.matmul, torch.add, torch.sub,
        torch.mul, torch.div, torch.matmul, torch.mm, torch.cat, torch.concat, torch.stack, F.linear, F.relu, F.elu, F.gelu,
        F.leaky_relu, F.silu, F.selu, torch.relu, torch.sigmoid, torch.tanh, F.softmax, F.log_softmax, "relu", "sigmoid",
        "tanh", "add", "sub", "mul", "div", "clone",
    }
)  # fmt: skip
FRESH_MODULES = (torch.nn.Linear, PyGLinear, torch.nn.LayerNorm, torch.nn.BatchNorm1d)


def writes_into(entry: Entry, node: fx.Node) -> fx.Node | None:
    """The value that a call writes over, or None."""
    if node.op == "call_module":
        writes = bool(getattr(module_of(entry, node), "inplace", False))
    elif node.op not in ("call_function", "call_method"):
        return None
    elif name_of(entry, node).strip(".()").endswith("_") and not name_of(entry, node).endswith("__"):
        writes = True  # relu_(), torch.relu_
    else:
        writes = node.target in ASSIGNMENTS or node.kwargs.get("inplace", False) is not False
    target = node.args[0] if node.args else node.kwargs.get("input")
    return target if writes and isinstance(target, fx.Node) else None


def is_seen_by_one(entry: Entry, node: fx.Node) -> bool:
    """Whether a value's memory is read by its one reader alone: then it makes no difference that it is written over."""
    if node.op in ("placeholder", "get_attr") or len(node.users) != 1:
        return False
    if _is_fresh(entry, node):
        return True
    written = writes_into(entry, node)
    sources = [written] if written is not None else node.all_input_nodes
    return bool(sources) and all(is_seen_by_one(entry, source) for source in sources)


def may_be(entry: Entry, node: fx.Node, other: fx.Node) -> bool:
    """Whether a value may share memory with another one, on which it depends."""
    if node is other:
        return True
    if _is_fresh(entry, node):
        return False
    return any(may_be(entry, source, other) for source in node.all_input_nodes)


def _is_fresh(entry: Entry, node: fx.Node) -> bool:
    if writes_into(entry, node) is not None:
        return False
    if node.op == "call_module":
        module = module_of(entry, node)
        # What GIN's nn returns may be what it was given.
        if isinstance(module, torch.nn.Dropout):
            return module.training and module.p > 0
        return isinstance(module, FRESH_MODULES) or (
            isinstance(module, MessagePassing) and not isinstance(module, GINConv)
        )
    return node.target in FRESH
