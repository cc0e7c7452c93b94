"""The passes that prepare a step and end it: parameters in and out, dropout's keys, the factors of sparse entries.

turn:    OUT [STRIDE, NUM_ROWS] = the transpose of A [NUM_ROWS, STRIDE]
keys:    OUT[k] = the key of the dropout at place A[k] of the list, for the seed in the job; see reference.op_seed
entries: OUT[e] = VALUE[e] * SCALE where the hash of (KEY, place) is below THRESHOLD, else 0; place is COL[e], or e
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray  # pyright: ignore[reportPrivateImportUsage]

from fasthop.kernels.sample.draw import WEYL, mix
from fasthop.kernels.spmm.job import pointer, take_chunk
from fasthop.kernels.spmm.lanes import REGISTER_BYTES, constant
from fasthop.kernels.stack.arithmetic import number_at, registers, turn_block
from fasthop.kernels.stack.job import (
    COL,
    INNER,
    KEY,
    NUM_CHUNKS,
    NUM_ENTRIES,
    NUM_ROWS,
    OUT,
    SCALE,
    STRIDE,
    THRESHOLD,
    VALUE,
    A,
)

_1 = np.uint64(1)


def turn(kind: str) -> Any:
    """Squares of a register's width are turned in registers, the rest number by number. A chunk takes a part of the columns."""
    width = REGISTER_BYTES // (8 if kind == "float64" else 4)
    full, tail = registers(width, kind)
    size = np.uint64(width)

    def work(job):
        num_rows, num_cols = np.uint64(job[NUM_ROWS]), np.uint64(job[STRIDE])
        a = carray(pointer(job[A], kind), job[NUM_ROWS] * job[STRIDE])
        out = carray(pointer(job[OUT], kind), job[NUM_ROWS] * job[STRIDE])
        like = constant(a, full, tail, 0.0)
        num_chunks = np.uint64(job[NUM_CHUNKS])
        while True:
            chunk = np.uint64(take_chunk(job))
            if chunk >= num_chunks:
                return
            first, last = num_cols * chunk // num_chunks, num_cols * (chunk + _1) // num_chunks
            whole = first + (last - first) // size * size
            row = np.uint64(0)
            while row + size <= num_rows:
                for j in range(first, whole, size):
                    turn_block(a, row * num_cols + j, num_cols, out, j * num_rows + row, num_rows, like)
                for j in range(whole, last):
                    for i in range(row, row + size):
                        out[j * num_rows + i] = a[i * num_cols + j]
                row += size
            for i in range(row, num_rows):
                for j in range(first, last):
                    out[j * num_rows + i] = a[i * num_cols + j]

    return work


def keys() -> Any:
    """One thread: there are a handful."""

    def work(job):
        if take_chunk(job) > 0:
            return
        places = carray(pointer(job[A], "int64"), job[NUM_ROWS])
        out = carray(pointer(job[OUT], "int64"), job[NUM_ROWS])
        first = mix(mix(np.uint64(job[INNER]) + WEYL))
        for k in range(job[NUM_ROWS]):
            seed = mix(first ^ mix(np.uint64(places[k]) + WEYL)) >> _1
            out[k] = np.int64(mix(mix(seed + WEYL)))

    return work


def entries(kind: str, perm_kind: str, is_weighted: bool) -> Any:
    """perm_kind: the dtype of COL, or "" for the entries in their own order."""
    place_kind = perm_kind or "int32"
    is_permuted = bool(perm_kind)

    def work(job):
        num_entries = np.uint64(job[NUM_ENTRIES])
        perm = carray(pointer(job[COL], place_kind), job[NUM_ENTRIES])
        value = carray(pointer(job[VALUE], kind), job[NUM_ENTRIES])
        out = carray(pointer(job[OUT], kind), job[NUM_ENTRIES])
        key = np.uint64(carray(pointer(job[KEY], "int64"), 1)[0])
        threshold, scale = np.uint64(job[THRESHOLD]), number_at(job, SCALE)
        num_chunks = np.uint64(job[NUM_CHUNKS])
        while True:
            chunk = np.uint64(take_chunk(job))
            if chunk >= num_chunks:
                return
            first, last = num_entries * chunk // num_chunks, num_entries * (chunk + _1) // num_chunks
            for e in range(first, last):
                place = np.uint64(perm[e]) if is_permuted else e
                bits = mix(key + (place + _1) * WEYL) >> np.uint64(11)
                factor = scale if bits < threshold else 0.0
                out[e] = factor * value[e] if is_weighted else factor

    return work
