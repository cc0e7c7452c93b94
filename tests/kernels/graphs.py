"""Small directed graphs for tests: self-loops, parallel edges, isolated nodes, hubs, no edges at all."""

from __future__ import annotations

import torch
from hypothesis import strategies as st
from torch import Tensor


def by_target(edge_index: Tensor, num_nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    """(rowptr, col, e_id) the plain way."""
    order = torch.argsort(edge_index[1], stable=True)
    rowptr = torch.zeros(num_nodes + 1, dtype=torch.int64)
    torch.cumsum(torch.bincount(edge_index[1], minlength=num_nodes), 0, out=rowptr[1:])
    return rowptr, edge_index[0][order], order


def random_edges(num_nodes: int, num_edges: int, seed: int) -> Tensor:
    """Random directed edges among all but the last node, with a self-loop and a parallel edge where there is room."""
    generator = torch.Generator().manual_seed(seed)
    edge_index = torch.randint(max(num_nodes - 1, 1), (2, num_edges), generator=generator)
    if num_edges >= 3:
        edge_index[:, 1] = edge_index[:, 0]
        edge_index[1, 2] = edge_index[0, 2]
    return edge_index


@st.composite
def edge_indices(draw: st.DrawFn) -> tuple[Tensor, int]:
    """(edge_index, num_nodes), small."""
    num_nodes = draw(st.integers(1, 12))
    node = st.integers(0, num_nodes - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=60))
    return torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).t().contiguous(), num_nodes
