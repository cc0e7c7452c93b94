"""The sparse matrices of a stack as its passes read them: int32 columns, values in the stack's dtype, once a stack."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fasthop.errors import InvalidConfig
from fasthop.kernels.sparse_linear.features import SparseFeatures
from fasthop.kernels.spmm.adjacency import Adjacency
from fasthop.kernels.spmm.transpose import transpose


@dataclass(frozen=True, eq=False, slots=True)
class Matrix:
    """A CSR matrix. perm: where an entry lies in the matrix that this one is the transpose of, or None."""

    rowptr: Tensor
    col: Tensor
    value: Tensor | None
    num_cols: int
    perm: Tensor | None = None

    @property
    def num_rows(self) -> int:
        """How many rows it has."""
        return self.rowptr.numel() - 1

    def turned(self) -> Matrix:
        """The transpose, its rows ascending."""
        rowptr, col, perm = transpose(self.rowptr, self.col, self.num_cols)
        value = None if self.value is None else self.value.index_select(0, perm)
        return Matrix(rowptr, col, value, self.num_rows, perm)


def aggregation(adj: Adjacency, reduce: str, dtype: torch.dtype) -> Matrix:
    """The matrix of an aggregation; the mean's division is part of its values."""
    value = None if adj.value is None else adj.value.detach().to(dtype)
    if reduce == "mean":
        degree = adj.rowptr.diff()
        share = (1.0 / degree.clamp(min=1).to(dtype)).repeat_interleave(degree)
        value = share if value is None else value * share
    return _matrix(adj, adj.num_rows, value)


def features(x: SparseFeatures, num_rows: int, dtype: torch.dtype) -> Matrix:
    """The first num_rows rows of sparse features."""
    return _matrix(x.matrix, num_rows, x.values(dtype)[0])


def _matrix(adj: Adjacency, num_rows: int, value: Tensor | None) -> Matrix:
    if max(adj.num_cols, adj.num_rows) >= 2**31:
        raise InvalidConfig(f"A stack's graph has fewer than 2^31 nodes, and got {adj.num_cols}.")
    rowptr = adj.rowptr[: num_rows + 1]
    num_entries = int(rowptr[-1])
    value = None if value is None else value[:num_entries].contiguous()
    return Matrix(rowptr.contiguous(), adj.col[:num_entries].int().contiguous(), value, adj.num_cols)
