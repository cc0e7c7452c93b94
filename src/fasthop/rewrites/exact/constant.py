"""Constant: the known input as it reaches a layer: dense, or by its non-zeros, perhaps aggregated already."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from fasthop.errors import InvalidConfig
from fasthop.kernels.dropout import dropout_is_on
from fasthop.kernels.sparse_linear.features import SparseFeatures, sparse_linear
from fasthop.kernels.spmm.adjacency import Adjacency
from fasthop.rewrites.exact.matrix import Matrix, without_autocast

# A product by non-zeros reads a row of the weight for each: at 16 columns about 30 GFLOP/s where a dense product of these
# shapes runs at 100 and more. So beyond a fifth of non-zeros the dense product is the quicker one.
SPARSE_BELOW = 0.2


class Constant:
    """A constant matrix [n, F]: dense, by its non-zeros, or both. It needs no gradient and nothing random stands before it,
    unless it is `dropped`: then it is one draw of dropout, good for one forward pass.

    keeps_products: whether a product with a matrix is computed once and kept (the rung `first_hop`).
    make: gives the first n rows, dense, in the place of `dense`: rows that are needed for one product only, or for their
    non-zeros, are not kept.
    """

    def __init__(
        self,
        *,
        dense: Tensor | None = None,
        sparse: SparseFeatures | None = None,
        make: Callable[[int], Tensor] | None = None,
        shape: tuple[int, int] | None = None,
        dtype: torch.dtype,
        keeps_products: bool = False,
        undropped: Constant | None = None,
        acted: set[str] | None = None,
    ) -> None:
        if dense is not None:
            shape = (dense.size(0), dense.size(1))
        elif sparse is not None:
            shape = sparse.shape
        if shape is None:
            raise InvalidConfig("A Constant needs its dense form or its non-zeros, and got neither.")
        self._dense, self.sparse, self.dtype = dense, sparse, dtype
        self._make = make
        self.num_rows, self.num_features = shape
        self.keeps_products = keeps_products
        self._undropped = undropped
        self._acted: set[str] = set() if acted is None else acted
        self._heads: dict[int, Constant] = {}
        self._products: dict[tuple[int, str], tuple[Matrix, Constant | None]] = {}

    @classmethod
    def of(
        cls, x: Tensor, *, by_non_zeros: bool, keeps_products: bool, acted: set[str] | None = None
    ) -> Constant:
        """Of a dense [n, F]. by_non_zeros: keep the non-zeros where they are few enough to be the quicker form."""
        sparse = None
        if by_non_zeros and x.device.type == "cpu" and density(x) < SPARSE_BELOW:
            sparse = SparseFeatures.from_tensor(x)
        return cls(dense=x, sparse=sparse, dtype=x.dtype, keeps_products=keeps_products, acted=acted)

    @classmethod
    def arranged(
        cls,
        make: Callable[[int], Tensor],
        shape: tuple[int, int],
        *,
        dtype: torch.dtype,
        by_non_zeros: bool,
        keeps_products: bool,
        acted: set[str] | None = None,
    ) -> Constant:
        """Of what `make` gives; as `of`, but the dense form is made when it is asked for."""
        sparse = None
        if by_non_zeros:
            dense = make(shape[0])
            if dense.device.type == "cpu" and density(dense) < SPARSE_BELOW:
                sparse = SparseFeatures.from_tensor(dense)
        return cls(
            sparse=sparse, make=make, shape=shape, dtype=dtype, keeps_products=keeps_products, acted=acted
        )

    @property
    def _sparse(self) -> SparseFeatures:
        assert self.sparse is not None
        return self.sparse

    def dense(self) -> Tensor:
        """The dense form [n, F]; from now on it is kept."""
        if self._dense is None:
            self._dense = self._made()
        return self._dense

    def _made(self) -> Tensor:
        if self._dense is not None:
            return self._dense
        if self._make is not None:
            return self._make(self.num_rows)
        return densified(self._sparse, self.dtype)

    def head(self, num_rows: int) -> Constant:
        """The first rows, sharing memory; the same object on each call."""
        if num_rows == self.num_rows:
            return self
        if num_rows not in self._heads:
            self._heads[num_rows] = self._first(num_rows)
        return self._heads[num_rows]

    def _first(self, num_rows: int) -> Constant:
        if self._undropped is not None:
            # The rows' structure and its transpose are the undropped one's, kept there; only the draw is new.
            plain = self._undropped.head(num_rows)
            sparse = self._sparse.head_of_draw(plain._sparse)
            return Constant(sparse=sparse, dtype=self.dtype, undropped=plain, acted=self._acted)
        return Constant(
            dense=None if self._dense is None else self._dense[:num_rows],
            sparse=None if self.sparse is None else sparse_head(self.sparse, num_rows),
            make=self._make,
            shape=(num_rows, self.num_features),
            dtype=self.dtype,
            keeps_products=self.keeps_products,
            acted=self._acted,
        )

    def linear(self, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """self @ weight.T + bias."""
        if self.sparse is not None:
            self._acted.add("sparse_features")
            with without_autocast(weight.device.type):
                return sparse_linear(self.sparse, weight, bias)
        return F.linear(self.dense(), weight, bias)

    def dropout(self, p: float) -> Constant:
        """One draw of dropout for all who read it. Only for a Constant with non-zeros."""
        if p == 0 or not dropout_is_on():
            return self
        drawn = self._sparse.dropout(p, dtype=self.dtype)
        return Constant(sparse=drawn, dtype=self.dtype, undropped=self, acted=self._acted)

    def product(self, matrix: Matrix, reduce: str = "sum") -> Constant | None:
        """matrix @ self as a constant, computed once and kept; None where products are not kept, or where
        the product has so many non-zeros that multiplying anew is the cheaper way."""
        if not self.keeps_products or self._undropped is not None:
            return None
        place = (id(matrix), reduce)
        if place not in self._products:
            # The matrix is kept beside its product, so that its id stays its own.
            self._products[place] = (matrix, self._multiplied(matrix, reduce))
        product = self._products[place][1]
        if product is not None:
            self._acted.add("first_hop")
        return product

    def _multiplied(self, matrix: Matrix, reduce: str) -> Constant | None:
        # What is kept is in full precision, whatever the call that first asked for it runs under.
        with torch.no_grad(), without_autocast(matrix.adjacency.col.device.type):
            if self.sparse is None:
                dense = matrix.times(self._made(), reduce)
                return Constant(dense=dense, dtype=dense.dtype, keeps_products=True, acted=self._acted)
            if reduce not in ("sum", "mean"):
                return self._extremum(matrix, reduce)
            product = _sparse_product(matrix, self._sparse, reduce, self.dtype)
            if product is None:
                return None
            return Constant(sparse=product, dtype=self.dtype, keeps_products=True, acted=self._acted)

    def _extremum(self, matrix: Matrix, reduce: str) -> Constant | None:
        """Max and min by way of the dense form, where that is at hand; only its non-zeros are kept if they are few."""
        if self._dense is None:
            return None
        product = matrix.times(self._dense, reduce)
        if density(product) >= SPARSE_BELOW:
            return Constant(dense=product, dtype=self.dtype, keeps_products=True, acted=self._acted)
        sparse = SparseFeatures.from_tensor(product)
        return Constant(sparse=sparse, dtype=self.dtype, keeps_products=True, acted=self._acted)


def density(x: Tensor) -> float:
    """The share of non-zeros of x."""
    return float(torch.count_nonzero(x)) / max(x.numel(), 1)


def densified(features: SparseFeatures, dtype: torch.dtype) -> Tensor:
    """The dense [n, F] of features, dropout applied."""
    matrix = features.matrix
    value, _ = features.values(dtype)
    num_rows, num_cols = features.shape
    device = matrix.rowptr.device
    rows = torch.repeat_interleave(torch.arange(num_rows, device=device), matrix.rowptr.diff())
    out = torch.zeros(num_rows, num_cols, dtype=dtype, device=device)
    ones = torch.ones(features.num_entries, dtype=dtype, device=device) if value is None else value
    return out.index_put_((rows, matrix.col.long()), ones, accumulate=True)


def sparse_head(features: SparseFeatures, num_rows: int) -> SparseFeatures:
    """The first rows of features, as views. For features without dropout."""
    matrix = features.matrix
    num_entries = int(matrix.rowptr[num_rows])
    value = matrix.value
    return SparseFeatures(
        Adjacency(
            rowptr=matrix.rowptr[: num_rows + 1],
            col=matrix.col[:num_entries],
            num_cols=matrix.num_cols,
            value=None if value is None else value[:num_entries],
        )
    )


def _sparse_product(
    matrix: Matrix, features: SparseFeatures, reduce: str, dtype: torch.dtype
) -> SparseFeatures | None:
    """The product by its non-zeros, or None where it has more of them than both factors together."""
    left, right = matrix.adjacency, features.matrix
    product = _csr(left, dtype) @ _csr(right, dtype)
    if product.values().numel() >= left.col.numel() + right.col.numel():
        return None
    value = product.values()
    if reduce == "mean":
        count = left.rowptr.diff().clamp(min=1)
        value = value / torch.repeat_interleave(count, product.crow_indices().diff()).to(dtype)
    return SparseFeatures(
        Adjacency(
            rowptr=product.crow_indices().long(),
            col=product.col_indices().int(),
            num_cols=right.num_cols,
            value=value,
        )
    )


def _csr(matrix: Adjacency, dtype: torch.dtype) -> Tensor:
    value = matrix.value
    if value is None:
        value = torch.ones(matrix.col.numel(), dtype=dtype, device=matrix.col.device)
    value = value.to(dtype)
    size = (matrix.num_rows, matrix.num_cols)
    with warnings.catch_warnings():
        # torch says once a process that CSR tensors are in beta; a user who never asked for one need not read it.
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")
        return torch.sparse_csr_tensor(matrix.rowptr, matrix.col.long(), value, size, check_invariants=False)
