"""Whether a list of operations is a stack: sources come before, shapes and dtypes fit. Raises InvalidConfig in sentences."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fasthop.errors import InvalidConfig
from fasthop.kernels.sparse_linear.features import SparseFeatures
from fasthop.kernels.stack import ops as op_module
from fasthop.kernels.stack.ops import Activation, Add, Aggregate, Bias, Constant, Dropout, Head, Linear, Op
from fasthop.kernels.stack.reference import sparse_source

DTYPES = (torch.float32, torch.float64)


def shapes(ops: Sequence[Op]) -> list[tuple[int, int]]:
    """(rows, channels) of each operation's output."""
    if not ops:
        raise InvalidConfig("A stack has at least one operation, and got an empty list.")
    found: list[tuple[int, int]] = []
    for place, op in enumerate(ops):
        for source in op_module.sources(op):
            if not 0 <= source < place:
                raise InvalidConfig(
                    f"operation {place}, {_name(op)}, reads operation {source}; it can read those before it, 0 to {place - 1}."
                )
            if not isinstance(op, Dropout | Head | Linear) and sparse_source(ops, source) is not None:
                raise InvalidConfig(
                    f"operation {place}, {_name(op)}, reads sparse features; only Dropout, Head and Linear can. Give them dense."
                )
        found.append(_shape(ops, found, op, place))
    if sparse_source(ops, len(ops) - 1) is not None:
        raise InvalidConfig(
            "The last operation's output is dense; sparse features go through a Linear first."
        )
    return found


def dtype_of(ops: Sequence[Op], dtype: torch.dtype | None) -> torch.dtype:
    """The dtype that all is computed in: that of the parameters, or `dtype` where there are none."""
    for place, op in enumerate(ops):
        for parameter in op_module.parameters(op):
            dtype = parameter.dtype if dtype is None else dtype
            if parameter.dtype != dtype:
                raise InvalidConfig(
                    f"A stack has one dtype, {dtype}, and a parameter of operation {place} is {parameter.dtype}."
                )
            if parameter.device.type != "cpu" or not parameter.is_contiguous():
                raise InvalidConfig(
                    f"A stack's parameters lie on the CPU without gaps, and one of operation {place} is on "
                    f"{parameter.device} with strides {parameter.stride()}."
                )
    dtype = torch.float32 if dtype is None else dtype
    if dtype not in DTYPES:
        raise InvalidConfig(f"A stack is computed in float32 or float64, and got {dtype}.")
    return dtype


def _shape(ops: Sequence[Op], found: list[tuple[int, int]], op: Op, place: int) -> tuple[int, int]:
    if isinstance(op, Constant):
        shape = tuple(op.features.shape)
        if len(shape) != 2:
            raise InvalidConfig(f"features are a matrix, nodes x channels, and got the shape {list(shape)}.")
        if isinstance(op.features, Tensor):
            if op.features.requires_grad or op.features.layout != torch.strided:
                raise InvalidConfig(
                    "A Constant holds a dense tensor that needs no gradient, or SparseFeatures, and got "
                    f"layout {op.features.layout}, requires_grad={op.features.requires_grad}."
                )
        else:
            assert isinstance(op.features, SparseFeatures)
        return shape[0], shape[1]
    if isinstance(op, Add):
        if found[op.a] != found[op.b]:
            raise InvalidConfig(
                f"operation {place}, Add, adds {found[op.a]} to {found[op.b]}; shapes must be equal."
            )
        return found[op.a]
    rows, channels = found[op.source]
    if isinstance(op, Linear):
        if op.weight.dim() != 2 or op.weight.size(1) != channels:
            raise InvalidConfig(
                f"operation {place}, Linear, reads {channels} channels and its weight has the shape {list(op.weight.shape)}."
            )
        _check_bias(op.bias, op.weight.size(0), op, place)
        return rows, op.weight.size(0)
    if isinstance(op, Aggregate):
        if op.adj.num_cols != rows:
            raise InvalidConfig(
                f"operation {place}, Aggregate, reads {rows} rows and its matrix has {op.adj.num_cols} columns."
            )
        return op.adj.num_rows, channels
    if isinstance(op, Bias):
        _check_bias(op.bias, channels, op, place)
    if isinstance(op, Head):
        if not 0 <= op.num_rows <= rows:
            raise InvalidConfig(f"operation {place}, Head, asks for {op.num_rows} of {rows} rows.")
        return op.num_rows, channels
    assert isinstance(op, Bias | Activation | Dropout)
    return rows, channels


def _check_bias(bias: Tensor | None, channels: int, op: Op, place: int) -> None:
    if bias is not None and tuple(bias.shape) != (channels,):
        raise InvalidConfig(
            f"operation {place}, {_name(op)}, has {channels} channels and its bias has the shape {list(bias.shape)}."
        )


def _name(op: Op) -> str:
    return type(op).__name__
