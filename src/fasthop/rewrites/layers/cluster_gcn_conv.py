"""ClusterGCNConv over its prepared matrix (Chiang et al. 2019)."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor
from torch_geometric.nn import ClusterGCNConv
from torch_geometric.utils import add_self_loops, degree, remove_self_loops

from fasthop.graph.note import Note, note
from fasthop.rewrites.exact.fast_layer import (
    FastLayer,
    aggregates_by_other,
    aggregation,
    dtype_of,
    normalised,
)
from fasthop.rewrites.exact.hops import Hops, Value
from fasthop.rewrites.exact.known import Edges
from fasthop.rewrites.exact.matrix import Matrix
from fasthop.rewrites.layers.rooted import rooted


class FastClusterGCNConv(FastLayer):
    """W_out (A^ + lambda diag(A^)) X + W_root X with A^ = D^-1 (A + I)."""

    covers: ClassVar[Any] = ClusterGCNConv
    normalises = True

    @classmethod
    def refusal(cls, layer: ClusterGCNConv) -> Note | None:
        if not layer.add_self_loops:
            # PyG adds a number a node to the entries on the diagonal, and so asks for exactly one self-loop a node.
            return note(
                "ClusterGCNConv is covered with add_self_loops=True only.",
                "ClusterGCNConv 仅在 add_self_loops=True 时受支持。",
            )
        return aggregates_by_other(layer)

    def forward(self, x: Value, hops: Hops) -> Tensor:
        layer: ClusterGCNConv = self.layer
        reduce = aggregation(layer) or "sum"
        return rooted(self, x, x, self._matrix(x, hops), layer.lin_out, layer.lin_root, reduce)

    def _matrix(self, x: Value, hops: Hops) -> Matrix:
        diag_lambda = float(self.layer.diag_lambda)
        dtype = dtype_of(x)

        def entries(edge_index: Tensor, _: Tensor | None) -> Edges:
            edge_index = remove_self_loops(edge_index)[0]
            edge_index = add_self_loops(edge_index, num_nodes=hops.num_nodes)[0]
            source, target = edge_index
            # In torch's default dtype whatever x's is, as PyG has it.
            value = 1 / degree(target, hops.num_nodes).index_select(0, target)
            return edge_index, value.where(source != target, value + diag_lambda * value)

        return normalised(hops, ("cluster", diag_lambda), dtype, entries)
