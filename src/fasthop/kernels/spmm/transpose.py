"""The transpose of a CSR matrix, which the gradient to x reads."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fasthop.jit import kernel


@kernel
def _transpose(rowptr, col, rowptr_t, col_t, perm):
    """Counting sort by column; rows stay ascending within a column. rowptr_t starts as zeros."""
    for e in range(np.uint64(col.size)):
        rowptr_t[np.uint64(col[e]) + np.uint64(1)] += 1
    for j in range(np.uint64(1), np.uint64(rowptr_t.size)):
        rowptr_t[j] += rowptr_t[j - np.uint64(1)]
    # rowptr_t[j] runs from the start of column j to its end, which is where column j + 1 starts: shifted back below.
    for i in range(np.uint64(rowptr.size - 1)):
        for e in range(np.uint64(rowptr[i]), np.uint64(rowptr[i + np.uint64(1)])):
            j = np.uint64(col[e])
            place = np.uint64(rowptr_t[j])
            col_t[place] = i
            perm[place] = e
            rowptr_t[j] += 1
    for j in range(rowptr_t.size - 1, 0, -1):
        rowptr_t[j] = rowptr_t[j - 1]
    rowptr_t[0] = 0


def transpose(rowptr: Tensor, col: Tensor, num_cols: int) -> tuple[Tensor, Tensor, Tensor]:
    """(rowptr_t, col_t, perm) of a [num_rows, num_cols] matrix: entry e of the transpose is entry perm[e] of the matrix.

    rowptr_t: int64 [num_cols + 1]; col_t: [E] in col's dtype; perm: int32 [E], int64 where E does not fit.
    On a GPU it is torch's own stable sort, which gives the same order and waits for nothing.
    """
    if rowptr.device.type != "cpu":
        return _by_sorting(rowptr, col, num_cols)
    rowptr_t = torch.zeros(num_cols + 1, dtype=torch.int64)
    col_t = torch.empty_like(col)
    perm = torch.empty(col.numel(), dtype=perm_dtype(col.numel()))
    _transpose(rowptr.numpy(), col.numpy(), rowptr_t.numpy(), col_t.numpy(), perm.numpy())
    return rowptr_t, col_t, perm


def _by_sorting(rowptr: Tensor, col: Tensor, num_cols: int) -> tuple[Tensor, Tensor, Tensor]:
    rows = torch.arange(rowptr.numel() - 1, dtype=col.dtype, device=col.device)
    row = torch.repeat_interleave(rows, rowptr.diff(), output_size=col.numel())
    columns, perm = torch.sort(col, stable=True)
    borders = torch.arange(num_cols + 1, dtype=col.dtype, device=col.device)
    rowptr_t = torch.searchsorted(columns, borders)
    return rowptr_t, row.index_select(0, perm), perm.to(perm_dtype(col.numel()))


def perm_dtype(num_entries: int) -> torch.dtype:
    """int32 where places among num_entries fit in it, else int64."""
    return torch.int32 if num_entries <= 2**31 - 1 else torch.int64
