"""The matrices that several layers read: GCN's normalisation, the edges as they are, means as sums, self-loops added."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import add_self_loops, degree, remove_self_loops

from fasthop.rewrites.exact.fast_layer import dtype_of, normalised, valued
from fasthop.rewrites.exact.hops import Hops, Value
from fasthop.rewrites.exact.known import Edges
from fasthop.rewrites.exact.matrix import Matrix


def gcn_matrix(
    hops: Hops,
    x: Value,
    *,
    improved: bool = False,
    add_self_loops: bool = True,
    hop: int = 0,
    scale: float = 1.0,
) -> Matrix:
    """scale * D^-1/2 (A + I) D^-1/2, the normalisation by PyG's own `gcn_norm`."""
    dtype = dtype_of(x)

    def entries(edge_index: Tensor, edge_weight: Tensor | None) -> Edges:
        looped: Any
        looped, value = gcn_norm(
            edge_index, edge_weight, hops.num_nodes, improved, add_self_loops, "source_to_target", dtype
        )
        return looped, value if scale == 1 or value is None else scale * value

    return normalised(hops, ("gcn_norm", improved, add_self_loops, scale), dtype, entries, hop=hop)


def plain_matrix(hops: Hops, x: Value, hop: int = 0) -> Matrix:
    """The edges as they are, with the weights that the call hands over."""
    return valued(
        hops, "plain", dtype_of(x), lambda edge_index, edge_weight: (edge_index, edge_weight), hop=hop
    )


def aggregating(hops: Hops, x: Value, reduce: str, *, weighted: bool) -> tuple[Matrix, str]:
    """The matrix of the edges, and how it is to be multiplied so that `reduce` comes out. weighted: with their weights.

    A mean is a sum whose values are 1 / in-degree: the gradient of a mean would first divide all rows, one more tensor of
    nodes x channels. Without spmm the mean stays PyG's own.
    """
    if reduce == "mean" and hops.graph.use_spmm:
        kind = "weighted mean" if weighted else "mean"
        matrix = valued(hops, kind, dtype_of(x), lambda i, w: _mean(hops, x, i, w if weighted else None))
        return matrix, "sum"
    if weighted:
        return plain_matrix(hops, x), reduce
    return structure_matrix(hops), reduce


def rooted_matrix(hops: Hops, x: Value, reduce: str, root: float) -> Matrix:
    """A + root * I, A being the sum or the mean over the edges: GIN's sum in one product."""

    def entries(edge_index: Tensor, _: Tensor | None) -> Edges:
        edge_index, value = _mean(hops, x, edge_index, None) if reduce == "mean" else (edge_index, None)
        if value is None:
            value = torch.ones(edge_index.size(1), dtype=dtype_of(x), device=edge_index.device)
        return add_self_loops(edge_index, value, fill_value=root, num_nodes=hops.num_nodes)

    return valued(hops, ("rooted", reduce, root), dtype_of(x), entries)


def looped_matrix(hops: Hops) -> Matrix:
    """The edges with one self-loop a node in place of those that are there, as attention layers add them; no values."""

    def entries() -> Edges:
        edge_index = remove_self_loops(hops.edges()[0])[0]
        return add_self_loops(edge_index, num_nodes=hops.num_nodes)[0], None

    return hops.matrix("looped", entries)


def structure_matrix(hops: Hops) -> Matrix:
    """The edges as they are, without values."""
    return hops.matrix("structure", lambda: (hops.edges()[0], None))


def _mean(hops: Hops, x: Value, edge_index: Tensor, edge_weight: Tensor | None) -> Edges:
    target = edge_index[1]
    share = 1 / degree(target, hops.num_nodes, dtype=dtype_of(x)).clamp(min=1)
    value = share.index_select(0, target)
    return edge_index, value if edge_weight is None else value * edge_weight
