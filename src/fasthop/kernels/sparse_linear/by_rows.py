"""Sparse features times a weight whose gradient goes over the features row by row, without their transpose."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fasthop.kernels.sparse_linear.weight_grad import ENTRIES_PER_COLUMN, weight_grad
from fasthop.kernels.spmm import dispatch, op
from fasthop.kernels.spmm.adjacency import Adjacency

# What a part adds to should stay in a core's second cache (1 to 2 MB). With 18,333 x 6,805 features and 1.1 million entries
# x 64 it has 1.7 MB, and one thread takes 4.3 ms by rows and 7.6 by the transpose.
MAX_ACCUMULATOR_BYTES = 2 << 20
# The gradient and a column and a value an entry: while all that stays in the second cache, gathering is the quicker way
# (Cora x 64, 1.1 MB: 0.14 ms and 0.28), and there is little memory to save. Of 22 shapes on one thread the sum told all
# but one apart: by rows took 1.3 to 1.5 times as long up to 4.0 MB and 0.3 to 1.1 times from 4.6 MB on, but for one of
# 5.3 MB (0.72 ms by the transpose, 1.09 by rows).
MIN_PASSED_BYTES = 9 << 19
# Two threads have a part each at least.
MIN_PARTS = 2


def serves(matrix: Adjacency, weight: Tensor, implementation: str) -> bool:
    """Whether the gradient by rows is the quicker one for this layer, and can be had: on the CPU, for constant features,
    where no other implementation is asked for. By sizes alone, so that a model takes the same bits in each run.

    weight: [C, F].
    """
    num_channels, num_cols = weight.shape
    num_entries = matrix.col.numel()
    lane_bytes = max(weight.dtype.itemsize, 4)
    passed_bytes = matrix.num_rows * num_channels * weight.dtype.itemsize + num_entries * (4 + lane_bytes)
    return (
        implementation in ("auto", "numba")
        and weight.device.type == "cpu"
        and matrix.rowptr.device.type == "cpu"
        and weight.dtype in (torch.float32, torch.float64, torch.bfloat16)
        and not (matrix.value is not None and matrix.value.requires_grad)
        and num_cols * num_channels * lane_bytes <= MAX_ACCUMULATOR_BYTES
        and passed_bytes >= MIN_PASSED_BYTES
        and num_entries >= MIN_PARTS * ENTRIES_PER_COLUMN * num_cols
    )


def product(weight: Tensor, matrix: Adjacency, value: Tensor | None, implementation: str) -> Tensor:
    """matrix @ weight.T: [N, C], differentiable in weight [C, F], any number of times. value: the matrix's, in the
    dtype that op.spmm wants, or None for ones."""
    op.check(weight.t(), matrix.rowptr, matrix.col, value, "sum")
    return _Product.apply(weight, matrix.rowptr, matrix.col, value, implementation)


class _Product(torch.autograd.Function):
    """weight [C, F] -> matrix @ weight.T [N, C]."""

    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, rowptr: Tensor, col: Tensor, value: Tensor | None, implementation: str
    ) -> Tensor:
        ctx.save_for_backward(rowptr, col, value)
        ctx.num_cols, ctx.implementation = weight.size(1), implementation
        return dispatch.run(weight.t().contiguous(), rowptr, col, value, "sum", implementation)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        rowptr, col, value = ctx.saved_tensors
        if grad.requires_grad:
            return _WeightGrad.apply(grad, rowptr, col, value, ctx.num_cols, ctx.implementation), *_NONE
        return weight_grad(grad, rowptr, col, value, ctx.num_cols), *_NONE


class _WeightGrad(torch.autograd.Function):
    """grad [N, C] -> its gradient to the weight [C, F]; linear, too, and its own gradient is the product."""

    @staticmethod
    def forward(
        ctx: Any,
        grad: Tensor,
        rowptr: Tensor,
        col: Tensor,
        value: Tensor | None,
        num_cols: int,
        implementation: str,
    ) -> Tensor:
        ctx.save_for_backward(rowptr, col, value)
        ctx.implementation = implementation
        return weight_grad(grad, rowptr, col, value, num_cols)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _Product.apply(grad, *ctx.saved_tensors, ctx.implementation), None, *_NONE


_NONE = (None,) * 4
