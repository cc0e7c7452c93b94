"""Attention and its gradients on the CPU: tensors in, one compiled pass after another, tensors out.

Nothing here is checked: op.py checks shapes and dtypes, adjacency.py the indices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fasthop.kernels.sample.draw import draw_key
from fasthop.kernels.segment_softmax import gat_passes, gatv2_passes, job
from fasthop.kernels.segment_softmax.job import Shape
from fasthop.kernels.spmm import team
from fasthop.kernels.spmm.cpu import CHUNKS_PER_THREAD, TEAM_FROM
from fasthop.kernels.spmm.lanes import MAX_REGISTERS, REGISTER_BYTES

# Parts of att's gradient, whatever the number of threads, so that its bits do not depend on it.
NUM_PARTS = 32
_KINDS = {torch.float32: "float32", torch.float64: "float64", torch.bfloat16: "uint16"}


def accumulated(dtype: torch.dtype) -> torch.dtype:
    """The dtype that attention over x of `dtype` computes in: float32 for bfloat16, else the same."""
    return torch.promote_types(dtype, torch.float32)


class Sweep:
    """A matrix by rows (or its transpose), and how attention over it computes: what all passes over it share."""

    def __init__(
        self,
        x: Tensor,
        rowptr: Tensor,
        col: Tensor,
        perm: Tensor | None,
        *,
        slope: float,
        dropout: float,
        seed: Tensor | None,
        num_threads: int | None = None,
    ) -> None:
        """x: [num_cols, heads, channels], for its dtype and shape. perm: where the entries of a transpose are in the matrix."""
        self.x, self.rowptr, self.col, self.perm = x, rowptr, col, perm
        self.num_entries, (self.heads, self.channels) = col.numel(), x.shape[1:]
        if num_threads is None:
            little = self.num_entries * self.heads * self.channels < TEAM_FROM
            num_threads = 1 if little else torch.get_num_threads()
        self.num_threads = num_threads
        self.is_dropped = dropout > 0
        # Neighbouring seeds must not give shifted masks: the seed is hashed before places are added.
        self.key = draw_key(int(seed)) if seed is not None else 0
        self.threshold = round((1.0 - dropout) * 2.0**32)
        self.reals = np.array([slope, 1.0 / (1.0 - dropout) if dropout < 1 else 0.0])

    def run(
        self,
        make: Callable[[Shape], Any],
        *tensors: Tensor,
        num_registers: int,
        num_parts: int | None = None,
        parts: Tensor | None = None,
    ) -> None:
        """Runs a pass over all heads, a block of them at a time, that fill at most num_registers registers of a row.

        tensors: what the pass calls A, B, ... num_parts: a fixed number of chunks, and `parts` where each puts its part.
        """
        num_rows = self.rowptr.numel() - 1
        if num_rows == 0 or self.heads * self.channels == 0:
            return
        words = np.zeros(job.NUM_WORDS, np.int64)
        words[job.NUM_CHUNKS] = num_parts or (
            1 if self.num_threads == 1 else min(num_rows, self.num_threads * CHUNKS_PER_THREAD)
        )
        words[job.NUM_ROWS : job.FIRST_HEAD] = (
            num_rows,
            self.num_entries,
            self.heads * self.channels,
            self.heads,
        )
        words[job.KEY : job.KEY + 1].view(np.uint64)[0] = self.key
        words[job.THRESHOLD], words[job.REALS] = self.threshold, self.reals.ctypes.data
        words[job.ROWPTR : job.PERM] = self.rowptr.data_ptr(), self.col.data_ptr()
        last = self.perm if parts is None else parts
        words[job.PERM] = 0 if last is None else last.data_ptr()
        words[job.A : job.A + len(tensors)] = [tensor.data_ptr() for tensor in tensors]
        per_register = REGISTER_BYTES // accumulated(self.x.dtype).itemsize
        at_once = max(1, num_registers * per_register // self.channels)
        for first_head in range(0, self.heads, at_once):
            shape = Shape(
                kind=_KINDS[self.x.dtype],
                col_kind="int32" if self.col.dtype == torch.int32 else "int64",
                perm_kind="int64" if self.perm is not None and self.perm.dtype == torch.int64 else "int32",
                heads=min(at_once, self.heads - first_head),
                channels=self.channels,
                is_dropped=self.is_dropped,
            )
            words[job.COUNTER] = 0
            words[job.FIRST_HEAD : job.KEY] = first_head, first_head * self.channels
            team.run(job.compiled(make, shape), words.ctypes.data, self.num_threads)


def gat(sweep: Sweep, a_src: Tensor, a_dst: Tensor) -> tuple[Tensor, Tensor]:
    """(out [num_rows, heads, channels], stats [num_rows, 2, heads]); see gat_passes.py."""
    num_rows = sweep.rowptr.numel() - 1
    out = sweep.x.new_empty(num_rows, sweep.heads, sweep.channels)
    stats = a_src.new_empty(num_rows, 2, sweep.heads)
    sweep.run(gat_passes.forward, a_src, a_dst, sweep.x, out, stats, num_registers=MAX_REGISTERS)
    return out, stats


def gat_grad(
    sweep: Sweep, sweep_t: Sweep, a_src: Tensor, a_dst: Tensor, out: Tensor, stats: Tensor, grad: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients to x, a_src and a_dst. sweep_t: the same over the transpose, with its perm."""
    num_rows, half = stats.size(0), MAX_REGISTERS // 2
    packed = stats.new_empty(num_rows, 4, sweep.heads)
    sweep.run(gat_passes.pack, a_dst, stats, grad, out, packed, num_registers=half)
    dx, da_src = torch.empty_like(sweep.x), torch.empty_like(a_src)
    each = stats.new_empty(sweep.num_entries, sweep.heads)
    sweep_t.run(gat_passes.backward, a_src, packed, sweep.x, grad, dx, da_src, each, num_registers=half)
    da_dst = torch.empty_like(a_dst)
    sweep.run(gat_passes.sum_of_rows, each, da_dst, num_registers=half)
    return dx, da_src, da_dst


def gatv2(sweep: Sweep, x_r: Tensor, att: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(out [num_rows, heads, channels], w [num_entries, heads], 1 / s [num_rows, heads]); see gatv2_passes.py."""
    num_rows = sweep.rowptr.numel() - 1
    out = sweep.x.new_empty(num_rows, sweep.heads, sweep.channels)
    weight = att.new_empty(sweep.num_entries, sweep.heads)
    shares = att.new_empty(num_rows, sweep.heads)
    sweep.run(gatv2_passes.forward, sweep.x, x_r, att, out, weight, shares, num_registers=MAX_REGISTERS // 2)
    return out, weight, shares


def gatv2_grad(
    sweep: Sweep,
    sweep_t: Sweep,
    x_r: Tensor,
    att: Tensor,
    out: Tensor,
    weight: Tensor,
    shares: Tensor,
    grad: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients to x_l, x_r and att."""
    half = MAX_REGISTERS // 2
    pairs = att.new_empty(sweep.num_entries, 2, sweep.heads)
    parts = att.new_zeros(NUM_PARTS, sweep.heads, sweep.channels)
    dx_r, dx_l = torch.empty_like(x_r), torch.empty_like(sweep.x)
    sweep.run(
        gatv2_passes.by_row,
        *(sweep.x, x_r, att, grad, out, weight, shares, dx_r, pairs),
        num_registers=half,
        num_parts=NUM_PARTS,
        parts=parts,
    )
    sweep_t.run(gatv2_passes.by_column, sweep.x, x_r, att, grad, pairs, dx_l, num_registers=half)
    return dx_l, dx_r, parts.sum(0)
