"""`fasthop::spmm` and its gradients as operators of torch, so that autograd and torch.compile know them.

The operators check shapes and dtypes, not indices: a column outside x reads foreign memory. `Adjacency` checks
them once; call the operators through it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op, register_autograd, register_fake

from fasthop.errors import InvalidConfig, InvalidGraph
from fasthop.kernels.device import check_one_device, gpu_kernels
from fasthop.kernels.spmm import cpu, dispatch
from fasthop.kernels.spmm.transpose import perm_dtype, transpose

REDUCTIONS = ("sum", "mean", "max", "min")
DTYPES = (torch.float32, torch.float64, torch.bfloat16)
DEVICES = ("cpu", "cuda")


@custom_op("fasthop::spmm", mutates_args=(), device_types=DEVICES)
def spmm(
    x: Tensor,
    rowptr: Tensor,
    col: Tensor,
    value: Tensor | None,
    rowptr_t: Tensor | None,
    col_t: Tensor | None,
    perm: Tensor | None,
    value_t: Tensor | None,
    reduce: str,
    implementation: str,
) -> Tensor:
    """out[i] = reduce over entries e of row i of value[e] * x[col[e]]; see reference.py.

    rowptr_t, col_t, perm, value_t: the transpose, its permutation and its values, for the gradient; what is missing
    is computed in each backward pass. implementation: one of dispatch.IMPLEMENTATIONS.
    Raises InvalidConfig for an x, value, reduction or implementation that cannot be.
    """
    check(x, rowptr, col, value, reduce)
    return dispatch.run(x.contiguous(), rowptr, col, value, reduce, implementation)


@register_fake("fasthop::spmm")
def _spmm_fake(
    x: Tensor,
    rowptr: Tensor,
    col: Tensor,
    value: Tensor | None,
    rowptr_t: Tensor | None,
    col_t: Tensor | None,
    perm: Tensor | None,
    value_t: Tensor | None,
    reduce: str,
    implementation: str,
) -> Tensor:
    check(x, rowptr, col, value, reduce)
    return x.new_empty(rowptr.size(0) - 1, x.size(1))


def check(x: Tensor, rowptr: Tensor, col: Tensor, value: Tensor | None, reduce: str) -> None:
    """Raises InvalidConfig or InvalidGraph where spmm cannot take these tensors; looks at no element."""
    if x.dim() != 2:
        raise InvalidConfig(
            f"x must have two dimensions, nodes x channels, and got the shape {list(x.shape)}; "
            "a vector is x.unsqueeze(1)."
        )
    if x.dtype not in DTYPES and not (x.dtype == torch.float16 and x.device.type == "cuda"):
        raise InvalidConfig(
            f"spmm computes in float32, float64 and bfloat16 (on CUDA in float16, too), and got x of {x.dtype}; convert it."
        )
    if reduce not in REDUCTIONS:
        raise InvalidConfig(f"reduce must be one of {', '.join(REDUCTIONS)}, and got {reduce!r}.")
    if rowptr.dim() != 1 or rowptr.dtype != torch.int64 or not rowptr.is_contiguous():
        raise InvalidGraph(
            f"rowptr must be int64 [num_rows + 1], and got {rowptr.dtype} {list(rowptr.shape)}."
        )
    if col.dim() != 1 or col.dtype not in (torch.int32, torch.int64) or not col.is_contiguous():
        raise InvalidGraph(
            f"col must be int32 or int64 [num_entries], and got {col.dtype} {list(col.shape)}."
        )
    if value is not None:
        wanted = torch.promote_types(x.dtype, torch.float32)
        if value.shape != col.shape or not value.is_contiguous():
            raise InvalidGraph(
                f"value must have one number for each of the {col.size(0)} entries, and got {list(value.shape)}."
            )
        if value.dtype != wanted:
            raise InvalidConfig(
                f"value must be {wanted} for x of {x.dtype}, and got {value.dtype}; convert it."
            )


@custom_op("fasthop::csr_transpose", mutates_args=(), device_types=DEVICES)
def csr_transpose(rowptr: Tensor, col: Tensor, num_cols: int) -> tuple[Tensor, Tensor, Tensor]:
    """(rowptr_t, col_t, perm); see transpose.py."""
    return transpose(rowptr, col, num_cols)


@register_fake("fasthop::csr_transpose")
def _csr_transpose_fake(rowptr: Tensor, col: Tensor, num_cols: int) -> tuple[Tensor, Tensor, Tensor]:
    perm = torch.empty_like(col, dtype=perm_dtype(col.numel()))
    return rowptr.new_empty(num_cols + 1), torch.empty_like(col), perm


def _kernels(x: Tensor, *others: Tensor | None) -> Any:
    """The module with the kernels of the tensors' device."""
    if check_one_device("spmm", x, *others).type == "cpu":
        return cpu
    return gpu_kernels("fasthop.kernels.spmm.gpu")


@custom_op("fasthop::sddmm", mutates_args=(), device_types=DEVICES)
def sddmm(x: Tensor, rowptr: Tensor, col: Tensor, grad: Tensor) -> Tensor:
    """out[e] = dot(grad[i], x[col[e]]) for entry e of row i: [E], float32 for bfloat16, else x's dtype."""
    return _kernels(x, rowptr, col, grad).sddmm(x.contiguous(), rowptr, col, grad.contiguous())


@register_fake("fasthop::sddmm")
def _sddmm_fake(x: Tensor, rowptr: Tensor, col: Tensor, grad: Tensor) -> Tensor:
    return torch.empty_like(col, dtype=torch.promote_types(x.dtype, torch.float32))


@custom_op("fasthop::spmm_tie_share", mutates_args=(), device_types=DEVICES)
def tie_share(
    x: Tensor, rowptr: Tensor, col: Tensor, value: Tensor | None, y: Tensor, grad: Tensor
) -> Tensor:
    """grad[i] over the number of entries that tie for the extremum y[i], as torch counts them; see rows.py."""
    kernels = _kernels(x, rowptr, col, value, y, grad)
    return kernels.tie_share(x.contiguous(), rowptr, col, value, y.contiguous(), grad.contiguous())


@register_fake("fasthop::spmm_tie_share")
def _tie_share_fake(
    x: Tensor, rowptr: Tensor, col: Tensor, value: Tensor | None, y: Tensor, grad: Tensor
) -> Tensor:
    return torch.empty_like(y, memory_format=torch.contiguous_format)


@custom_op("fasthop::spmm_extremum_grad", mutates_args=(), device_types=DEVICES)
def extremum_grad(
    x: Tensor, rowptr_t: Tensor, col_t: Tensor, value_t: Tensor | None, y: Tensor, share: Tensor
) -> Tensor:
    """The gradient to x of max and min, by the transpose; see rows.py."""
    kernels = _kernels(x, rowptr_t, col_t, value_t, y, share)
    return kernels.extremum_grad(x.contiguous(), rowptr_t, col_t, value_t, y.contiguous(), share.contiguous())


@register_fake("fasthop::spmm_extremum_grad")
def _extremum_grad_fake(
    x: Tensor, rowptr_t: Tensor, col_t: Tensor, value_t: Tensor | None, y: Tensor, share: Tensor
) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


@custom_op("fasthop::spmm_extremum_value_grad", mutates_args=(), device_types=DEVICES)
def extremum_value_grad(
    x: Tensor, rowptr: Tensor, col: Tensor, value: Tensor, y: Tensor, share: Tensor
) -> Tensor:
    """The gradient to the values of max and min: [E]; see rows.py."""
    kernels = _kernels(x, rowptr, col, value, y, share)
    return kernels.extremum_value_grad(x.contiguous(), rowptr, col, value, y.contiguous(), share.contiguous())


@register_fake("fasthop::spmm_extremum_value_grad")
def _extremum_value_grad_fake(
    x: Tensor, rowptr: Tensor, col: Tensor, value: Tensor, y: Tensor, share: Tensor
) -> Tensor:
    return torch.empty_like(value)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, rowptr, col, value, rowptr_t, col_t, perm, value_t, reduce, implementation = inputs
    ctx.is_extremum = reduce in ("max", "min")
    ctx.reduce, ctx.implementation, ctx.num_cols = reduce, implementation, x.size(0)
    # A sum's gradient needs x only for the values; x is not kept alive for nothing.
    keeps_x = ctx.is_extremum or ctx.needs_input_grad[3]
    ctx.save_for_backward(
        x if keeps_x else None,
        rowptr,
        col,
        value,
        rowptr_t,
        col_t,
        perm,
        value_t,
        output if ctx.is_extremum else None,
    )


def _gradients(ctx: Any, grad: Tensor, product: Callable[..., Tensor]) -> tuple[Tensor | None, ...]:
    """The gradients to x and value; `product` is what multiplies by the transpose, so that it can be differentiated."""
    x, rowptr, col, value, rowptr_t, col_t, perm, value_t, y = ctx.saved_tensors
    needs_x, needs_value = ctx.needs_input_grad[0], ctx.needs_input_grad[3]
    if needs_x and (rowptr_t is None or (value is not None and value_t is None and perm is None)):
        rowptr_t, col_t, perm = csr_transpose(rowptr, col, ctx.num_cols)
        value_t = None
    if needs_x and value is not None and value_t is None:
        value_t = value.index_select(0, perm)
    grad_x = grad_value = None
    if ctx.is_extremum:
        share = tie_share(x, rowptr, col, value, y, grad)
        if needs_x:
            grad_x = extremum_grad(x, rowptr_t, col_t, value_t, y, share)
        if needs_value:
            grad_value = extremum_value_grad(x, rowptr, col, value, y, share)
    else:
        if ctx.reduce == "mean":
            grad = grad / rowptr.diff().clamp(min=1).to(grad.dtype).unsqueeze(1)
        if needs_x:
            grad_x = product(
                grad, rowptr_t, col_t, value_t, rowptr, col, None, value, "sum", ctx.implementation
            )
        if needs_value:
            grad_value = sddmm(x, rowptr, col, grad)
    return grad_x, None, None, grad_value, None, None, None, None, None, None


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return _gradients(ctx, grad, spmm)


register_autograd("fasthop::spmm", _backward, setup_context=_setup_context)


class _DirectProduct(torch.autograd.Function):
    """The same product without torch's operator dispatch, whose wrappers in Python cost 15 us a call, and 75 with a
    gradient: on Cora more than the product. Its context is set up in forward, because torch binds
    the arguments of a separate setup_context by name on each call (50 us)."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        x, rowptr, col, value, *_, reduce, implementation = inputs
        out = dispatch.run(x.contiguous(), rowptr, col, value, reduce, implementation)
        _setup_context(ctx, inputs, out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _gradients(ctx, grad, product)


def is_traced(x: Tensor) -> bool:
    """Whether the operator is called, which knows its fake form: in a trace, and for subclasses (fake tensors, a trace's
    functional ones)."""
    return torch.compiler.is_compiling() or type(x) not in (Tensor, torch.nn.Parameter)


def product(x: Tensor, rowptr: Tensor, col: Tensor, value: Tensor | None, *others: Any) -> Tensor:
    """`spmm` with the same arguments: the operator where torch traces, the plain function where nothing needs a
    gradient, else the same function under autograd."""
    if is_traced(x):
        return spmm(x, rowptr, col, value, *others)
    reduce, implementation = others[-2:]
    check(x, rowptr, col, value, reduce)
    if torch.is_grad_enabled() and (x.requires_grad or (value is not None and value.requires_grad)):
        return _DirectProduct.apply(x, rowptr, col, value, *others)
    return dispatch.run(x.contiguous(), rowptr, col, value, reduce, implementation)
