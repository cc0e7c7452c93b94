"""The passes of GATv2 in Triton; the formulas are those of gatv2_passes.py, the programs those of gpu_passes.py."""

from __future__ import annotations

import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]

from fasthop.kernels.segment_softmax.gpu_passes import gated, keep, leaky
from fasthop.kernels.spmm.gpu_passes import NOWHERE, OUT, part_of


@triton.jit
def scores(
    rowptr,
    col,
    x_l,
    x_r,
    att,
    score,
    num_rows,
    heads,
    channels,
    SLOPE: tl.constexpr,
    SPLIT: tl.constexpr,
    BLOCK_E: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_C: tl.constexpr,
    ACC: tl.constexpr,
):
    """score[e, h] = att[h] . leaky(x_l[j, h] + x_r[i, h]). By head."""
    part = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1).to(tl.int64) * BLOCK_H + tl.arange(0, BLOCK_H)
    has_head = head < heads
    row, start, stop, slot = part_of(rowptr, num_rows, part, SPLIT)
    if slot != NOWHERE:
        for first in range(start, stop, BLOCK_E):
            entry = first + tl.arange(0, BLOCK_E)
            is_entry = entry < stop
            mask = is_entry[:, None] & has_head[None, :]
            j = tl.load(col + entry, mask=is_entry, other=0).to(tl.int64)
            total = tl.zeros((BLOCK_E, BLOCK_H), ACC)
            for first_channel in range(0, channels, BLOCK_C):
                channel = first_channel + tl.arange(0, BLOCK_C)
                is_channel = (channel < channels)[None, None, :]
                at = head[None, :, None] * channels + channel[None, None, :]
                mine = has_head[None, :, None] & is_channel
                factor = tl.load(att + at, mask=mine, other=0.0)
                right = tl.load(x_r + row * heads * channels + at, mask=mine, other=0.0).to(ACC)
                left = tl.load(
                    x_l + j[:, None, None] * heads * channels + at,
                    mask=mask[:, :, None] & is_channel,
                    other=0.0,
                ).to(ACC)
                total += tl.sum(factor * leaky(left + right, SLOPE), 2)
            tl.store(score + entry[:, None] * heads + head[None, :], total, mask=mask)


@triton.jit
def weigh(
    rowptr,
    highest,
    weight,
    sums,
    scratch,
    num_rows,
    heads,
    SPLIT: tl.constexpr,
    BLOCK_E: tl.constexpr,
    BLOCK_K: tl.constexpr,
    ACC: tl.constexpr,
):
    """weight[e] = exp(weight[e] - highest[i]) in place, and its sum over each row; parts of long rows to scratch."""
    part = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1).to(tl.int64) * BLOCK_K + tl.arange(0, BLOCK_K)
    has_head = head < heads
    row, start, stop, slot = part_of(rowptr, num_rows, part, SPLIT)
    if slot != NOWHERE:
        top = tl.load(highest + row * heads + head, mask=has_head, other=0.0)[None, :]
        total = tl.zeros((BLOCK_E, BLOCK_K), ACC)
        for first in range(start, stop, BLOCK_E):
            entry = first + tl.arange(0, BLOCK_E)
            mask = (entry < stop)[:, None] & has_head[None, :]
            at = weight + entry[:, None] * heads + head[None, :]
            w = tl.where(mask, tl.exp(tl.load(at, mask=mask, other=0.0) - top), 0.0)
            tl.store(at, w, mask=mask)
            total += w
        whole = tl.sum(total, 0)
        if slot == OUT:
            tl.store(sums + row * heads + head, whole, mask=has_head)
        else:
            tl.store(scratch + slot * heads + head, whole, mask=has_head)


@triton.jit
def weighted_sum(
    rowptr,
    col,
    x_l,
    weight,
    shares,
    seed,
    out,
    scratch,
    num_rows,
    heads,
    channels,
    THRESHOLD: tl.constexpr,
    SCALE: tl.constexpr,
    IS_DROPPED: tl.constexpr,
    SPLIT: tl.constexpr,
    BLOCK_E: tl.constexpr,
    BLOCK_K: tl.constexpr,
    ACC: tl.constexpr,
):
    """out[i] = shares[i] sum d weight[e] x_l[j]; parts of long rows to scratch. Flat."""
    part = tl.program_id(0).to(tl.int64)
    k = tl.program_id(1).to(tl.int64) * BLOCK_K + tl.arange(0, BLOCK_K)
    width = heads * channels
    inside = k < width
    head = k // channels
    row, start, stop, slot = part_of(rowptr, num_rows, part, SPLIT)
    if slot != NOWHERE:
        total = tl.zeros((BLOCK_E, BLOCK_K), ACC)
        for first in range(start, stop, BLOCK_E):
            entry = first + tl.arange(0, BLOCK_E)
            is_entry = entry < stop
            mask = is_entry[:, None] & inside[None, :]
            j = tl.load(col + entry, mask=is_entry, other=0).to(tl.int64)[:, None]
            w = tl.load(weight + entry[:, None] * heads + head[None, :], mask=mask, other=0.0)
            if IS_DROPPED:
                w *= keep(seed, entry, head, THRESHOLD, SCALE, ACC)
            total += w * tl.load(x_l + j * width + k[None, :], mask=mask, other=0.0).to(ACC)
        whole = tl.sum(total, 0) * tl.load(shares + row * heads + head, mask=inside, other=0.0)
        if slot == OUT:
            tl.store(out + row * width + k, whole.to(out.dtype.element_ty), mask=inside)
        else:
            tl.store(scratch + slot * width + k, whole, mask=inside)


@triton.jit
def target_gradient(
    rowptr,
    col,
    x_l,
    x_r,
    att,
    ds,
    dx_r,
    datt_of,
    scratch,
    num_rows,
    heads,
    channels,
    SLOPE: tl.constexpr,
    SPLIT: tl.constexpr,
    BLOCK_E: tl.constexpr,
    BLOCK_K: tl.constexpr,
    ACC: tl.constexpr,
):
    """dx_r[i] = att sum ds leaky'(u); datt_of [rows + chunks, heads x channels]: each part's sum of ds leaky(u). Flat."""
    part = tl.program_id(0).to(tl.int64)
    k = tl.program_id(1).to(tl.int64) * BLOCK_K + tl.arange(0, BLOCK_K)
    width = heads * channels
    inside = k < width
    head = k // channels
    row, start, stop, slot = part_of(rowptr, num_rows, part, SPLIT)
    if slot != NOWHERE:
        right = tl.load(x_r + row * width + k, mask=inside, other=0.0).to(ACC)[None, :]
        total = tl.zeros((BLOCK_E, BLOCK_K), ACC)
        for_att = tl.zeros((BLOCK_E, BLOCK_K), ACC)
        for first in range(start, stop, BLOCK_E):
            entry = first + tl.arange(0, BLOCK_E)
            is_entry = entry < stop
            mask = is_entry[:, None] & inside[None, :]
            j = tl.load(col + entry, mask=is_entry, other=0).to(tl.int64)[:, None]
            u = tl.load(x_l + j * width + k[None, :], mask=mask, other=0.0).to(ACC) + right
            mine = tl.load(ds + entry[:, None] * heads + head[None, :], mask=mask, other=0.0)
            total += gated(u, mine, SLOPE)
            for_att += mine * leaky(u, SLOPE)
        whole = tl.sum(total, 0) * tl.load(att + k, mask=inside, other=0.0)
        if slot == OUT:
            tl.store(dx_r + row * width + k, whole.to(dx_r.dtype.element_ty), mask=inside)
            tl.store(datt_of + row * width + k, tl.sum(for_att, 0), mask=inside)
        else:
            tl.store(scratch + slot * width + k, whole, mask=inside)
            tl.store(datt_of + (num_rows + slot) * width + k, tl.sum(for_att, 0), mask=inside)


@triton.jit
def source_gradient(
    rowptr_t,
    col_t,
    perm,
    x_l,
    x_r,
    att,
    weight,
    shares,
    ds,
    grad,
    seed,
    dx_l,
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
    """Of the transpose: dx_l[j] = sum d p g[i] + att sum ds leaky'(u); parts of long columns to scratch. Flat."""
    part = tl.program_id(0).to(tl.int64)
    k = tl.program_id(1).to(tl.int64) * BLOCK_K + tl.arange(0, BLOCK_K)
    width = heads * channels
    inside = k < width
    head = k // channels
    column, start, stop, slot = part_of(rowptr_t, num_cols, part, SPLIT)
    if slot != NOWHERE:
        left = tl.load(x_l + column * width + k, mask=inside, other=0.0).to(ACC)[None, :]
        total = tl.zeros((BLOCK_E, BLOCK_K), ACC)
        through_score = tl.zeros((BLOCK_E, BLOCK_K), ACC)
        for first in range(start, stop, BLOCK_E):
            entry = first + tl.arange(0, BLOCK_E)
            is_entry = entry < stop
            mask = is_entry[:, None] & inside[None, :]
            i = tl.load(col_t + entry, mask=is_entry, other=0).to(tl.int64)[:, None]
            place = tl.load(perm + entry, mask=is_entry, other=0).to(tl.int64)
            at = place[:, None] * heads + head[None, :]
            alpha = tl.load(weight + at, mask=mask, other=0.0)
            alpha *= tl.load(shares + i * heads + head[None, :], mask=mask, other=0.0)
            if IS_DROPPED:
                alpha *= keep(seed, place, head, THRESHOLD, SCALE, ACC)
            u = left + tl.load(x_r + i * width + k[None, :], mask=mask, other=0.0).to(ACC)
            through_score += gated(u, tl.load(ds + at, mask=mask, other=0.0), SLOPE)
            total += alpha * tl.load(grad + i * width + k[None, :], mask=mask, other=0.0).to(ACC)
        factor = tl.load(att + k, mask=inside, other=0.0)
        whole = tl.sum(total, 0) + factor * tl.sum(through_score, 0)
        if slot == OUT:
            tl.store(dx_l + column * width + k, whole.to(dx_l.dtype.element_ty), mask=inside)
        else:
            tl.store(scratch + slot * width + k, whole, mask=inside)
