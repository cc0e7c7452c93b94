"""The counting sort behind CSR for large graphs: O(E), and no more memory than the result.

    rowptr[t + 1] = #{e : target[e] <= t}
    entry of edge e = rowptr[target[e]] + #{f < e : target[f] = target[e]}

The kernels are serial and release the GIL: they may run beside other threads, which numba's
parallel layer does not allow.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fasthop.jit import kernel

Array = NDArray[Any]


def sorted_by_target(
    source: Array, target: Array, num_nodes: int, col_dtype: str, e_id_dtype: str
) -> tuple[Array, Array, Array]:
    """`rowptr`, `col`, `e_id` of the edges sorted by target, source, place; indices must be in range."""
    rowptr = np.zeros(num_nodes + 1, np.int64)
    col = np.empty(source.size, col_dtype)
    e_id = np.empty(source.size, e_id_dtype)
    _count(target, rowptr)
    _scatter_edges(source, target, rowptr[:-1].copy(), col, e_id)
    _sort_rows(rowptr, col, e_id)
    return rowptr, col, e_id


def transposed(
    rowptr: Array, col: Array, e_id: Array, num_cols: int, col_dtype: str
) -> tuple[Array, Array, Array]:
    """The same entries by column; walking the rows in order keeps the new rows in order too."""
    rowptr_t = np.zeros(num_cols + 1, np.int64)
    col_t = np.empty(col.size, col_dtype)
    e_id_t = np.empty_like(e_id)
    _count(col, rowptr_t)
    _scatter_rows(rowptr, col, e_id, rowptr_t[:-1].copy(), col_t, e_id_t)
    return rowptr_t, col_t, e_id_t


@kernel
def _count(index: Array, rowptr: Array) -> None:
    for e in range(index.size):
        rowptr[index[e] + 1] += 1
    for i in range(1, rowptr.size):
        rowptr[i] += rowptr[i - 1]


@kernel
def _scatter_edges(source: Array, target: Array, free: Array, col: Array, e_id: Array) -> None:
    for e in range(source.size):
        entry = free[target[e]]
        free[target[e]] = entry + 1
        col[entry] = source[e]
        e_id[entry] = e


@kernel
def _scatter_rows(rowptr: Array, col: Array, e_id: Array, free: Array, col_t: Array, e_id_t: Array) -> None:
    for i in range(rowptr.size - 1):
        for entry in range(rowptr[i], rowptr[i + 1]):
            entry_t = free[col[entry]]
            free[col[entry]] = entry_t + 1
            col_t[entry_t] = i
            e_id_t[entry_t] = e_id[entry]


@kernel
def _sort_rows(rowptr: Array, col: Array, e_id: Array) -> None:
    """Sorts every row by source, stably. Edges listed by source, PyG's usual order, need no work."""
    longest = 0
    for i in range(rowptr.size - 1):
        longest = max(longest, rowptr[i + 1] - rowptr[i])
    key = np.empty(longest, np.uint64)
    place = np.empty(longest, e_id.dtype)
    for i in range(rowptr.size - 1):
        start, stop = rowptr[i], rowptr[i + 1]
        in_order = True
        for entry in range(start + 1, stop):
            if col[entry - 1] > col[entry]:
                in_order = False
                break
        if in_order:
            continue
        # One key holds source and place in the row, so that an unstable sort of keys is a stable sort
        # of edges. 32 bits each: up to 4.29e9 nodes, and as many edges in one row.
        count = stop - start
        for j in range(count):
            key[j] = (np.uint64(col[start + j]) << np.uint64(32)) | np.uint64(j)
            place[j] = e_id[start + j]
        key[:count].sort()
        for j in range(count):
            col[start + j] = key[j] >> np.uint64(32)
            e_id[start + j] = place[np.int64(key[j] & np.uint64(0xFFFFFFFF))]
