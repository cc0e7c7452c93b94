"""Matrix: a prepared adjacency and how it is multiplied: by fasthop's spmm, or by gather and scatter as PyG does."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch_geometric.utils import scatter

from fasthop.kernels.spmm.adjacency import Adjacency, spmm


def without_autocast(device_type: str) -> AbstractContextManager[Any]:
    """For the kernels: they compute in the dtype of what they are given, and MKL's part of them has no bfloat16."""
    if not torch.is_autocast_enabled(device_type):
        return nullcontext()
    return torch.autocast(device_type, enabled=False)


class Matrix:
    """A sparse matrix [num_rows, num_cols] with constant values or none.

    use_spmm: False multiplies by a gather and a scatter over the edges, which is what PyG does with an edge_index; so the
    rung `cache_norm` alone changes nothing but the normalisation.
    """

    __slots__ = ("_col", "_row", "_row_sums", "adjacency", "use_spmm")

    def __init__(self, adjacency: Adjacency, *, use_spmm: bool) -> None:
        self.adjacency = adjacency
        self.use_spmm = use_spmm
        self._col: Tensor | None = None
        self._row: Tensor | None = None
        self._row_sums: dict[tuple[str, torch.dtype], Tensor] = {}

    @property
    def num_rows(self) -> int:
        """Rows: the nodes that receive."""
        return self.adjacency.num_rows

    @property
    def num_cols(self) -> int:
        """Columns: the nodes that send."""
        return self.adjacency.num_cols

    @property
    def num_entries(self) -> int:
        """Edges, self-loops counted as they stand."""
        return self.adjacency.col.numel()

    def times(self, x: Tensor, reduce: str = "sum") -> Tensor:
        """[num_rows, C]: the reduction over the entries of each row of value * x[col]. x: [num_cols, C].

        reduce: "sum", "mean", "max" or "min", with PyG's value 0 for a row without entries. Under autocast in its precision.
        """
        if self.use_spmm:
            with without_autocast(x.device.type):
                return spmm(self.adjacency, x, reduce=reduce)
        message = x.index_select(0, self.col())
        value = self.adjacency.value
        if value is not None:
            message = value.to(x.dtype).view(-1, 1) * message
        return scatter(message, self.row(), 0, dim_size=self.num_rows, reduce=reduce)

    def col(self) -> Tensor:
        """int64 [num_entries]: the column of each entry; kept. With int32 a gather's gradient leaves torch's fast path: 820 in
        place of 190 us on Cora x 16, so that `cache_norm` alone was slower than the baseline."""
        if self._col is None:
            self._col = self.adjacency.col.long()
        return self._col

    def row(self) -> Tensor:
        """int64 [num_entries]: the row of each entry; kept."""
        if self._row is None:
            rows = torch.arange(self.num_rows, device=self.adjacency.col.device)
            self._row = torch.repeat_interleave(rows, self.adjacency.rowptr.diff())
        return self._row

    def row_sums(self, reduce: str, dtype: torch.dtype) -> Tensor:
        """[num_rows, 1]: the product with a column of ones; kept."""
        place = (reduce, dtype)
        if place not in self._row_sums:
            ones = torch.ones(self.num_cols, 1, dtype=dtype, device=self.adjacency.col.device)
            self._row_sums[place] = self.times(ones, reduce)
        return self._row_sums[place]
