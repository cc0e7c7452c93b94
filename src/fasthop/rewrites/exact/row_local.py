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

ELEMENTWISE: frozenset[Any] = frozenset(
    {
        operator.add, operator.sub, operator.mul, operator.truediv, operator.neg, operator.pow,
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
    if kind in (torch.nn.Sequential, torch.nn.ModuleList, MLP):
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


def call_is_row_local(
    node: fx.Node, num_dims: Callable[[Any], int | None], is_rows: Callable[[Any], bool]
) -> bool:
    """Whether a call_function or call_method node leaves rows apart.

    num_dims: the dimensions of an argument that is a value of rows, where known. is_rows: whether an argument is one.
    """
    target = node.target
    if target in ELEMENTWISE or (node.op == "call_method" and target in ELEMENTWISE_METHODS):
        return bool(
            not node.kwargs.get("inplace")
            and "out" not in node.kwargs
            and _broadcasts_by_row(node, num_dims, is_rows)
        )
    if target in MATRIX_PRODUCTS:
        first, *others = node.args
        if node.kwargs or not is_rows(first) or any(is_rows(other) for other in others):
            return target is F.linear and is_rows(first) and not any(is_rows(v) for v in node.kwargs.values())
        return True
    if target in ALONG:
        return _along(node, num_dims)
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


def _along(node: fx.Node, num_dims: Callable[[Any], int | None]) -> bool:
    place, default = ALONG[node.target]
    dim = node.kwargs.get("dim", node.args[place] if len(node.args) > place else default)
    if not isinstance(dim, int) or isinstance(dim, bool) or "out" in node.kwargs:
        return False
    values = node.args[0] if isinstance(node.args[0], tuple | list) else (node.args[0],)
    for value in values:
        dims = num_dims(value)
        if dims is None:
            return False
        # A new dimension is counted among those that there will be.
        there = dims + (1 if node.target in (torch.stack, torch.unsqueeze, "unsqueeze") else 0)
        if not 0 < (dim if dim >= 0 else dim + there) < there:
            return False
    return True


def _keeps_rows(index: Any) -> bool:
    """Whether x[index] keeps all rows: a member of a tuple result is taken care of elsewhere."""
    if isinstance(index, tuple) and index:
        return index[0] == slice(None) and all(
            isinstance(part, slice | int) or part is None for part in index[1:]
        )
    return False


def _broadcasts_by_row(
    node: fx.Node, num_dims: Callable[[Any], int | None], is_rows: Callable[[Any], bool]
) -> bool:
    """Rows meet rows of the same number of dimensions; everything else must not have a dimension of rows."""
    operands = [*node.args, *node.kwargs.values()]
    dims = {num_dims(value) for value in operands if is_rows(value)}
    if len(dims) != 1 or None in dims:
        return False
    (rows_dims,) = dims
    for value in operands:
        if isinstance(value, fx.Node) and not is_rows(value):
            shape = value.meta.get("shape")
            if shape is None or (len(shape) >= (rows_dims or 0) and shape[0] != 1):
                return False
    return True


def num_dims_after(node: fx.Node, before: int | None) -> int | None:
    """The dimensions of a row-local call's result; before: those of its first value of rows."""
    target = node.target
    if target in RESHAPES:
        shape = node.args[1:]
        return len(shape[0]) if len(shape) == 1 and isinstance(shape[0], tuple | list) else len(shape)
    if before is None:
        return None
    if target in ("flatten", torch.flatten):
        return 2
    if target in (torch.stack, torch.unsqueeze, "unsqueeze"):
        return before + 1
    reduces = {
        torch.sum,
        torch.mean,
        torch.max,
        torch.min,
        torch.amax,
        "sum",
        "mean",
        "max",
        "min",
        "amax",
        "amin",
        "norm",
    }
    if target in reduces:
        keeps = node.kwargs.get("keepdim", node.args[2] if len(node.args) > 2 and target != "norm" else False)
        return before if keeps is True else before - 1
    if target is operator.getitem and isinstance(node.args[1], tuple):
        index = node.args[1]
        return before - sum(isinstance(i, int) for i in index) + sum(i is None for i in index)
    return before
