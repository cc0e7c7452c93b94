"""The passes that sum over rows: a weight's gradient, and the parts that chunks of rows left.

outer:  OUT[chunk, k] = sum over the chunk's rows i of A[i, k] MATRIX[i];  A [rows, INNER], MATRIX [rows, STRIDE]
parts:  OUT[j] = (INIT[j]) + sum over the chunks c of A[c, j];  STRIDE numbers a chunk
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray  # pyright: ignore[reportPrivateImportUsage]

from fasthop.kernels.spmm.job import pointer, take_chunk
from fasthop.kernels.spmm.lanes import MAX_REGISTERS, constant, load, store
from fasthop.kernels.stack.arithmetic import add_outer, load_rows, registers, store_rows
from fasthop.kernels.stack.job import (
    A_ROWS,
    CHANNEL,
    INIT,
    INNER,
    MATRIX,
    NUM_CHUNKS,
    NUM_ROWS,
    OUT,
    STRIDE,
    A,
)

_1 = np.uint64(1)


TILE_ROWS, TILE_NUMBERS = np.uint64(64), np.uint64(8192)
"""Rows of A that are read again for each block of k's while they are in the nearest cache: so many numbers, 16 to 64 rows."""


def block_rows(kind: str, width: int, inner: int) -> tuple[int, int]:
    """How many rows of a weight's gradient stay in registers at once, and how many the last block has (0: as many)."""
    full, tail = registers(width, kind)
    most = min(16, max(1, MAX_REGISTERS // (len(full) + (1 if tail else 0))), inner)
    # A slightly smaller block that leaves no rest is quicker than the largest with one.
    size = next((size for size in range(most, most * 3 // 4, -1) if inner % size == 0), most)
    return size, inner % size


def outer(kind: str, width: int, size: int, rest: int) -> Any:
    """size, rest: from `block_rows`. Tile after tile of rows is added to what OUT holds of the chunk."""
    full, tail = registers(width, kind)
    of_block, of_rest = (0,) * size, (0,) * (rest or size)
    step = np.uint64(size)

    def work(job):
        num_rows, inner = np.uint64(job[NUM_ROWS]), np.uint64(job[INNER])
        a = carray(pointer(job[A], kind), job[NUM_ROWS])
        g = carray(pointer(job[MATRIX], kind), job[NUM_ROWS])
        out = carray(pointer(job[OUT], kind), job[NUM_ROWS])
        stride, channel = np.uint64(job[STRIDE]), np.uint64(job[CHANNEL])
        num_chunks = np.uint64(job[NUM_CHUNKS])
        whole = inner // step * step
        tile = min(TILE_ROWS, max(TILE_NUMBERS // inner, np.uint64(16)))
        while True:
            chunk = np.uint64(take_chunk(job))
            if chunk >= num_chunks:
                return
            first, last = num_rows * chunk // num_chunks, num_rows * (chunk + _1) // num_chunks
            like = constant(a, full, tail, 0.0)
            row = chunk * inner * stride + channel
            for k in range(inner):
                store(out, row + k * stride, like)
            start = first
            while start < last:
                end = min(start + tile, last)
                for k in range(np.uint64(0), whole, step):
                    block = load_rows(out, row + k * stride, stride, like, of_block)
                    for i in range(start, end):
                        block = add_outer(block, a, i * inner + k, _1, load(g, i * stride + channel, like))
                    store_rows(out, row + k * stride, stride, block, like)
                if whole < inner:
                    ending = load_rows(out, row + whole * stride, stride, like, of_rest)
                    for i in range(start, end):
                        ending = add_outer(
                            ending, a, i * inner + whole, _1, load(g, i * stride + channel, like)
                        )
                    store_rows(out, row + whole * stride, stride, ending, like)
                start = end

    return work


def parts(kind: str) -> Any:
    """A part of the numbers a chunk; a number's sum over the parts is one thread's."""

    def work(job):
        width, num_parts = np.uint64(job[STRIDE]), np.uint64(job[A_ROWS])
        a = carray(pointer(job[A], kind), job[STRIDE] * job[A_ROWS])
        out = carray(pointer(job[OUT], kind), job[STRIDE])
        init = carray(pointer(job[INIT], kind), job[STRIDE])
        num_chunks = np.uint64(job[NUM_CHUNKS])
        while True:
            chunk = np.uint64(take_chunk(job))
            if chunk >= num_chunks:
                return
            first, last = width * chunk // num_chunks, width * (chunk + _1) // num_chunks
            for j in range(first, last):
                v = a[j]
                if job[INIT] != 0:
                    v += init[j]
                for part in range(_1, num_parts):
                    v += a[part * width + j]
                out[j] = v

    return work
