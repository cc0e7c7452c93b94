"""The matrices that several layers read: GCN's normalisation and the edges as they are."""

from __future__ import annotations

from torch_geometric.nn.conv.gcn_conv import gcn_norm

from fasthop.rewrites.exact.fast_layer import dtype_of, normalised
from fasthop.rewrites.exact.hops import Hops, Value
from fasthop.rewrites.exact.matrix import Matrix


def gcn_matrix(
    hops: Hops, x: Value, *, improved: bool = False, add_self_loops: bool = True, hop: int = 0
) -> Matrix:
    """D^-1/2 (A + I) D^-1/2 by PyG's own `gcn_norm`."""
    dtype = dtype_of(x)
    return normalised(
        hops,
        ("gcn_norm", improved, add_self_loops),
        dtype,
        lambda edge_index, edge_weight: gcn_norm(
            edge_index, edge_weight, hops.num_nodes, improved, add_self_loops, "source_to_target", dtype
        ),
        hop=hop,
    )


def plain_matrix(hops: Hops, x: Value, hop: int = 0) -> Matrix:
    """The edges as they are, with the weights that the call hands over."""
    return normalised(
        hops, "plain", dtype_of(x), lambda edge_index, edge_weight: (edge_index, edge_weight), hop=hop
    )
