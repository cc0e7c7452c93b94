"""Which operations leave rows apart: row i of the result depends on row i of the inputs only.

A list, not a guess: whatever is not on it is taken to mix rows. Rows lie along dimension 0.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx
from torch_geometric.nn import MLP
from torch_geometric.nn.dense.linear import Linear as PyGLinear
from torch_geometric.nn.models.jumping_knowledge import JumpingKnowledge
from torch_geometric.nn.norm import BatchNorm as PyGBatchNorm
from torch_geometric.nn.norm import LayerNorm as PyGLayerNorm

from fasthop.rewrites.exact.fast_layer import HOOKS

ELEMENTWISE: frozenset[Any] = frozenset(
    {
        operator.add, operator.sub, operator.mul, operator.truediv, operator.neg, operator.pow,
        operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ipow,
        torch.add, torch.sub, torch.mul, torch.div, torch.neg, torch.abs, torch.exp, torch.log, torch.log1p, torch.sqrt,
        torch.sigmoid, torch.tanh, torch.relu, torch.clamp, torch.maximum, torch.minimum, torch.where, torch.pow,
        F.relu, F.relu6, F.elu, F.selu, F.celu, F.gelu, F.silu, F.mish, F.leaky_relu, F.softplus, F.softsign, F.hardtanh,
        F.hardswish, F.hardsigmoid, F.logsigmoid, F.tanh, F.sigmoid, F.dropout, F.alpha_dropout,
    }
)  # fmt: skip
ELEMENTWISE_METHODS = frozenset(
    {
        "add", "sub", "mul", "div", "neg", "abs", "exp", "log", "log1p", "sqrt", "sigmoid", "tanh", "relu", "clamp",
        "clamp_min", "pow", "detach", "clone", "contiguous", "float", "double", "type_as",
    }
)  # fmt: skip
# Along one dimension, which must not be that of the rows: (function or method, place of `dim`, its default).
ALONG: dict[Any, tuple[int, Any]] = {
    torch.cat: (1, 0), torch.concat: (1, 0), torch.stack: (1, 0),
    F.softmax: (1, None), F.log_softmax: (1, None), torch.softmax: (1, None), torch.log_softmax: (1, None),
    F.normalize: (2, 1), F.glu: (1, -1), torch.unsqueeze: (1, None),
    torch.sum: (1, None), torch.mean: (1, None), torch.max: (1, None), torch.min: (1, None), torch.amax: (1, None),
    "softmax": (1, None), "log_softmax": (1, None), "sum": (1, None), "mean": (1, None), "max": (1, None),
    "min": (1, None), "amax": (1, None), "amin": (1, None), "norm": (2, None), "unsqueeze": (1, None),
}  # fmt: skip
MATRIX_PRODUCTS: frozenset[Any] = frozenset(
    {operator.matmul, torch.matmul, torch.mm, F.linear, "matmul", "mm"}
)
RESHAPES = frozenset({"view", "reshape"})
MODULES: tuple[type[torch.nn.Module], ...] = (
    torch.nn.Linear, PyGLinear, torch.nn.Identity, torch.nn.Dropout, torch.nn.AlphaDropout, torch.nn.LayerNorm,
    torch.nn.RMSNorm, torch.nn.ReLU, torch.nn.ReLU6, torch.nn.ELU, torch.nn.SELU, torch.nn.CELU, torch.nn.GELU, torch.nn.SiLU,
    torch.nn.Mish, torch.nn.LeakyReLU, torch.nn.PReLU, torch.nn.Sigmoid, torch.nn.Tanh, torch.nn.Softplus, torch.nn.Softsign,
    torch.nn.Hardtanh, torch.nn.Hardswish, torch.nn.LogSigmoid,
)  # fmt: skip
BATCH_NORMS: tuple[type[torch.nn.Module], ...] = (torch.nn.BatchNorm1d, PyGBatchNorm)


def module_is_row_local(module: Any) -> bool:
    """Whether a module of the user's leaves rows apart in its present mode."""
    kind = type(module)
    if any(getattr(module, hooks, None) for hooks in HOOKS):
        return False
    if kind in (torch.nn.Sequential, torch.nn.ModuleList, MLP):
        if not isinstance(getattr(module, "act", None), torch.nn.Module | None):
            return False
        return all(module_is_row_local(part) for part in module.children())
    if kind is torch.nn.LayerNorm:
        return len(module.normalized_shape) == 1  # over two it may reach over the rows
    if kind in (torch.nn.Softmax, torch.nn.LogSoftmax):
        return module.dim in (1, -1)
    if kind is PyGLayerNorm:
        return module.mode == "node"
    if kind is PyGBatchNorm:
        return module_is_row_local(module.module)
    if kind is torch.nn.BatchNorm1d:
        return not module.training and bool(module.track_running_stats)
    if kind is JumpingKnowledge:
        return module.mode in ("cat", "max")
    return kind in MODULES


def call_is_row_local(node: fx.Node, is_rows: Callable[[Any], bool]) -> bool:
    """Whether a call_function or call_method node leaves rows apart; an in-place one, if nobody else sees its memory.

    is_rows: whether an argument is a value of rows. Every tensor's node has its shape in meta["shape"]; arguments given in
    another way than the lists above know raise IndexError, KeyError, TypeError or ValueError.
    """
    target = node.target
    if target in ELEMENTWISE or (node.op == "call_method" and target in ELEMENTWISE_METHODS):
        return "out" not in node.kwargs and _broadcasts_by_row(node, is_rows)
    if target in MATRIX_PRODUCTS:
        first, weight, *bias = node.args
        others = [weight, *bias, *node.kwargs.values()]
        if not is_rows(first) or any(is_rows(other) for other in others) or _num_dims(first) < 2:
            return False
        # With a batch of matrices the batch comes first.
        return all(other is None or _num_dims(other) <= 2 for other in others)
    if target in ALONG:
        return _along(node)
    if target in RESHAPES:
        shape = node.args[1:]
        if len(shape) == 1 and isinstance(shape[0], tuple | list):
            shape = tuple(shape[0])
        if not shape or shape[0] != -1:
            return False
        return all(isinstance(n, int) and n > 0 for n in shape[1:])
    if target in ("flatten", torch.flatten):
        return node.args[1:] in ((1,), (1, -1)) or (
            not node.args[1:] and dict(node.kwargs) == {"start_dim": 1}
        )
    if target is operator.getitem:
        return _keeps_rows(node.args[1])
    return False


def _num_dims(value: Any) -> int:
    return len(value.meta["shape"])


def _along(node: fx.Node) -> bool:
    place, default = ALONG[node.target]
    dim = node.kwargs.get("dim", node.args[place] if len(node.args) > place else default)
    if not isinstance(dim, int) or isinstance(dim, bool) or "out" in node.kwargs:
        return False
    values: Any = node.args[0] if isinstance(node.args[0], tuple | list) else (node.args[0],)
    # A new dimension is counted among those that there will be.
    new = 1 if node.target in (torch.stack, torch.unsqueeze, "unsqueeze") else 0
    return all(0 < (dim if dim >= 0 else dim + _num_dims(v) + new) < _num_dims(v) + new for v in values)


def _keeps_rows(index: Any) -> bool:
    """Whether x[index] keeps all rows: a member of a tuple result is taken care of elsewhere."""
    if isinstance(index, tuple) and index:
        return index[0] == slice(None) and all(
            isinstance(part, slice | int) or part is None for part in index[1:]
        )
    return False


def _broadcasts_by_row(node: fx.Node, is_rows: Callable[[Any], bool]) -> bool:
    """Rows meet rows of the same number of dimensions; everything else must not have a dimension of rows."""
    operands = [value for value in [*node.args, *node.kwargs.values()] if isinstance(value, fx.Node)]
    rows = {_num_dims(value) for value in operands if is_rows(value)}
    if len(rows) != 1:
        return False
    (num_dims,) = rows
    for value in operands:
        if is_rows(value):
            continue
        shape = value.meta["shape"]
        if len(shape) > num_dims or (len(shape) == num_dims and shape[0] != 1):
            return False
    return True
