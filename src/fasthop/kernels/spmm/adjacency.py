"""Adjacency: a checked CSR matrix with its transpose, and `spmm`, the product that everybody calls."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fasthop.errors import InvalidGraph
from fasthop.kernels.device import check_one_device
from fasthop.kernels.spmm import op
from fasthop.kernels.spmm.transpose import transpose


class Adjacency:
    """A sparse [num_rows, num_cols] matrix by rows (targets), checked once, its transpose computed once.

    rowptr: int64 [num_rows + 1]. col: int32 or int64 [E]; parallel entries and self-loops count as they stand.
    value: [E], or None for ones; it may require a gradient. transposed: (rowptr_t, col_t, perm) where they
    are known already; entry e of the transpose is entry perm[e] of the matrix.
    Raises InvalidGraph where rowptr or col cannot be those of such a matrix.
    """

    __slots__ = (
        "_transposed",
        "_value_of",
        "_value_t",
        "_value_version",
        "col",
        "num_cols",
        "rowptr",
        "value",
    )

    def __init__(
        self,
        *,
        rowptr: Tensor,
        col: Tensor,
        num_cols: int,
        value: Tensor | None = None,
        transposed: tuple[Tensor, Tensor, Tensor] | None = None,
    ) -> None:
        check_one_device("spmm", rowptr, col, value, *(transposed or ()))
        _check(rowptr, col, num_cols)
        self.rowptr, self.col, self.num_cols = rowptr.contiguous(), col.contiguous(), num_cols
        self.value = value
        if transposed is not None:
            _check(transposed[0], transposed[1], rowptr.numel() - 1)
            if transposed[0].numel() != num_cols + 1 or any(t.numel() != col.numel() for t in transposed[1:]):
                raise InvalidGraph(
                    f"the transpose of a matrix with {num_cols} columns and {col.numel()} entries has as many rows and "
                    f"entries, and got {transposed[0].numel() - 1} and {[t.numel() for t in transposed[1:]]}."
                )
        if transposed is not None:
            rowptr_t, col_t, perm = transposed
            transposed = rowptr_t.contiguous(), col_t.contiguous(), perm.contiguous()
        self._transposed = transposed
        self._value_t: Tensor | None = None
        self._value_of: Tensor | None = None
        self._value_version = -1

    def __reduce__(self) -> tuple[Any, ...]:
        # A copied tensor counts its versions anew, so a copy starts without the values' cache.
        return _rebuilt, (self.rowptr, self.col, self.num_cols, self.value, self._transposed)

    @property
    def num_rows(self) -> int:
        """Number of rows (targets)."""
        return self.rowptr.numel() - 1

    @property
    def transposed(self) -> tuple[Tensor, Tensor, Tensor]:
        """(rowptr_t, col_t, perm), computed when it is first asked for."""
        if self._transposed is None:
            self._transposed = transpose(self.rowptr, self.col, self.num_cols)
        return self._transposed

    def value_t(self, dtype: torch.dtype) -> Tensor | None:
        """The constant values in the order of the transpose, kept until they change in place or are others;
        None where there are none, or where they need a gradient and so are others in each step."""
        if self.value is None or self.value.requires_grad:
            return None
        if (
            torch.compiler.is_compiling()
        ):  # a trace has no versions to compare: the order is part of the graph
            return self.value.to(dtype).index_select(0, self.transposed[2])
        if (
            self._value_t is None
            or self._value_of is not self.value
            or self._value_version != self.value._version
            or self._value_t.dtype != dtype
        ):
            self._value_t = self.value.to(dtype).index_select(0, self.transposed[2])
            self._value_of, self._value_version = self.value, self.value._version
        return self._value_t


def spmm(adj: Adjacency, x: Tensor, *, reduce: str = "sum", implementation: str = "auto") -> Tensor:
    """out[i] = reduce over the entries e of row i of value[e] * x[col[e]]: [num_rows, C] in x's dtype.

    x: [num_cols, C], float32, float64, bfloat16 or float16, on the matrix's device; half precision is summed in float32,
    float16 by a copy of x (on CUDA only for weighted extrema). reduce: "sum", "mean", "max" or "min"; a row without entries is 0. Gradients reach x and,
    where they are asked for, the values. implementation: "auto" takes the quickest on this machine
    (dispatch.py); a name pins it, and with it the bits.
    Raises InvalidConfig for an x that does not fit, or a reduction or an implementation that is not known.
    """
    if x.dtype == torch.float16 and not (x.is_cuda and (adj.value is None or reduce in ("sum", "mean"))):
        return spmm(adj, x.float(), reduce=reduce, implementation=implementation).half()
    if x.dim() == 2 and x.size(0) != adj.num_cols:
        raise InvalidGraph(
            f"x must have a row for each of the {adj.num_cols} columns of the matrix, and got {x.size(0)} rows."
        )
    dtype = torch.promote_types(x.dtype, torch.float32) if x.is_floating_point() else torch.float32
    value = adj.value
    if value is not None:
        value = value.to(dtype).contiguous()
    rowptr_t = col_t = perm = value_t = None
    if torch.is_grad_enabled() and x.requires_grad:
        rowptr_t, col_t, perm = adj.transposed
        value_t = adj.value_t(dtype)
    return op.product(x, adj.rowptr, adj.col, value, rowptr_t, col_t, perm, value_t, reduce, implementation)


def _rebuilt(
    rowptr: Tensor,
    col: Tensor,
    num_cols: int,
    value: Tensor | None,
    transposed: tuple[Tensor, Tensor, Tensor] | None,
) -> Adjacency:
    return Adjacency(rowptr=rowptr, col=col, num_cols=num_cols, value=value, transposed=transposed)


def _check(rowptr: Tensor, col: Tensor, num_cols: int) -> None:
    if rowptr.dim() != 1 or rowptr.dtype != torch.int64 or rowptr.numel() == 0:
        raise InvalidGraph(
            f"rowptr must be int64 [num_rows + 1], and got {rowptr.dtype} {list(rowptr.shape)}."
        )
    if col.dim() != 1 or col.dtype not in (torch.int32, torch.int64):
        raise InvalidGraph(
            f"col must be int32 or int64 [num_entries], and got {col.dtype} {list(col.shape)}."
        )
    if int(rowptr[0]) != 0 or int(rowptr[-1]) != col.numel() or bool((rowptr.diff() < 0).any()):
        raise InvalidGraph(
            f"rowptr must ascend from 0 to the number of entries, {col.numel()}, and got {int(rowptr[0])} "
            f"to {int(rowptr[-1])}{', not ascending' if bool((rowptr.diff() < 0).any()) else ''}."
        )
    if col.numel():
        low, high = (int(bound) for bound in torch.aminmax(col))
        if low < 0 or high >= num_cols:
            wrong = low if low < 0 else high
            place = int((col == wrong).nonzero()[0])
            raise InvalidGraph(f"col[{place}] is {wrong}, and the columns are 0 to {num_cols - 1}.")
