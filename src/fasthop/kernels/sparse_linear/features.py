"""SparseFeatures: the non-zeros of a feature matrix, and `sparse_linear`, its product with a layer's weight."""

from __future__ import annotations

import torch
from torch import Tensor

from fasthop.errors import InvalidConfig, InvalidGraph
from fasthop.kernels.dropout import dropout_is_on
from fasthop.kernels.sparse_linear import by_rows
from fasthop.kernels.sparse_linear.entry_dropout import entry_dropout
from fasthop.kernels.spmm import op
from fasthop.kernels.spmm.adjacency import Adjacency


class SparseFeatures:
    """Features [N, F] by their non-zeros. Where a weight's gradient reads the transpose, it is computed once.

    matrix: rows are nodes, columns are features, value None for all ones. scale: [num_entries], a factor of each
    non-zero (dropout's), or None.
    """

    __slots__ = ("_scale", "matrix")

    def __init__(self, matrix: Adjacency, scale: Tensor | None = None) -> None:
        self.matrix = matrix
        self._scale = scale

    @classmethod
    def from_tensor(cls, x: Tensor) -> SparseFeatures:
        """The non-zeros of x [N, F]: dense, or torch's COO or CSR; float32 or float64.

        Entries that a COO tensor holds twice are added. Where all are 1 no values are kept. Gradients do not reach x.
        Raises InvalidGraph for another shape or dtype.
        """
        if x.dim() != 2 or x.dtype not in (torch.float32, torch.float64):
            raise InvalidGraph(
                f"sparse features are a float32 or float64 matrix, nodes x features, and got {x.dtype} {list(x.shape)}."
            )
        x = x.detach()
        if x.layout == torch.sparse_coo:
            x = x.coalesce()
            rowptr = torch.zeros(x.size(0) + 1, dtype=torch.int64, device=x.device)
            torch.cumsum(torch.bincount(x.indices()[0], minlength=x.size(0)), 0, out=rowptr[1:])
            col, value = x.indices()[1], x.values()
        elif x.layout == torch.sparse_csr:
            rowptr, col, value = x.crow_indices().long(), x.col_indices(), x.values()
        else:
            row, col = x.nonzero(as_tuple=True)
            rowptr = torch.zeros(x.size(0) + 1, dtype=torch.int64, device=x.device)
            torch.cumsum(torch.bincount(row, minlength=x.size(0)), 0, out=rowptr[1:])
            value = x[row, col]
        constant = None if bool((value == 1).all()) else value.contiguous()
        return cls(Adjacency(rowptr=rowptr, col=col.int().contiguous(), num_cols=x.size(1), value=constant))

    @property
    def shape(self) -> tuple[int, int]:
        """(N, F)."""
        return self.matrix.num_rows, self.matrix.num_cols

    @property
    def num_entries(self) -> int:
        """How many non-zeros there are."""
        return self.matrix.col.numel()

    def dropout(
        self, p: float, *, seed: int | Tensor | None = None, dtype: torch.dtype = torch.float32
    ) -> SparseFeatures:
        """The features with each non-zero dropped with probability p, the others over 1 - p.

        What comes back is one draw: all that use it use one mask, in this order and the transpose's. seed: None
        draws one from torch's generator, so that torch.manual_seed decides. dtype: the weight's. Inside
        `without_dropout()` the features come back as they are.
        Raises InvalidConfig unless 0 <= p <= 1.
        """
        if not 0 <= p <= 1:
            raise InvalidConfig(f"a dropout probability lies between 0 and 1, and got {p!r}.")
        if p == 0 or not dropout_is_on():
            return self
        device = self.matrix.rowptr.device
        if seed is None:
            # On the features' device: a CUDA graph then draws another with every replay.
            seed = torch.randint(2**62, (1,), device=device)
        else:
            seed = torch.as_tensor(seed, dtype=torch.int64).reshape(1).to(device)
        return SparseFeatures(self.matrix, entry_dropout(seed, self.num_entries, p, None, dtype))

    def masked(self, keep: Tensor, p: float) -> SparseFeatures:
        """The features with the non-zeros where keep (bool [num_entries]) is False dropped, the others over 1 - p.

        Raises InvalidConfig for a mask of another shape or dtype, or unless 0 <= p < 1.
        """
        if keep.dtype != torch.bool or keep.shape != (self.num_entries,):
            raise InvalidConfig(
                f"a mask has one bool for each of the {self.num_entries} non-zeros, and got {keep.dtype} {list(keep.shape)}."
            )
        if not 0 <= p < 1:
            raise InvalidConfig(f"the probability of a given mask lies in [0, 1), and got {p!r}.")
        return SparseFeatures(self.matrix, keep.double() / (1 - p))

    def head_of_draw(self, head: SparseFeatures) -> SparseFeatures:
        """The first rows of this draw of dropout. head: the same rows without it, whose transpose is used again."""
        return head if self._scale is None else SparseFeatures(head.matrix, self._scale[: head.num_entries])

    def value(self, dtype: torch.dtype) -> Tensor | None:
        """The values in the order of the matrix, dropout applied; None for all ones."""
        value = self.matrix.value
        if self._scale is None:
            return None if value is None else value.to(dtype).contiguous()
        scale = self._scale.to(dtype)
        return scale if value is None else value.to(dtype) * scale

    def value_t(self, dtype: torch.dtype) -> Tensor | None:
        """The values in the order of the transpose; None for all ones and where dropout makes them others in each step:
        those a gradient then takes from `value`."""
        return self.matrix.value_t(dtype) if self._scale is None else None

    def values(self, dtype: torch.dtype) -> tuple[Tensor | None, Tensor | None]:
        """The values in the order of the matrix and of its transpose, dropout applied; None for all ones."""
        value = self.value(dtype)
        if self._scale is None or value is None:
            return value, self.value_t(dtype)
        return value, value.index_select(0, self.matrix.transposed[2])


def sparse_linear(
    x: SparseFeatures, weight: Tensor, bias: Tensor | None = None, *, implementation: str = "auto"
) -> Tensor:
    """out = x @ weight.T + bias: [N, C] in weight's dtype.

    weight: [C, F] as torch.nn.Linear has it, float32, float64 or bfloat16; bias: [C] or None. Gradients reach both;
    weight's is dense, so that columns no node uses still get weight decay and momentum. implementation: as in spmm.
    Raises InvalidConfig where weight does not fit.
    """
    if weight.dim() != 2 or weight.size(1) != x.shape[1]:
        raise InvalidConfig(
            f"weight must have a column for each of the {x.shape[1]} features, and got the shape {list(weight.shape)}."
        )
    out = _product(x, weight, implementation)
    return out if bias is None else out + bias


def _product(x: SparseFeatures, weight: Tensor, implementation: str) -> Tensor:
    matrix = x.matrix
    dtype = torch.promote_types(weight.dtype, torch.float32)
    value = x.value(dtype)
    is_trained = torch.is_grad_enabled() and weight.requires_grad
    if is_trained and not op.is_traced(weight) and by_rows.serves(matrix, weight, implementation):
        return by_rows.product(weight, matrix, value, implementation)
    rowptr_t = col_t = perm = value_t = None
    if is_trained:
        rowptr_t, col_t, perm = matrix.transposed
        value_t = x.value_t(dtype)
    return op.product(
        weight.t(), matrix.rowptr, matrix.col, value, rowptr_t, col_t, perm, value_t, "sum", implementation
    )
