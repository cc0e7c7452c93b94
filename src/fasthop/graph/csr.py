"""CSR: the edges sorted by target, which is how an aggregation reads them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fasthop.graph.check import check_edge_index, plain

INT32_MAX = 2**31 - 1
# Below this many edges torch's sort is quicker than importing and loading numba's kernels (0.5 s);
# above it the counting sort is both quicker and far leaner (no int64 keys, no int64 permutation).
COUNTING_SORT_FROM = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CSR:
    """A sparse matrix by rows: row = target node, column = source node, as PyG's `adj_t`.

    rowptr: int64 [num_rows + 1]; row i owns the entries rowptr[i] to rowptr[i + 1].
    col: int32 [E] (int64 where num_cols does not fit), the source of each entry, ascending in a row.
    e_id: int32 [E] (int64 where E does not fit), the entry's place in the original edge_index, so
        that `edge_weight[csr.e_id]` are the matrix's values. Parallel edges and self-loops are kept.
    num_cols: number of columns.
    """

    rowptr: Tensor
    col: Tensor
    e_id: Tensor
    num_cols: int

    @classmethod
    def from_edge_index(cls, edge_index: Tensor, num_nodes: int) -> CSR:
        """Sorts the edges by target, then source, then place in `edge_index`.

        edge_index: int64 or int32 [2, E], sources above targets, on any device.
        Raises InvalidGraph for another shape or dtype, or an index outside 0 .. num_nodes - 1.
        """
        check_edge_index(edge_index, num_nodes)
        source, target = plain(edge_index.detach())
        if source.device.type != "cpu" or source.numel() < COUNTING_SORT_FROM:
            return _by_sort(source, target, num_nodes)
        return _by_counting(source, target, num_nodes)

    @property
    def num_rows(self) -> int:
        """Number of rows (targets)."""
        return self.rowptr.numel() - 1

    @property
    def num_edges(self) -> int:
        """Number of entries."""
        return self.col.numel()

    @property
    def degree(self) -> Tensor:
        """int64 [num_rows]: the entries of each row, which is the in-degree of its node."""
        return self.rowptr.diff()

    @property
    def row(self) -> Tensor:
        """The target of each entry, [E] in the dtype of `col`; built anew on each call."""
        rows = torch.arange(self.num_rows, dtype=self.col.dtype, device=self.col.device)
        return torch.repeat_interleave(rows, self.degree, output_size=self.num_edges)

    def transpose(self) -> CSR:
        """Rows and columns exchanged (what a backward pass reads); `e_id` still points to edge_index."""
        if self.col.device.type != "cpu" or self.num_edges < COUNTING_SORT_FROM:
            row = self.row.to(index_dtype(self.num_rows))
            order = torch.sort(self.col, stable=True).indices
            rowptr = _rowptr(self.col, self.num_cols)
            return CSR(rowptr=rowptr, col=row[order], e_id=self.e_id[order], num_cols=self.num_rows)
        from fasthop.graph.counting_sort import transposed

        rowptr, col, e_id = transposed(
            self.rowptr.numpy(),
            self.col.numpy(),
            self.e_id.numpy(),
            self.num_cols,
            _numpy_dtype(self.num_rows),
        )
        return CSR(
            rowptr=torch.from_numpy(rowptr),
            col=torch.from_numpy(col),
            e_id=torch.from_numpy(e_id),
            num_cols=self.num_rows,
        )


def index_dtype(count: int) -> torch.dtype:
    """int32 where the indices 0 .. count - 1 fit in it, else int64."""
    return torch.int32 if count - 1 <= INT32_MAX else torch.int64


def _numpy_dtype(count: int) -> str:
    return "int32" if index_dtype(count) is torch.int32 else "int64"


def _rowptr(row: Tensor, num_rows: int) -> Tensor:
    rowptr = torch.zeros(num_rows + 1, dtype=torch.int64, device=row.device)
    torch.cumsum(torch.bincount(row, minlength=num_rows), 0, out=rowptr[1:])
    return rowptr


def _by_sort(source: Tensor, target: Tensor, num_nodes: int) -> CSR:
    """The plain way: two stable sorts, the less significant key first."""
    by_source = torch.sort(source, stable=True).indices
    by_target = torch.sort(target[by_source], stable=True).indices
    order = by_source[by_target]
    return CSR(
        rowptr=_rowptr(target, num_nodes),
        col=source[order].to(index_dtype(num_nodes)),
        e_id=order.to(index_dtype(order.numel())),
        num_cols=num_nodes,
    )


def _by_counting(source: Tensor, target: Tensor, num_nodes: int) -> CSR:
    from fasthop.graph.counting_sort import sorted_by_target

    rowptr, col, e_id = sorted_by_target(
        source.numpy(), target.numpy(), num_nodes, _numpy_dtype(num_nodes), _numpy_dtype(source.numel())
    )
    return CSR(
        rowptr=torch.from_numpy(rowptr),
        col=torch.from_numpy(col),
        e_id=torch.from_numpy(e_id),
        num_cols=num_nodes,
    )
