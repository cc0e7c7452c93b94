"""The passes that sum over rows: a weight's gradient, and the parts that chunks of rows left.

outer:  OUT[chunk, k] = sum over the chunk's rows i of A[i, k] MATRIX[i];  A [rows, INNER], MATRIX [rows, STRIDE]
parts:  OUT[j] = (INIT[j]) + sum over the chunks c of A[c, j];  STRIDE numbers a chunk
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray  # pyright: ignore[reportPrivateImportUsage]

from fasthop.kernels.spmm.job import pointer, take_chunk
from fasthop.kernels.spmm.lanes import MAX_REGISTERS, constant, load
from fasthop.kernels.stack.arithmetic import add_outer, registers, several, store_rows
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


def block_rows(kind: str, width: int, inner: int) -> int:
    """How many rows of a weight's gradient stay in registers at once."""
    full, tail = registers(width, kind)
    fit = max(1, MAX_REGISTERS // (len(full) + (1 if tail else 0)))
    return next(size for size in (16, 8, 4, 2, 1) if size <= min(fit, inner))


def outer(kind: str, width: int, size: int) -> Any:
    """size: from `block_rows`. The last block of k's starts early enough to be whole, and writes some rows twice."""
    full, tail = registers(width, kind)
    several_rows = (0,) * size
    step = np.uint64(size)

    def work(job):
        num_rows, inner = np.uint64(job[NUM_ROWS]), np.uint64(job[INNER])
        a = carray(pointer(job[A], kind), job[NUM_ROWS])
        g = carray(pointer(job[MATRIX], kind), job[NUM_ROWS])
        out = carray(pointer(job[OUT], kind), job[NUM_ROWS])
        stride, channel = np.uint64(job[STRIDE]), np.uint64(job[CHANNEL])
        num_chunks = np.uint64(job[NUM_CHUNKS])
        while True:
            chunk = np.uint64(take_chunk(job))
            if chunk >= num_chunks:
                return
            first, last = num_rows * chunk // num_chunks, num_rows * (chunk + _1) // num_chunks
            like = constant(a, full, tail, 0.0)
            k = np.uint64(0)
            while k < inner:
                if k + step > inner:
                    k = inner - step
                block = several(like, several_rows)
                for i in range(first, last):
                    block = add_outer(block, a, i * inner + k, _1, load(g, i * stride + channel, like))
                store_rows(out, (chunk * inner + k) * stride + channel, stride, block, like)
                k += step

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
