"""The passes of GAT in Triton; the formulas are those of gat_passes.py, the programs those of gpu_passes.py."""

from __future__ import annotations

import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]

from fasthop.kernels.segment_softmax.gpu_passes import keep, leaky
from fasthop.kernels.spmm.gpu_passes import NOWHERE, OUT, divided, long_row_of, part_of


@triton.jit
def finish(highest, weights, total, rowptr, out, stats, row, heads, channels, k, inside):
    """A whole row's output, largest score and 1 / sum, the latter two by the first channel of each head."""
    count = tl.load(rowptr + row + 1) - tl.load(rowptr + row)
    share = tl.where(count > 0, divided(tl.zeros_like(weights) + 1.0, weights), 0.0)
    highest = tl.where(count > 0, highest, 0.0)
    result = tl.where(count > 0, total * share, 0.0)
    tl.store(out + row * heads * channels + k, result.to(out.dtype.element_ty), mask=inside)
    is_first = inside & (k % channels == 0)
    tl.store(stats + row * 2 * heads + k // channels, highest, mask=is_first)
    tl.store(stats + (row * 2 + 1) * heads + k // channels, share, mask=is_first)


@triton.jit
def forward(
    rowptr,
    col,
    a_src,
    a_dst,
    x,
    seed,
    out,
    stats,
    scratch,
    num_rows,
    heads,
    channels,
    SLOPE: tl.constexpr,
    THRESHOLD: tl.constexpr,
    SCALE: tl.constexpr,
    IS_DROPPED: tl.constexpr,
    SPLIT: tl.constexpr,
    BLOCK_E: tl.constexpr,
    BLOCK_K: tl.constexpr,
    ACC: tl.constexpr,
):
    """out and stats [rows, 2, heads]; a part of a long row leaves its own largest score, sum and total in
    scratch [chunks, 3, heads x channels]. Flat."""
    part = tl.program_id(0).to(tl.int64)
    k = tl.program_id(1).to(tl.int64) * BLOCK_K + tl.arange(0, BLOCK_K)
    width = heads * channels
    inside = k < width
    head = k // channels
    row, start, stop, slot = part_of(rowptr, num_rows, part, SPLIT)
    if slot != NOWHERE:
        mine = tl.load(a_dst + row * heads + head, mask=inside, other=0.0)[None, :]
        highest = tl.zeros((BLOCK_E, BLOCK_K), ACC) + float("-inf")
        for first in range(start, stop, BLOCK_E):
            entry = first + tl.arange(0, BLOCK_E)
            mask = (entry < stop)[:, None] & inside[None, :]
            j = tl.load(col + entry, mask=entry < stop, other=0).to(tl.int64)
            z = tl.load(a_src + j[:, None] * heads + head[None, :], mask=mask, other=0.0) + mine
            score = tl.where(mask, leaky(z, SLOPE), float("-inf"))
            highest = tl.where(score > highest, score, highest)
        top = tl.max(highest, 0)
        # A part whose scores are all -inf weighs nothing beside the others, where exp(-inf - -inf) would not be a number.
        base = tl.where(top == float("-inf"), 0.0, top)[None, :]
        weights = tl.zeros((BLOCK_E, BLOCK_K), ACC)
        total = tl.zeros((BLOCK_E, BLOCK_K), ACC)
        for first in range(start, stop, BLOCK_E):
            entry = first + tl.arange(0, BLOCK_E)
            mask = (entry < stop)[:, None] & inside[None, :]
            j = tl.load(col + entry, mask=entry < stop, other=0).to(tl.int64)
            z = tl.load(a_src + j[:, None] * heads + head[None, :], mask=mask, other=0.0) + mine
            w = tl.where(mask, tl.exp(leaky(z, SLOPE) - base), 0.0)
            weights += w
            if IS_DROPPED:
                w *= keep(seed, entry, head, THRESHOLD, SCALE, ACC)
            total += w * tl.load(x + j[:, None] * width + k[None, :], mask=mask, other=0.0).to(ACC)
        sum_w, sum_x = tl.sum(weights, 0), tl.sum(total, 0)
        if slot == OUT:
            finish(top, sum_w, sum_x, rowptr, out, stats, row, heads, channels, k, inside)
        else:
            at = slot * 3 * width + k
            tl.store(scratch + at, top, mask=inside)
            tl.store(scratch + at + width, sum_w, mask=inside)
            tl.store(scratch + at + 2 * width, sum_x, mask=inside)


@triton.jit
def combine(
    rowptr,
    out,
    stats,
    scratch,
    num_rows,
    heads,
    channels,
    SPLIT: tl.constexpr,
    BLOCK_E: tl.constexpr,
    BLOCK_K: tl.constexpr,
    ACC: tl.constexpr,
):
    """The parts of each long row, every one scaled from its own largest score to the row's."""
    chunk = tl.program_id(0).to(tl.int64)
    k = tl.program_id(1).to(tl.int64) * BLOCK_K + tl.arange(0, BLOCK_K)
    width = heads * channels
    inside = k < width
    row, is_first, last = long_row_of(rowptr, num_rows, chunk, SPLIT)
    if is_first:
        highest = tl.zeros((BLOCK_E, BLOCK_K), ACC) + float("-inf")
        for first in range(chunk, last + 1, BLOCK_E):
            part = first + tl.arange(0, BLOCK_E)
            mask = (part <= last)[:, None] & inside[None, :]
            own = tl.load(scratch + part[:, None] * 3 * width + k[None, :], mask=mask, other=float("-inf"))
            highest = tl.where(own > highest, own, highest)
        top = tl.max(highest, 0)
        base = tl.where(top == float("-inf"), 0.0, top)[None, :]
        weights = tl.zeros((BLOCK_E, BLOCK_K), ACC)
        total = tl.zeros((BLOCK_E, BLOCK_K), ACC)
        for first in range(chunk, last + 1, BLOCK_E):
            part = first + tl.arange(0, BLOCK_E)
            mask = (part <= last)[:, None] & inside[None, :]
            at = scratch + part[:, None] * 3 * width + k[None, :]
            scale = tl.exp(tl.load(at, mask=mask, other=float("-inf")) - base)
            weights += scale * tl.load(at + width, mask=mask, other=0.0)
            total += scale * tl.load(at + 2 * width, mask=mask, other=0.0)
        finish(top, tl.sum(weights, 0), tl.sum(total, 0), rowptr, out, stats, row, heads, channels, k, inside)


@triton.jit
def source_gradient(
    rowptr_t,
    col_t,
    perm,
    a_src,
    a_dst,
    stats,
    grad,
    seed,
    dx,
    scratch,
    num_cols,
    heads,
    channels,
    SLOPE: tl.constexpr,
    THRESHOLD: tl.constexpr,
    SCALE: tl.constexpr,
    IS_DROPPED: tl.constexpr,
    SPLIT: tl.constexpr,
    BLOCK_E: tl.constexpr,
    BLOCK_K: tl.constexpr,
    ACC: tl.constexpr,
):
    """Of the transpose: dx[j] = sum d p g[i], p computed anew; parts of long columns to scratch. Flat."""
    part = tl.program_id(0).to(tl.int64)
    k = tl.program_id(1).to(tl.int64) * BLOCK_K + tl.arange(0, BLOCK_K)
    width = heads * channels
    inside = k < width
    head = k // channels
    column, start, stop, slot = part_of(rowptr_t, num_cols, part, SPLIT)
    if slot != NOWHERE:
        mine = tl.load(a_src + column * heads + head, mask=inside, other=0.0)[None, :]
        total = tl.zeros((BLOCK_E, BLOCK_K), ACC)
        for first in range(start, stop, BLOCK_E):
            entry = first + tl.arange(0, BLOCK_E)
            is_entry = entry < stop
            mask = is_entry[:, None] & inside[None, :]
            i = tl.load(col_t + entry, mask=is_entry, other=0).to(tl.int64)[:, None]
            z = mine + tl.load(a_dst + i * heads + head[None, :], mask=mask, other=0.0)
            highest = tl.load(stats + i * 2 * heads + head[None, :], mask=mask, other=0.0)
            share = tl.load(stats + (i * 2 + 1) * heads + head[None, :], mask=mask, other=0.0)
            alpha = tl.where(mask, tl.exp(leaky(z, SLOPE) - highest) * share, 0.0)
            if IS_DROPPED:
                place = tl.load(perm + entry, mask=is_entry, other=0).to(tl.int64)
                alpha *= keep(seed, place, head, THRESHOLD, SCALE, ACC)
            total += alpha * tl.load(grad + i * width + k[None, :], mask=mask, other=0.0).to(ACC)
        whole = tl.sum(total, 0)
        if slot == OUT:
            tl.store(dx + column * width + k, whole.to(dx.dtype.element_ty), mask=inside)
        else:
            tl.store(scratch + slot * width + k, whole, mask=inside)
