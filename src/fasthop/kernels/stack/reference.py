"""A stack in plain torch: the definition of correct. Gradients are autograd's."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from fasthop.kernels.sample.draw import draw_key
from fasthop.kernels.segment_softmax.reference import dropout_factor
from fasthop.kernels.sparse_linear.entry_dropout import entry_dropout
from fasthop.kernels.sparse_linear.features import SparseFeatures
from fasthop.kernels.spmm import reference as spmm_reference
from fasthop.kernels.stack.ops import Activation, Add, Aggregate, Bias, Constant, Dropout, Head, Linear, Op


def op_seed(seed: int, place: int) -> int:
    """The seed of the dropout at a place of the list: a number below 2^63."""
    return draw_key(seed, place) >> 1


def run(ops: Sequence[Op], *, dtype: torch.dtype, seed: int | None = None) -> Tensor:
    """The last operation's output. seed: what dropouts draw from; None: nothing is dropped."""
    values: list[Tensor] = []
    for place, op in enumerate(ops):
        values.append(_value(ops, values, op, place, dtype, seed))
    return values[-1]


def _value(
    ops: Sequence[Op], values: list[Tensor], op: Op, place: int, dtype: torch.dtype, seed: int | None
) -> Tensor:
    if isinstance(op, Constant):
        return dense(op.features, dtype)
    if isinstance(op, Add):
        return values[op.a] + values[op.b]
    x = values[op.source]
    if isinstance(op, Linear):
        return F.linear(x, op.weight, op.bias)
    if isinstance(op, Aggregate):
        value = None if op.adj.value is None else op.adj.value.to(dtype)
        return spmm_reference.spmm(x, op.adj.rowptr, op.adj.col, value, op.reduce)
    if isinstance(op, Bias):
        return x + op.bias
    if isinstance(op, Head):
        return x[: op.num_rows]
    if isinstance(op, Activation):
        return activate(x, op)
    assert isinstance(op, Dropout)
    if seed is None or op.p == 0:
        return x
    features = sparse_source(ops, op.source)
    return x * (factors(features, x, op.p, op_seed(seed, place)))


def activate(x: Tensor, op: Activation) -> Tensor:
    """The activation, as torch has it."""
    if op.kind == "elu":
        return F.elu(x, op.factor)
    if op.kind == "leaky_relu":
        return F.leaky_relu(x, op.factor)
    return {"relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid}[op.kind](x)


def factors(features: SparseFeatures | None, x: Tensor, p: float, seed: int) -> Tensor:
    """What dropout gives each entry of x: 1 / (1 - p) or 0. Of sparse features the non-zeros draw by their place among
    those of the whole matrix; else each channel of each row draws."""
    if features is None:
        return dropout_factor(seed, x.size(0), x.size(1), p).to(x.dtype)
    drawn = entry_dropout(torch.tensor([seed]), features.num_entries, p, None, x.dtype)
    rowptr = features.matrix.rowptr
    row = torch.repeat_interleave(torch.arange(rowptr.numel() - 1), rowptr.diff())
    stays = row < x.size(0)
    out = torch.zeros_like(x)
    out[row[stays], features.matrix.col.long()[stays]] = drawn[stays]
    return out


def sparse_source(ops: Sequence[Op], place: int) -> SparseFeatures | None:
    """The sparse features that an operation is a copy of (through dropouts and heads), or None."""
    op = ops[place]
    while isinstance(op, Dropout | Head):
        op = ops[op.source]
    return op.features if isinstance(op, Constant) and isinstance(op.features, SparseFeatures) else None


def dense(features: Tensor | SparseFeatures, dtype: torch.dtype) -> Tensor:
    """The features with their zeros. Parallel entries are added."""
    if isinstance(features, Tensor):
        return features.detach().to(dtype)
    matrix, (value, _) = features.matrix, features.values(dtype)
    row = torch.repeat_interleave(torch.arange(matrix.num_rows), matrix.rowptr.diff())
    out = torch.zeros(features.shape, dtype=dtype)
    ones = torch.ones(features.num_entries, dtype=dtype)
    return out.index_put((row, matrix.col.long()), ones if value is None else value, accumulate=True)
