"""Both directions: which edges lack their reverse."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def edges_without_reverse(edge_index: Tensor, num_nodes: int) -> Tensor:
    """int64, ascending: the places of the edges whose reverse is not there. Adding just these makes the graph
    undirected once and for all: an undirected graph gains nothing, self-loops are their own reverse, and of n
    parallel edges one way and m < n back, n - m are lone. (PyG's to_undirected merges parallel edges.)
    """
    source, target = (part.cpu().numpy().astype(np.int64) for part in edge_index)
    num_edges = source.size
    if not num_edges:
        return torch.empty(0, dtype=torch.int64, device=edge_index.device)
    # Ids of the ordered pairs that fit into int64 whatever num_nodes: N * N would not for huge graphs.
    if num_nodes < 3_000_000_000:
        forth, back = source * num_nodes + target, target * num_nodes + source
        _, pair = np.unique(np.concatenate([forth, back]), return_inverse=True)
    else:
        both = np.concatenate([np.stack([source, target]), np.stack([target, source])], axis=1)
        _, pair = np.unique(both, axis=1, return_inverse=True)
    forth, back = pair[:num_edges], pair[num_edges:]
    counts = np.bincount(forth, minlength=int(pair.max()) + 1)
    # The k-th copy of a pair is lone where its reverse has fewer than k copies.
    order = np.argsort(forth, kind="stable")
    starts = np.cumsum(counts) - counts
    rank = np.empty(num_edges, np.int64)
    rank[order] = np.arange(num_edges) - starts[forth[order]]
    lone = np.flatnonzero(rank >= counts[back])
    return torch.from_numpy(lone).to(edge_index.device)
