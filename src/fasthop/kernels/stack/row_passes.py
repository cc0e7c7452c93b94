"""The passes that make one row after another; what happens to a row before it is stored is in finish.py.

| pass | v of row i |
|---|---|
| aggregate | sum over the entries e of row i of value[e] A[col[e]] |
| transform | sum over k of A[i, k] MATRIX[k] |
| again | A[i] for i < A_ROWS, else 0 |

Each `make` takes (kind, width, ...) and returns a C function's body; a row wider than the registers is done in blocks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray  # pyright: ignore[reportPrivateImportUsage]

from fasthop.kernels.spmm.arithmetic import add, multiply_add
from fasthop.kernels.spmm.job import chunk_start, pointer, take_chunk
from fasthop.kernels.spmm.lanes import MAX_REGISTERS, constant, load, prefetch, weight
from fasthop.kernels.spmm.rows import AHEAD
from fasthop.kernels.stack.arithmetic import add_outer, registers, several, store_rows
from fasthop.kernels.stack.finish import clear_sums, finish, is_stored_as_it_is, row_end, start_sums
from fasthop.kernels.stack.job import (
    A_ROWS,
    CHANNEL,
    COL,
    INNER,
    MATRIX,
    NUM_CHUNKS,
    NUM_ENTRIES,
    NUM_ROWS,
    OUT,
    ROWPTR,
    STRIDE,
    VALUE,
    A,
)

_1 = np.uint64(1)
_2, _3, _4 = np.uint64(2), np.uint64(3), np.uint64(4)


def aggregate(kind: str, width: int, is_weighted: bool, runs_ahead: bool) -> Any:
    """Columns are int32. Narrow rows are summed four entries at a time, or long rows wait for one sum (PubMed's features, 199
    entries a row: 74 us with one sum, 37 with four)."""
    full, tail = registers(width, kind)
    weighted, ahead = (0,) * is_weighted, (0,) * runs_ahead
    if 4 * (len(full) + (1 if tail else 0)) > MAX_REGISTERS:
        return _aggregate_wide(kind, full, tail, weighted, ahead)

    def work(job):
        num_rows, num_entries = job[NUM_ROWS], job[NUM_ENTRIES]
        rowptr = carray(pointer(job[ROWPTR], "int64"), num_rows + 1)
        col = carray(pointer(job[COL], "int32"), num_entries)
        value = carray(pointer(job[VALUE], kind), num_entries)
        a = carray(pointer(job[A], kind), num_entries)
        stride, channel = np.uint64(job[STRIDE]), np.uint64(job[CHANNEL])
        end = row_end(job)
        reach = np.uint64(max(num_entries - np.int64(AHEAD), 0))
        while True:
            chunk = take_chunk(job)
            if chunk >= job[NUM_CHUNKS]:
                return
            first = np.uint64(chunk_start(rowptr, num_rows, num_entries, chunk, job[NUM_CHUNKS]))
            last = np.uint64(chunk_start(rowptr, num_rows, num_entries, chunk + 1, job[NUM_CHUNKS]))
            sums_at = start_sums(job, chunk)
            clear_sums(constant(a, full, tail, 0.0), sums_at, end)
            for i in range(first, last):
                v0 = constant(a, full, tail, 0.0)
                v1, v2, v3 = v0, v0, v0
                e, until = np.uint64(rowptr[i]), np.uint64(rowptr[i + _1])
                while e + _4 <= until:
                    if e + _3 < reach:
                        for k in range(e, e + _4):
                            prefetch(a, np.uint64(col[k + AHEAD]) * stride + channel, v0, ahead)
                    x0 = load(a, np.uint64(col[e]) * stride + channel, v0)
                    x1 = load(a, np.uint64(col[e + _1]) * stride + channel, v0)
                    x2 = load(a, np.uint64(col[e + _2]) * stride + channel, v0)
                    x3 = load(a, np.uint64(col[e + _3]) * stride + channel, v0)
                    v0 = multiply_add(weight(value, e, v0, weighted), x0, v0)
                    v1 = multiply_add(weight(value, e + _1, v0, weighted), x1, v1)
                    v2 = multiply_add(weight(value, e + _2, v0, weighted), x2, v2)
                    v3 = multiply_add(weight(value, e + _3, v0, weighted), x3, v3)
                    e += _4
                while e < until:
                    x0 = load(a, np.uint64(col[e]) * stride + channel, v0)
                    v0 = multiply_add(weight(value, e, v0, weighted), x0, v0)
                    e += _1
                v = add(add(v0, v1), add(v2, v3))
                finish(v, i, sums_at, end)

    return work


def _aggregate_wide(
    kind: str, full: tuple[int, ...], tail: tuple[int, ...], weighted: tuple[int, ...], ahead: tuple[int, ...]
) -> Any:
    def work(job):
        num_rows, num_entries = job[NUM_ROWS], job[NUM_ENTRIES]
        rowptr = carray(pointer(job[ROWPTR], "int64"), num_rows + 1)
        col = carray(pointer(job[COL], "int32"), num_entries)
        value = carray(pointer(job[VALUE], kind), num_entries)
        a = carray(pointer(job[A], kind), num_entries)
        stride, channel = np.uint64(job[STRIDE]), np.uint64(job[CHANNEL])
        end = row_end(job)
        reach = np.uint64(max(num_entries - np.int64(AHEAD), 0))
        while True:
            chunk = take_chunk(job)
            if chunk >= job[NUM_CHUNKS]:
                return
            first = np.uint64(chunk_start(rowptr, num_rows, num_entries, chunk, job[NUM_CHUNKS]))
            last = np.uint64(chunk_start(rowptr, num_rows, num_entries, chunk + 1, job[NUM_CHUNKS]))
            sums_at = start_sums(job, chunk)
            clear_sums(constant(a, full, tail, 0.0), sums_at, end)
            for i in range(first, last):
                v = constant(a, full, tail, 0.0)
                for e in range(np.uint64(rowptr[i]), np.uint64(rowptr[i + _1])):
                    if e < reach:
                        prefetch(a, np.uint64(col[e + AHEAD]) * stride + channel, v, ahead)
                    x = load(a, np.uint64(col[e]) * stride + channel, v)
                    v = multiply_add(weight(value, e, v, weighted), x, v)
                finish(v, i, sums_at, end)

    return work


def transform(kind: str, width: int) -> Any:
    """Four rows at a time where their registers fit, so that the sums do not wait for each other."""
    full, tail = registers(width, kind)
    if 4 * (len(full) + (1 if tail else 0)) > MAX_REGISTERS:
        return _transform_wide(kind, full, tail)
    four = (0,) * 4

    def work(job):
        num_rows, inner = np.uint64(job[NUM_ROWS]), np.uint64(job[INNER])
        a = carray(pointer(job[A], kind), job[NUM_ROWS])
        matrix = carray(pointer(job[MATRIX], kind), job[NUM_ROWS])
        out = carray(pointer(job[OUT], kind), job[NUM_ROWS])
        stride, channel = np.uint64(job[STRIDE]), np.uint64(job[CHANNEL])
        end = row_end(job)
        is_plain = is_stored_as_it_is(job)
        num_chunks = np.uint64(job[NUM_CHUNKS])
        while True:
            chunk = np.uint64(take_chunk(job))
            if chunk >= num_chunks:
                return
            i, last = num_rows * chunk // num_chunks, num_rows * (chunk + _1) // num_chunks
            sums_at = start_sums(job, np.int64(chunk))
            clear_sums(constant(a, full, tail, 0.0), sums_at, end)
            like = constant(a, full, tail, 0.0)
            while i + _4 <= last:
                block = several(like, four)
                for k in range(inner):
                    block = add_outer(
                        block, a, i * inner + k, inner, load(matrix, k * stride + channel, like)
                    )
                store_rows(out, i * stride + channel, stride, block, like)
                if not is_plain:
                    for row in range(i, i + _4):
                        finish(load(out, row * stride + channel, like), row, sums_at, end)
                i += _4
            while i < last:
                v = constant(a, full, tail, 0.0)
                for k in range(inner):
                    v = multiply_add(a[i * inner + k], load(matrix, k * stride + channel, v), v)
                finish(v, i, sums_at, end)
                i += _1

    return work


def _transform_wide(kind: str, full: tuple[int, ...], tail: tuple[int, ...]) -> Any:
    def work(job):
        num_rows, inner = np.uint64(job[NUM_ROWS]), np.uint64(job[INNER])
        a = carray(pointer(job[A], kind), job[NUM_ROWS])
        matrix = carray(pointer(job[MATRIX], kind), job[NUM_ROWS])
        stride, channel = np.uint64(job[STRIDE]), np.uint64(job[CHANNEL])
        end = row_end(job)
        num_chunks = np.uint64(job[NUM_CHUNKS])
        while True:
            chunk = np.uint64(take_chunk(job))
            if chunk >= num_chunks:
                return
            sums_at = start_sums(job, np.int64(chunk))
            clear_sums(constant(a, full, tail, 0.0), sums_at, end)
            for i in range(num_rows * chunk // num_chunks, num_rows * (chunk + _1) // num_chunks):
                v = constant(a, full, tail, 0.0)
                for k in range(inner):
                    v = multiply_add(a[i * inner + k], load(matrix, k * stride + channel, v), v)
                finish(v, i, sums_at, end)

    return work


def again(kind: str, width: int) -> Any:
    """A row that exists already (or a zero) once more through the end of a row; out may be A itself."""
    full, tail = registers(width, kind)

    def work(job):
        num_rows, a_rows = np.uint64(job[NUM_ROWS]), np.uint64(job[A_ROWS])
        a = carray(pointer(job[A], kind), job[NUM_ROWS])
        stride, channel = np.uint64(job[STRIDE]), np.uint64(job[CHANNEL])
        end = row_end(job)
        num_chunks = np.uint64(job[NUM_CHUNKS])
        while True:
            chunk = np.uint64(take_chunk(job))
            if chunk >= num_chunks:
                return
            sums_at = start_sums(job, np.int64(chunk))
            clear_sums(constant(a, full, tail, 0.0), sums_at, end)
            for i in range(num_rows * chunk // num_chunks, num_rows * (chunk + _1) // num_chunks):
                v = constant(a, full, tail, 0.0)
                if i < a_rows:
                    v = load(a, i * stride + channel, v)
                finish(v, i, sums_at, end)

    return work
