"""What GAT's and GATv2's passes share on a GPU, in Triton: the formulas of gat_passes.py and gatv2_passes.py.

Two kinds of programs, both over parts of rows as in spmm's gpu_passes.py (hubs shared, no atomics, nothing waits). A *flat*
one takes a block of the row [heads x channels] as it lies in memory, and computes each channel's score anew: the loads
of one head's number by its channels are one load, and exp is cheap beside the gather. One *by head* takes a tile [entries,
heads, channels], padded to powers of two, where a sum over a head's channels is needed.
"""

from __future__ import annotations

import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]

from fasthop.kernels.sample.gpu_draw import entry_bits, key_of
from fasthop.kernels.spmm.gpu_passes import NOWHERE, OUT, part_of


@triton.jit
def leaky(z, SLOPE: tl.constexpr):
    """z where z > 0, else SLOPE * z."""
    return tl.where(z > 0, z, z * SLOPE)


@triton.jit
def gated(z, a, SLOPE: tl.constexpr):
    """a where z > 0, else SLOPE * a: leaky's gradient."""
    return tl.where(z > 0, a, a * SLOPE)


@triton.jit
def keep(seed, entry, head, THRESHOLD: tl.constexpr, SCALE: tl.constexpr, ACC: tl.constexpr):
    """The factor that dropout gives each entry [e] and head [h]: [e, h]; see heads.keep."""
    bits = entry_bits(key_of(seed), entry)
    low = (bits & 0xFFFFFFFF).to(tl.uint32)[:, None]
    high = (bits >> 32).to(tl.uint32)[:, None]
    v = low + head.to(tl.uint32)[None, :] * 0x9E3779B9
    v = (v ^ (v >> 16)) * 0x85EBCA6B
    v = (v ^ (v >> 13)) * 0xC2B2AE35
    v = v ^ (v >> 16) ^ high
    # Added to a zero of the wide type: a bare number would be a float32.
    stays = tl.zeros_like(v).to(ACC) + SCALE
    return tl.where(v.to(tl.int64) < THRESHOLD, stays, 0.0)


@triton.jit
def dot_by_head(a, b, at, has_head, channels, BLOCK_C: tl.constexpr, ACC: tl.constexpr):
    """[heads]: the sum over a head's channels of a * b, whose heads start at `at` [heads]."""
    total = tl.zeros_like(at).to(ACC)
    for first in range(0, channels, BLOCK_C):
        channel = first + tl.arange(0, BLOCK_C)
        mask = has_head[:, None] & (channel < channels)[None, :]
        place = at[:, None] + channel[None, :]
        p = tl.load(a + place, mask=mask, other=0.0).to(ACC)
        q = tl.load(b + place, mask=mask, other=0.0).to(ACC)
        total += tl.sum(p * q, 1)
    return total


@triton.jit
def entry_gradients(
    rowptr,
    col,
    a_src,
    a_dst,
    stats,
    weight,
    shares,
    x,
    out,
    grad,
    seed,
    ds,
    d_dst,
    scratch,
    num_rows,
    heads,
    channels,
    IS_GATV2: tl.constexpr,
    SLOPE: tl.constexpr,
    THRESHOLD: tl.constexpr,
    SCALE: tl.constexpr,
    IS_DROPPED: tl.constexpr,
    SPLIT: tl.constexpr,
    BLOCK_E: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_C: tl.constexpr,
    ACC: tl.constexpr,
):
    """The gradient to each entry's score: ds = p (d g[i] . x[j] - g[i] . out[i]): [entries, heads], by head.

    GAT: p from a_src, a_dst and stats; ds is dz, the slope's factor in it, and its sum over each row goes to d_dst
    (parts of long rows to scratch [chunks, heads]). GATv2: p = weight * shares.
    """
    part = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1).to(tl.int64) * BLOCK_H + tl.arange(0, BLOCK_H)
    has_head = head < heads
    row, start, stop, slot = part_of(rowptr, num_rows, part, SPLIT)
    if slot != NOWHERE:
        at_row = row * heads * channels + head * channels
        delta = dot_by_head(grad, out, at_row, has_head, channels, BLOCK_C, ACC)[None, :]
        if IS_GATV2:
            share = tl.load(shares + row * heads + head, mask=has_head, other=0.0)[None, :]
        else:
            mine = tl.load(a_dst + row * heads + head, mask=has_head, other=0.0)[None, :]
            highest = tl.load(stats + row * 2 * heads + head, mask=has_head, other=0.0)[None, :]
            share = tl.load(stats + (row * 2 + 1) * heads + head, mask=has_head, other=0.0)[None, :]
        total = tl.zeros((BLOCK_E, BLOCK_H), ACC)
        for first in range(start, stop, BLOCK_E):
            entry = first + tl.arange(0, BLOCK_E)
            is_entry = entry < stop
            mask = is_entry[:, None] & has_head[None, :]
            j = tl.load(col + entry, mask=is_entry, other=0).to(tl.int64)
            along = tl.zeros((BLOCK_E, BLOCK_H), ACC)
            for first_channel in range(0, channels, BLOCK_C):
                channel = first_channel + tl.arange(0, BLOCK_C)
                is_channel = (channel < channels)[None, None, :]
                at = (
                    j[:, None, None] * heads * channels
                    + head[None, :, None] * channels
                    + channel[None, None, :]
                )
                tile = tl.load(x + at, mask=mask[:, :, None] & is_channel, other=0.0).to(ACC)
                at = at_row[None, :, None] + channel[None, None, :]
                g = tl.load(grad + at, mask=has_head[None, :, None] & is_channel, other=0.0).to(ACC)
                along += tl.sum(tile * g, 2)
            at = entry[:, None] * heads + head[None, :]
            if IS_GATV2:
                p = tl.load(weight + at, mask=mask, other=0.0) * share
            else:
                z = tl.load(a_src + j[:, None] * heads + head[None, :], mask=mask, other=0.0) + mine
                p = tl.exp(leaky(z, SLOPE) - highest) * share
            if IS_DROPPED:
                along *= keep(seed, entry, head, THRESHOLD, SCALE, ACC)
            mine_ds = p * (along - delta)
            if not IS_GATV2:
                mine_ds = gated(z, mine_ds, SLOPE)
            mine_ds = tl.where(mask, mine_ds, 0.0)
            tl.store(ds + at, mine_ds, mask=mask)
            total += mine_ds
        if not IS_GATV2:
            whole = tl.sum(total, 0)
            if slot == OUT:
                tl.store(d_dst + row * heads + head, whole, mask=has_head)
            else:
                tl.store(scratch + slot * heads + head, whole, mask=has_head)
