"""The passes of rows.py in Triton: the same formulas, on a GPU.

A program takes one part of one row and one block of channels. The first num_rows programs take the rows' beginnings, up to
SPLIT entries past the next multiple of SPLIT; each later one the chunk [k SPLIT, (k + 1) SPLIT) of the entries, if a long row
covers it. So a hub is shared among many programs, how many there are at most follows from the shapes alone (nothing
waits for the device, and a CUDA graph can hold it), and each part of a long row writes to a place of its own in `scratch`,
which `combine` adds up in a fixed order: no atomics, the same bits every time.

Imported only where a kernel runs on a GPU: Triton comes with torch's CUDA wheels, and nothing else needs it. A function of
Triton's has one return, at its end: what follows a return inside an `if` is compiled all the same.
"""

# ruff: noqa: SIM109 (Triton compiles == on constants, and not every version `in`)

from __future__ import annotations

import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]

SUM: tl.constexpr = tl.constexpr(0)
MEAN: tl.constexpr = tl.constexpr(1)
MAX: tl.constexpr = tl.constexpr(2)
MIN: tl.constexpr = tl.constexpr(3)
SHARE: tl.constexpr = tl.constexpr(4)
EXTREMUM_BACK: tl.constexpr = tl.constexpr(5)

# Where a part's result goes.
OUT: tl.constexpr = tl.constexpr(-1)
NOWHERE: tl.constexpr = tl.constexpr(-2)


@triton.jit
def row_of(rowptr, num_rows, entry):
    """The row that holds an entry: the smallest i with rowptr[i + 1] > entry."""
    low = entry * 0
    high = low + num_rows - 1
    while low < high:
        middle = (low + high) // 2
        is_after = tl.load(rowptr + middle + 1) <= entry
        low = tl.where(is_after, middle + 1, low)
        high = tl.where(is_after, high, middle)
    return low


@triton.jit
def part_of(rowptr, num_rows, part, SPLIT: tl.constexpr):
    """(row, first entry, end, where the result goes: OUT, NOWHERE or a row of scratch)."""
    if part < num_rows:
        row = part
        start = tl.load(rowptr + row)
        end = tl.load(rowptr + row + 1)
        border = (start + SPLIT - 1) // SPLIT * SPLIT
        slot = tl.where(end > border + SPLIT, border // SPLIT, OUT)
        stop = tl.minimum(end, border + SPLIT)
    else:
        chunk = part - num_rows
        start = chunk * SPLIT
        row = row_of(rowptr, num_rows, start)
        border = (tl.load(rowptr + row) + SPLIT - 1) // SPLIT * SPLIT
        slot = tl.where(start >= border + SPLIT, chunk, NOWHERE)
        stop = tl.minimum(tl.load(rowptr + row + 1), start + SPLIT)
    return row, start, stop, slot


@triton.jit
def long_row_of(rowptr, num_rows, chunk, SPLIT: tl.constexpr):
    """(row, whether this chunk is the first of a long row, the last chunk of the row)."""
    row = row_of(rowptr, num_rows, chunk * SPLIT)
    end = tl.load(rowptr + row + 1)
    border = (tl.load(rowptr + row) + SPLIT - 1) // SPLIT * SPLIT
    is_first = (border == chunk * SPLIT) & (end > border + SPLIT)
    return row, is_first, (end - 1) // SPLIT


@triton.jit
def divided(a, b):
    """a / b, rounded to nearest: Triton's own division of float32 may be off by two units in the last place."""
    if a.dtype == tl.float64:
        quotient = a / b
    else:
        quotient = tl.div_rn(a, b)
    return quotient


@triton.jit
def message(factor, x, X: tl.constexpr, HAS_VALUE: tl.constexpr):
    """factor * x, rounded to the dtype X of x: the very number that PyG would keep for this edge."""
    if HAS_VALUE:
        x = (factor * x).to(X).to(x.dtype)
    return x


@triton.jit
def folded(tile, mask, PASS: tl.constexpr):
    """A tile [entries, channels] over its entries: the sum, or the largest, not-a-number where one is."""
    if PASS == MAX or PASS == MIN:
        tile = tl.where(mask, tile, float("-inf"))
        is_nan = tile != tile
        largest = tl.max(tl.where(is_nan, float("-inf"), tile), 0)
        whole = tl.where(tl.max(is_nan.to(tl.int32), 0) > 0, float("nan"), largest)
    else:
        whole = tl.sum(tile, 0)
    return whole


@triton.jit
def joined(total, tile, mask, PASS: tl.constexpr):
    """total and another tile of entries, entry by entry."""
    if PASS == MAX or PASS == MIN:
        tile = tl.where(mask, tile, float("-inf"))
        total = tl.where((tile > total) | (tile != tile), tile, total)
    else:
        total += tile
    return total


@triton.jit
def finish(total, rowptr, b, c, out, row, channels, channel, inside, PASS: tl.constexpr):
    """What is left to do with a whole row's total, and its store."""
    at = row * channels + channel
    count = tl.load(rowptr + row + 1) - tl.load(rowptr + row)
    if PASS == MEAN:
        total = divided(total, tl.zeros_like(total) + tl.maximum(count, 1).to(total.dtype))
    if PASS == MIN:
        total = -total
    if PASS == MAX or PASS == MIN:
        total = tl.where(count > 0, total, 0.0)
    if PASS == SHARE:
        y = tl.load(b + at, mask=inside, other=1.0).to(total.dtype)
        grad = tl.load(c + at, mask=inside, other=0.0).to(total.dtype)
        # torch's scatter_reduce counts the zero that it starts from as one more that ties; see rows.py. A count of
        # 0 (a y that is not a number) gives what torch gives: grad / 0.
        total = divided(grad, total + tl.where(y == 0.0, 1.0, 0.0))
    tl.store(out + at, total.to(out.dtype.element_ty), mask=inside)


@triton.jit
def reduce_rows(
    rowptr,
    col,
    value,
    a,
    b,
    c,
    out,
    scratch,
    num_rows,
    channels,
    PASS: tl.constexpr,
    HAS_VALUE: tl.constexpr,
    HAS_COL: tl.constexpr,
    SPLIT: tl.constexpr,
    BLOCK_E: tl.constexpr,
    BLOCK_C: tl.constexpr,
    ACC: tl.constexpr,
):
    """SUM, MEAN, MAX, MIN, SHARE or EXTREMUM_BACK of rows.py. Without HAS_COL entry e reads row e of a.

    SHARE leaves counts in scratch, MIN the largest of the negated messages.
    """
    part = tl.program_id(0).to(tl.int64)
    channel = tl.program_id(1).to(tl.int64) * BLOCK_C + tl.arange(0, BLOCK_C)
    inside = channel < channels
    row, start, stop, slot = part_of(rowptr, num_rows, part, SPLIT)
    X: tl.constexpr = a.dtype.element_ty
    if slot != NOWHERE:
        total = tl.zeros((BLOCK_E, BLOCK_C), ACC)
        if PASS == MAX or PASS == MIN:
            total += float("-inf")
        if PASS == SHARE:
            y = tl.load(b + row * channels + channel, mask=inside, other=0.0).to(ACC)[None, :]
        if PASS == EXTREMUM_BACK:
            x = tl.load(a + row * channels + channel, mask=inside, other=0.0).to(ACC)[None, :]
        for first in range(start, stop, BLOCK_E):
            entry = first + tl.arange(0, BLOCK_E)
            is_entry = entry < stop
            other = entry
            if HAS_COL:
                other = tl.load(col + entry, mask=is_entry, other=0).to(tl.int64)
            factor = tl.zeros((BLOCK_E, 1), ACC) + 1.0
            if HAS_VALUE:
                factor = tl.load(value + entry, mask=is_entry, other=0.0).to(ACC)[:, None]
            mask = is_entry[:, None] & inside[None, :]
            at = other[:, None] * channels + channel[None, :]
            if PASS == EXTREMUM_BACK:
                y = tl.load(b + at, mask=mask, other=0.0).to(ACC)
                share = tl.load(c + at, mask=mask, other=0.0).to(ACC)
                tile = tl.where(message(factor, x, X, HAS_VALUE) == y, share, 0.0)
                if HAS_VALUE:
                    tile = factor * tile
            else:
                tile = tl.load(a + at, mask=mask, other=0.0).to(ACC)
                if PASS == SHARE:
                    tile = tl.where((message(factor, tile, X, HAS_VALUE) == y) & mask, 1.0, 0.0).to(ACC)
                elif PASS == MAX:
                    tile = message(factor, tile, X, HAS_VALUE)
                elif PASS == MIN:
                    tile = -message(factor, tile, X, HAS_VALUE)
                elif HAS_VALUE:
                    tile = factor * tile
            total = joined(total, tile, mask, PASS)
        whole = folded(total, inside[None, :], PASS)
        if slot == OUT:
            finish(whole, rowptr, b, c, out, row, channels, channel, inside, PASS)
        else:
            tl.store(scratch + slot * channels + channel, whole, mask=inside)


@triton.jit
def combine(
    rowptr,
    b,
    c,
    out,
    scratch,
    num_rows,
    channels,
    PASS: tl.constexpr,
    SPLIT: tl.constexpr,
    BLOCK_E: tl.constexpr,
    BLOCK_C: tl.constexpr,
    ACC: tl.constexpr,
):
    """The parts of each long row, which its first chunk's program puts together."""
    chunk = tl.program_id(0).to(tl.int64)
    channel = tl.program_id(1).to(tl.int64) * BLOCK_C + tl.arange(0, BLOCK_C)
    inside = channel < channels
    row, is_first, last = long_row_of(rowptr, num_rows, chunk, SPLIT)
    if is_first:
        total = tl.zeros((BLOCK_E, BLOCK_C), ACC)
        if PASS == MAX or PASS == MIN:
            total += float("-inf")
        for first in range(chunk, last + 1, BLOCK_E):
            part = first + tl.arange(0, BLOCK_E)
            mask = (part <= last)[:, None] & inside[None, :]
            tile = tl.load(scratch + part[:, None] * channels + channel[None, :], mask=mask, other=0.0)
            total = joined(total, tile, mask, PASS)
        whole = folded(total, inside[None, :], PASS)
        finish(whole, rowptr, b, c, out, row, channels, channel, inside, PASS)


@triton.jit
def dot_entries(
    rowptr,
    col,
    value,
    a,
    b,
    c,
    out,
    num_rows,
    channels,
    IS_EXTREMUM: tl.constexpr,
    HAS_VALUE: tl.constexpr,
    SPLIT: tl.constexpr,
    BLOCK_E: tl.constexpr,
    BLOCK_C: tl.constexpr,
    ACC: tl.constexpr,
):
    """DOT and EXTREMUM_DOT of rows.py: out[e] is a number of its own for each entry, so long rows need no scratch."""
    part = tl.program_id(0).to(tl.int64)
    row, start, stop, slot = part_of(rowptr, num_rows, part, SPLIT)
    X: tl.constexpr = a.dtype.element_ty
    if slot != NOWHERE:
        for first in range(start, stop, BLOCK_E):
            entry = first + tl.arange(0, BLOCK_E)
            is_entry = entry < stop
            other = tl.load(col + entry, mask=is_entry, other=0).to(tl.int64)
            factor = tl.zeros((BLOCK_E, 1), ACC) + 1.0
            if HAS_VALUE:
                factor = tl.load(value + entry, mask=is_entry, other=0.0).to(ACC)[:, None]
            total = tl.zeros((BLOCK_E,), ACC)
            for first_channel in range(0, channels, BLOCK_C):
                channel = first_channel + tl.arange(0, BLOCK_C)
                inside = channel < channels
                mask = is_entry[:, None] & inside[None, :]
                x = tl.load(a + other[:, None] * channels + channel[None, :], mask=mask, other=0.0).to(ACC)
                mine = tl.load(b + row * channels + channel, mask=inside, other=0.0).to(ACC)[None, :]
                if IS_EXTREMUM:
                    share = tl.load(c + row * channels + channel, mask=inside, other=0.0).to(ACC)[None, :]
                    mine = tl.where(message(factor, x, X, HAS_VALUE) == mine, share, 0.0)
                total += tl.sum(mine * x, 1)
            tl.store(out + entry, total, mask=is_entry)
