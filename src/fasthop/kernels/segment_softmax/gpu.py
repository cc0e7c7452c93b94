"""Attention and its gradients on a GPU, in Triton: cpu.py's results from tensors in op.py's order.

Deterministic, and nothing waits for the device: the seed is read there, grids follow from shapes. Nothing is checked here.
These kernels ran in Triton's interpreter and through its compiler, but have not yet run on a GPU; docs/design/gpu.md.
"""

from __future__ import annotations

from typing import Any

import torch
import triton  # pyright: ignore[reportMissingImports]
from torch import Tensor

from fasthop.kernels.segment_softmax import gpu_gat, gpu_gatv2, gpu_passes
from fasthop.kernels.spmm import gpu as spmm_gpu
from fasthop.kernels.spmm.gpu_passes import SUM

WIDEST_BLOCK, TILE = spmm_gpu.WIDEST_BLOCK, spmm_gpu.TILE


class Sweep:
    """A matrix by rows (or its transpose) and how attention over it computes: grids, blocks and numbers of all passes."""

    def __init__(
        self, x: Tensor, rowptr: Tensor, col: Tensor, *, slope: float, dropout: float, seed: Tensor | None
    ) -> None:
        """x: [num_cols, heads, channels], for its dtype and shape."""
        self.rowptr, self.col = rowptr, col
        self.num_rows, (self.heads, self.channels) = rowptr.numel() - 1, x.shape[1:]
        self.width = self.heads * self.channels
        self.is_empty = self.num_rows == 0 or self.width == 0
        self.num_chunks = spmm_gpu.num_chunks(col.numel())
        self.seed = rowptr if seed is None else seed  # a pointer is asked for even where nothing is drawn
        self.slope: dict[str, Any] = {"SLOPE": float(slope)}
        self.dropout: dict[str, Any] = {
            "IS_DROPPED": dropout > 0,
            "THRESHOLD": round((1.0 - dropout) * 2.0**32),
            "SCALE": 1.0 / (1.0 - dropout) if 0 < dropout < 1 else 0.0,
        }
        self.acc = spmm_gpu.accumulated(x.dtype)
        self.wide = torch.promote_types(x.dtype, torch.float32)
        self.sizes = (self.num_rows, self.heads, self.channels)

    def scratch(self, width: int) -> Tensor:
        """Room for the parts of long rows."""
        return torch.empty(max(self.num_chunks, 1), width, dtype=self.wide, device=self.rowptr.device)

    def run(
        self, kernel: Any, *arguments: Any, width: int, num_parts: int | None = None, **numbers: Any
    ) -> None:
        """A flat pass: every part of a row (or num_parts chunks) by every block of its `width` numbers."""
        block_e, block_k, warps = spmm_gpu.blocks(width)
        grid = (
            self.num_rows + self.num_chunks if num_parts is None else num_parts,
            triton.cdiv(width, block_k),
        )
        numbers |= {"SPLIT": spmm_gpu.SPLIT, "ACC": self.acc, "BLOCK_E": block_e, "BLOCK_K": block_k}
        spmm_gpu.launch(kernel, grid, self.rowptr, *arguments, num_warps=warps, **numbers)

    def run_by_head(self, kernel: Any, *arguments: Any, **numbers: Any) -> None:
        """A pass by head: every part of a row by every block of heads."""
        block_c = min(triton.next_power_of_2(self.channels), WIDEST_BLOCK)
        block_h = min(triton.next_power_of_2(self.heads), WIDEST_BLOCK // block_c)
        grid = (self.num_rows + self.num_chunks, triton.cdiv(self.heads, block_h))
        numbers |= {"SPLIT": spmm_gpu.SPLIT, "ACC": self.acc}
        numbers |= {"BLOCK_E": TILE // (block_c * block_h), "BLOCK_H": block_h, "BLOCK_C": block_c}
        spmm_gpu.launch(kernel, grid, self.rowptr, self.col, *arguments, *self.sizes, num_warps=2, **numbers)

    def join(self, out: Tensor, scratch: Tensor) -> None:
        """Adds up the parts of long rows, where there can be any."""
        if self.num_chunks:
            flat = out.view(self.num_rows, -1)
            spmm_gpu.combine(SUM, self.rowptr, flat, flat, flat, scratch)


def gat(
    x: Tensor, a_src: Tensor, a_dst: Tensor, rowptr: Tensor, col: Tensor, **kept: Any
) -> tuple[Tensor, Tensor]:
    """(out [num_rows, heads, channels], stats [num_rows, 2, heads]). kept: slope, dropout and seed."""
    sweep = Sweep(x, rowptr, col, **kept)
    out = x.new_empty(sweep.sizes)
    stats = a_src.new_zeros(sweep.num_rows, 2, sweep.heads)
    if not sweep.is_empty:
        scratch = sweep.scratch(3 * sweep.width)
        sweep.run(
            gpu_gat.forward,
            *(col, a_src, a_dst, x, sweep.seed, out, stats, scratch, *sweep.sizes),
            width=sweep.width,
            **sweep.slope,
            **sweep.dropout,
        )
        if sweep.num_chunks:
            arguments = (out, stats, scratch, *sweep.sizes)
            sweep.run(gpu_gat.combine, *arguments, width=sweep.width, num_parts=sweep.num_chunks)
    return out, stats


def gat_grad(
    grad: Tensor,
    x: Tensor,
    a_src: Tensor,
    a_dst: Tensor,
    matrix: tuple[Tensor, Tensor, Tensor, Tensor, Tensor],
    out: Tensor,
    stats: Tensor,
    **kept: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients to x, a_src and a_dst. matrix: rowptr, col, rowptr_t, col_t and perm."""
    rowptr, col, rowptr_t, col_t, perm = matrix
    sweep, sweep_t = Sweep(x, rowptr, col, **kept), Sweep(x, rowptr_t, col_t, **kept)
    dx, da_src, da_dst = torch.zeros_like(x), torch.zeros_like(a_src), torch.zeros_like(a_dst)
    if sweep.is_empty or sweep_t.is_empty:
        return dx, da_src, da_dst
    dz = stats.new_empty(col.numel(), sweep.heads)
    scratch = sweep.scratch(sweep.heads)
    sweep.run_by_head(
        gpu_passes.entry_gradients,
        *(a_src, a_dst, stats, stats, stats, x, out, grad, sweep.seed, dz, da_dst, scratch),
        IS_GATV2=False,
        **sweep.slope,
        **sweep.dropout,
    )
    sweep.join(da_dst, scratch)
    scratch = sweep_t.scratch(sweep.width)
    sweep_t.run(
        gpu_gat.source_gradient,
        *(col_t, perm, a_src, a_dst, stats, grad, sweep.seed, dx, scratch, *sweep_t.sizes),
        width=sweep.width,
        **sweep.slope,
        **sweep.dropout,
    )
    sweep_t.join(dx, scratch)
    return dx, spmm_gpu.spmm(dz, rowptr_t, perm, None, "sum"), da_dst


def gatv2(
    x_l: Tensor, x_r: Tensor, att: Tensor, rowptr: Tensor, col: Tensor, **kept: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """(out [num_rows, heads, channels], w [num_entries, heads], 1 / s [num_rows, heads])."""
    sweep = Sweep(x_l, rowptr, col, **kept)
    out = x_l.new_empty(sweep.sizes)
    weight = att.new_zeros(col.numel(), sweep.heads)
    sums = att.new_zeros(sweep.num_rows, sweep.heads)
    if not sweep.is_empty:
        sweep.run_by_head(gpu_gatv2.scores, x_l, x_r, att, weight, **sweep.slope)
        highest = spmm_gpu.spmm(weight, rowptr, None, None, "max")
        scratch = sweep.scratch(sweep.heads)
        sweep.run(
            gpu_gatv2.weigh,
            *(highest, weight, sums, scratch, sweep.num_rows, sweep.heads),
            width=sweep.heads,
        )
        sweep.join(sums, scratch)
        sums = torch.where(sums == 0, sums, sums.reciprocal())
        scratch = sweep.scratch(sweep.width)
        sweep.run(
            gpu_gatv2.weighted_sum,
            *(col, x_l, weight, sums, sweep.seed, out, scratch, *sweep.sizes),
            width=sweep.width,
            **sweep.dropout,
        )
        sweep.join(out, scratch)
    return out, weight, sums


def gatv2_grad(
    grad: Tensor,
    x_l: Tensor,
    x_r: Tensor,
    att: Tensor,
    matrix: tuple[Tensor, Tensor, Tensor, Tensor, Tensor],
    out: Tensor,
    weight: Tensor,
    shares: Tensor,
    **kept: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients to x_l, x_r and att. matrix: rowptr, col, rowptr_t, col_t and perm."""
    rowptr, col, rowptr_t, col_t, perm = matrix
    sweep, sweep_t = Sweep(x_l, rowptr, col, **kept), Sweep(x_l, rowptr_t, col_t, **kept)
    dx_l, dx_r = torch.zeros_like(x_l), torch.zeros_like(x_r)
    if sweep.is_empty or sweep_t.is_empty:
        return dx_l, dx_r, torch.zeros_like(att)
    ds = weight.new_empty(col.numel(), sweep.heads)
    sweep.run_by_head(
        gpu_passes.entry_gradients,
        *(shares, shares, shares, weight, shares, x_l, out, grad, sweep.seed, ds, shares, shares),
        IS_GATV2=True,
        **sweep.slope,
        **sweep.dropout,
    )
    # att's gradient is a sum over all rows: each part leaves its own, as many numbers as x_r has, and torch adds them up.
    datt_of = weight.new_zeros(sweep.num_rows + sweep.num_chunks, sweep.width)
    scratch = sweep.scratch(sweep.width)
    sweep.run(
        gpu_gatv2.target_gradient,
        *(col, x_l, x_r, att, ds, dx_r, datt_of, scratch, *sweep.sizes),
        width=sweep.width,
        **sweep.slope,
    )
    sweep.join(dx_r, scratch)
    scratch = sweep_t.scratch(sweep.width)
    sweep_t.run(
        gpu_gatv2.source_gradient,
        *(col_t, perm, x_l, x_r, att, weight, shares, ds, grad, sweep.seed, dx_l, scratch),
        *sweep_t.sizes,
        width=sweep.width,
        **sweep.slope,
        **sweep.dropout,
    )
    sweep_t.join(dx_l, scratch)
    return dx_l, dx_r, datt_of.sum(0).view_as(att)
