"""`fasthop::gat`, `fasthop::gatv2` and their gradients as operators of torch, so that autograd and torch.compile know them.

The operators check shapes and dtypes, not indices: a column outside x reads foreign memory. `Adjacency` checks
them once; call the operators through attention.py.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.library import custom_op, register_autograd, register_fake

from fasthop.kernels.device import check_one_device, gpu_kernels
from fasthop.kernels.segment_softmax import cpu
from fasthop.kernels.segment_softmax.check import check_gat, check_gatv2
from fasthop.kernels.spmm.op import DEVICES, csr_transpose


def _gpu(x: Tensor, *others: Tensor | None) -> Any:
    """The module with the kernels for GPUs where the tensors are on one, None where they are on the CPU."""
    if check_one_device("attention", x, *others).type == "cpu":
        return None
    return gpu_kernels("fasthop.kernels.segment_softmax.gpu")


def run_gat(
    x: Tensor,
    a_src: Tensor,
    a_dst: Tensor,
    rowptr: Tensor,
    col: Tensor,
    rowptr_t: Tensor | None,
    col_t: Tensor | None,
    perm: Tensor | None,
    seed: Tensor | None,
    negative_slope: float,
    dropout: float,
) -> tuple[Tensor, Tensor]:
    """(out [num_rows, heads, channels], the softmax's largest score and 1 / sum [num_rows, 2, heads]); see reference.py.

    rowptr_t, col_t, perm: the transpose, for the gradient; computed in each backward pass where it is missing.
    Raises InvalidConfig or InvalidGraph for what cannot be.
    """
    check_gat(x, a_src, a_dst, rowptr, col, seed, dropout)
    x, kept = x.contiguous(), {"slope": negative_slope, "dropout": dropout, "seed": seed}
    if gpu := _gpu(x, a_src, a_dst, rowptr, col, rowptr_t, col_t, perm, seed):
        return gpu.gat(x, a_src.contiguous(), a_dst.contiguous(), rowptr, col, **kept)
    return cpu.gat(cpu.Sweep(x, rowptr, col, None, **kept), a_src.contiguous(), a_dst.contiguous())


gat = custom_op("fasthop::gat", run_gat, mutates_args=(), device_types=DEVICES)


@register_fake("fasthop::gat")
def _gat_fake(
    x: Tensor,
    a_src: Tensor,
    a_dst: Tensor,
    rowptr: Tensor,
    col: Tensor,
    rowptr_t: Tensor | None,
    col_t: Tensor | None,
    perm: Tensor | None,
    seed: Tensor | None,
    negative_slope: float,
    dropout: float,
) -> tuple[Tensor, Tensor]:
    check_gat(x, a_src, a_dst, rowptr, col, seed, dropout)
    num_rows = rowptr.size(0) - 1
    return x.new_empty(num_rows, x.size(1), x.size(2)), a_src.new_empty(num_rows, 2, x.size(1))


def run_gat_grad(
    grad: Tensor,
    x: Tensor,
    a_src: Tensor,
    a_dst: Tensor,
    rowptr: Tensor,
    col: Tensor,
    rowptr_t: Tensor,
    col_t: Tensor,
    perm: Tensor,
    seed: Tensor | None,
    negative_slope: float,
    dropout: float,
    out: Tensor,
    stats: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients to x, a_src and a_dst; see gat_passes.py."""
    x, kept = x.contiguous(), {"slope": negative_slope, "dropout": dropout, "seed": seed}
    a_src, a_dst, grad = a_src.contiguous(), a_dst.contiguous(), grad.contiguous()
    if gpu := _gpu(x, a_src, a_dst, rowptr, col, rowptr_t, col_t, perm, grad):
        matrix = (rowptr, col, rowptr_t, col_t, perm)
        return gpu.gat_grad(grad, x, a_src, a_dst, matrix, out, stats, **kept)
    sweep = cpu.Sweep(x, rowptr, col, None, **kept)
    sweep_t = cpu.Sweep(x, rowptr_t, col_t, perm, **kept)
    return cpu.gat_grad(sweep, sweep_t, a_src, a_dst, out, stats, grad)


gat_grad = custom_op("fasthop::gat_grad", run_gat_grad, mutates_args=(), device_types=DEVICES)


@register_fake("fasthop::gat_grad")
def _gat_grad_fake(
    grad: Tensor, x: Tensor, a_src: Tensor, a_dst: Tensor, *others: Any
) -> tuple[Tensor, Tensor, Tensor]:
    return _dense_like(x), _dense_like(a_src), _dense_like(a_dst)


def run_gatv2(
    x_l: Tensor,
    x_r: Tensor,
    att: Tensor,
    rowptr: Tensor,
    col: Tensor,
    rowptr_t: Tensor | None,
    col_t: Tensor | None,
    perm: Tensor | None,
    seed: Tensor | None,
    negative_slope: float,
    dropout: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """(out [num_rows, heads, channels], exp(score - largest) [E, heads], 1 / their sum [num_rows, heads]).

    Arguments and errors as those of `gat`; see reference.py.
    """
    check_gatv2(x_l, x_r, att, rowptr, col, seed, dropout)
    x_l, kept = x_l.contiguous(), {"slope": negative_slope, "dropout": dropout, "seed": seed}
    if gpu := _gpu(x_l, x_r, att, rowptr, col, rowptr_t, col_t, perm, seed):
        return gpu.gatv2(x_l, x_r.contiguous(), att.contiguous(), rowptr, col, **kept)
    return cpu.gatv2(cpu.Sweep(x_l, rowptr, col, None, **kept), x_r.contiguous(), att.contiguous())


gatv2 = custom_op("fasthop::gatv2", run_gatv2, mutates_args=(), device_types=DEVICES)


@register_fake("fasthop::gatv2")
def _gatv2_fake(
    x_l: Tensor,
    x_r: Tensor,
    att: Tensor,
    rowptr: Tensor,
    col: Tensor,
    rowptr_t: Tensor | None,
    col_t: Tensor | None,
    perm: Tensor | None,
    seed: Tensor | None,
    negative_slope: float,
    dropout: float,
) -> tuple[Tensor, Tensor, Tensor]:
    check_gatv2(x_l, x_r, att, rowptr, col, seed, dropout)
    num_rows, heads = rowptr.size(0) - 1, x_l.size(1)
    out = x_l.new_empty(num_rows, heads, x_l.size(2))
    return out, att.new_empty(col.size(0), heads), att.new_empty(num_rows, heads)


def run_gatv2_grad(
    grad: Tensor,
    x_l: Tensor,
    x_r: Tensor,
    att: Tensor,
    rowptr: Tensor,
    col: Tensor,
    rowptr_t: Tensor,
    col_t: Tensor,
    perm: Tensor,
    seed: Tensor | None,
    negative_slope: float,
    dropout: float,
    out: Tensor,
    weight: Tensor,
    shares: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients to x_l, x_r and att; see gatv2_passes.py."""
    x_l, kept = x_l.contiguous(), {"slope": negative_slope, "dropout": dropout, "seed": seed}
    x_r, att, grad = x_r.contiguous(), att.contiguous(), grad.contiguous()
    if gpu := _gpu(x_l, x_r, att, rowptr, col, rowptr_t, col_t, perm, grad):
        matrix = (rowptr, col, rowptr_t, col_t, perm)
        return gpu.gatv2_grad(grad, x_l, x_r, att, matrix, out, weight, shares, **kept)
    sweep = cpu.Sweep(x_l, rowptr, col, None, **kept)
    sweep_t = cpu.Sweep(x_l, rowptr_t, col_t, perm, **kept)
    return cpu.gatv2_grad(sweep, sweep_t, x_r, att, out, weight, shares, grad)


gatv2_grad = custom_op("fasthop::gatv2_grad", run_gatv2_grad, mutates_args=(), device_types=DEVICES)


@register_fake("fasthop::gatv2_grad")
def _gatv2_grad_fake(
    grad: Tensor, x_l: Tensor, x_r: Tensor, att: Tensor, *others: Any
) -> tuple[Tensor, Tensor, Tensor]:
    return _dense_like(x_l), _dense_like(x_r), _dense_like(att)


def _dense_like(x: Tensor) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, ctx.negative_slope, ctx.dropout = inputs
    ctx.save_for_backward(*tensors, *output)
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)


def _gradients(ctx: Any, grad: Tensor | None, gradient: Any) -> tuple[Tensor | None, ...]:
    nothing = (None,) * 8
    if grad is None:
        return None, None, None, *nothing
    *first, rowptr, col, rowptr_t, col_t, perm, seed = ctx.saved_tensors[:9]
    if rowptr_t is None:
        rowptr_t, col_t, perm = csr_transpose(rowptr, col, first[0].size(0))
    matrix = (rowptr, col, rowptr_t, col_t, perm, seed)
    gradients = gradient(grad, *first, *matrix, ctx.negative_slope, ctx.dropout, *ctx.saved_tensors[9:])
    return *gradients, *nothing


register_autograd(
    "fasthop::gat", lambda ctx, grad, *_: _gradients(ctx, grad, gat_grad), setup_context=_setup_context
)
register_autograd(
    "fasthop::gatv2", lambda ctx, grad, *_: _gradients(ctx, grad, gatv2_grad), setup_context=_setup_context
)


class _Direct(torch.autograd.Function):
    """The operators without torch's dispatch, whose wrappers in Python cost more than Cora's attention; see spmm's op.py."""

    @staticmethod
    def forward(ctx: Any, operator: Any, *inputs: Any) -> tuple[Tensor, ...]:
        output = _PLAIN_FORM[operator](*inputs)
        ctx.operator = operator
        _setup_context(ctx, inputs, output)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
        return None, *_gradients(ctx, grad, run_gat_grad if ctx.operator is gat else run_gatv2_grad)


_PLAIN_FORM = {gat: run_gat, gatv2: run_gatv2}
# Subclasses (fake tensors, a trace's functional ones) take the operator, which knows its fake form.
_PLAIN = (Tensor, torch.nn.Parameter)


def attention(operator: Any, *inputs: Any) -> Tensor:
    """`gat` or `gatv2` with its arguments, the output alone: the operator where torch traces, else without its dispatch."""
    if torch.compiler.is_compiling() or any(type(x) not in _PLAIN for x in inputs[:3]):
        return operator(*inputs)[0]
    if torch.is_grad_enabled() and any(x.requires_grad for x in inputs[:3]):
        return _Direct.apply(operator, *inputs)[0]
    return _PLAIN_FORM[operator](*inputs)[0]
