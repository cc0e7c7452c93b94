"""KnownGraph: the very tensors that a fast model was prepared for, and the matrices made of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import Tensor

from fasthop.graph.csr import CSR
from fasthop.kernels.spmm.adjacency import Adjacency
from fasthop.rewrites.exact.matrix import Matrix
from fasthop.rewrites.exact.order import NodeOrder

Edges = tuple[Tensor, Tensor | None]
"""edge_index [2, e] and the value of each entry, or None for ones."""


class Known:
    """A tensor that is recognised again as long as it is the same object and was not changed in place."""

    __slots__ = ("_address", "_version", "tensor")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self._version, self._address = _version(tensor), _address(tensor)

    def is_it(self, other: Any) -> bool:
        """Whether `other` is the tensor, unchanged since."""
        return other is self.tensor and self.is_unchanged

    @property
    def is_unchanged(self) -> bool:
        """Whether the tensor holds what it held, and asks for no gradient, which what was prepared of it would not give."""
        tensor = self.tensor
        return (
            not tensor.requires_grad
            and _version(tensor) == self._version
            and _address(tensor) == self._address
        )


class KnownGraph:
    """edge_index and edge_weight as they were given, the order of the nodes, and prepared matrices by their key.

    A matrix is made of the whole graph once a key (PyG's own functions compute its entries, in the user's order);
    the rows that a layer needs are a prefix of it. acted: the names of the rungs that changed what was computed, noted by
    layers and constants as they run.
    """

    def __init__(
        self,
        edge_index: Tensor,
        edge_weight: Tensor | None,
        order: NodeOrder,
        *,
        use_spmm: bool,
        acted: set[str] | None = None,
    ) -> None:
        self.edge_index = Known(edge_index)
        self.edge_weight = None if edge_weight is None else Known(edge_weight)
        self.order = order
        self.use_spmm = use_spmm
        self.acted: set[str] = set() if acted is None else acted
        self._whole: dict[Hashable, tuple[CSR, Tensor | None]] = {}
        self._parts: dict[Hashable, Matrix] = {}

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self.order.num_nodes

    def edges(self, weighted: bool) -> Edges:
        """(edge_index int64, edge_weight or None) as the user gave them."""
        weight = self.edge_weight.tensor if weighted and self.edge_weight is not None else None
        if weight is not None and weight.dim() == 2 and weight.size(1) == 1:
            weight = weight.squeeze(1)  # PyG's layers look at [E, 1] as [E]
        return self.edge_index.tensor.long(), weight

    def matrix(self, key: Hashable, make: Callable[[], Edges], depth: int) -> Matrix:
        """The matrix [size(depth), size(depth + 1)] of the edges that `make()` returns in the user's order; kept by key.

        The rows of a prefix have their columns in the next prefix, as long as every edge of `make()` is one of the
        graph's or a self-loop.
        """
        num_rows, num_cols = self.order.size(depth), self.order.size(depth + 1)
        place = (key, num_rows, num_cols)
        if place not in self._parts:
            if key not in self._whole:
                self._whole[key] = self._sorted(*make())
            csr, value = self._whole[key]
            num_entries = int(csr.rowptr[num_rows])
            part = Adjacency(
                rowptr=csr.rowptr[: num_rows + 1],
                col=csr.col[:num_entries],
                num_cols=num_cols,
                value=None if value is None else value[:num_entries],
            )
            self._parts[place] = Matrix(part, use_spmm=self.use_spmm)
        return self._parts[place]

    def _sorted(self, edge_index: Tensor, value: Tensor | None) -> tuple[CSR, Tensor | None]:
        rank = self.order.rank
        arranged = edge_index if rank is None else rank[edge_index]
        csr = CSR.from_edge_index(arranged, self.num_nodes)
        if value is None or bool((value == 1).all()):
            return csr, None
        return csr, value.detach().index_select(0, csr.e_id.long())


def _version(tensor: Tensor) -> int:
    return -1 if tensor.is_inference() else tensor._version


def _address(tensor: Tensor) -> int:
    """Of its memory, which `tensor.data = other` changes without a new version; of a sparse one nothing is known."""
    return tensor.data_ptr() if tensor.layout == torch.strided else 0


def is_plain(tensor: Any) -> bool:
    """Whether it is a dense tensor [2, E] of integers, and not one of PyG's or torch's sparse forms."""
    return type(tensor) is Tensor and tensor.layout == torch.strided and tensor.dim() == 2
