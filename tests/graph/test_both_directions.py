from __future__ import annotations

from collections import Counter

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.utils import coalesce, to_undirected

from fasthop.graph.both_directions import edges_without_reverse

EDGES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=20)


def tensor(edges):
    return torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).t().contiguous()


def undirected(edge_index, num_nodes):
    lone = edges_without_reverse(edge_index, num_nodes)
    return torch.cat([edge_index, edge_index[:, lone].flip(0)], dim=1)


@given(EDGES, st.sampled_from([6, 4_000_000_000]))
def test_as_pygs_to_undirected_but_for_parallel_edges(edges, num_nodes):
    both = undirected(tensor(edges), num_nodes)
    expected = to_undirected(tensor(edges), num_nodes=6)
    assert torch.equal(coalesce(both, num_nodes=6), expected)
    # Nothing of the user's is moved or lost, and a second time there is nothing to add.
    assert both[:, : len(edges)].tolist() == tensor(edges).tolist()
    assert edges_without_reverse(both, num_nodes).numel() == 0


@given(EDGES)
def test_parallel_edges_have_as_many_reverses(edges):
    counts, both = Counter(edges), Counter(map(tuple, undirected(tensor(edges), 6).t().tolist()))
    for (a, b), count in counts.items():
        assert both[(a, b)] == (count if a == b else max(count, counts[(b, a)]))
        assert both[(a, b)] == both[(b, a)]


def test_int32_and_no_edges():
    edge_index = torch.tensor([[0, 1, 2], [1, 0, 1]], dtype=torch.int32)
    assert edges_without_reverse(edge_index, 3).tolist() == [2]
    assert edges_without_reverse(torch.empty(2, 0, dtype=torch.int64), 3).tolist() == []
