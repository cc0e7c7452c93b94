"""On a closed subgraph the seeds' outputs are those of the whole graph, in PyG itself."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.nn import GATConv, GCNConv, SAGEConv

from fasthop.errors import InvalidConfig, InvalidGraph
from fasthop.verify.subgraph import NODE_SIZE, Reach, Subgraph, closed_subgraph, shrunken
from tests.kernels.graphs import edge_indices, random_edges
from tests.verify.models import Net, data


def cut(reach: Reach, max_size: int = 10**9, seed: int = 0) -> Subgraph | None:
    generator = torch.Generator().manual_seed(seed)
    return closed_subgraph(reach, max_size=max_size, generator=generator)


@pytest.mark.parametrize(("conv", "num_hops"), [(SAGEConv, 2), (GATConv, 2), (GCNConv, 3)])
@pytest.mark.parametrize("seed", range(4))
def test_the_seeds_outputs_are_those_of_the_whole_graph(conv, num_hops, seed):
    graph = data(num_nodes=200, num_edges=360, seed=seed)
    model = Net(conv).double().eval()
    x = graph.x.double()
    reach = Reach(edge_index=graph.edge_index, num_nodes=200, seeds=graph.rows, num_hops=num_hops)
    part = cut(reach, max_size=80 * NODE_SIZE, seed=seed)
    assert part is not None
    assert 0 < part.num_edges < 360
    whole = model(x, graph.edge_index)
    closed = model(x[part.n_id], part.edge_index)
    assert torch.allclose(closed[part.seeds], whole[part.n_id[part.seeds]], rtol=0, atol=1e-12)
    rows = set(graph.rows.tolist())
    assert all(int(node) in rows for node in part.n_id[part.seeds])


@given(edge_indices(), st.data())
@settings(deadline=None, max_examples=80)
def test_it_holds_the_in_neighbourhood_of_its_seeds_and_all_its_edges(graph, drawn):
    edge_index, num_nodes = graph
    seeds = drawn.draw(st.lists(st.integers(0, num_nodes - 1), min_size=1, max_size=5))
    num_hops = drawn.draw(st.integers(1, 3))
    max_size = drawn.draw(st.integers(NODE_SIZE, 60 + NODE_SIZE * num_nodes))
    reach = Reach(edge_index=edge_index, num_nodes=num_nodes, seeds=torch.tensor(seeds), num_hops=num_hops)
    part = cut(reach, max_size)

    def within(chosen: set[int]) -> tuple[set[int], list[int]]:
        nodes, kept = set(chosen), set()
        for _ in range(num_hops):
            edges = [e for e, target in enumerate(edge_index[1].tolist()) if target in nodes]
            kept |= set(edges)
            nodes = nodes | {int(edge_index[0, e]) for e in edges}
        return nodes, sorted(kept)

    if part is None:
        for node in set(seeds):
            nodes, kept = within({node})
            assert len(kept) + NODE_SIZE * len(nodes) > max_size
        return
    assert part.size <= max_size
    nodes, kept = within(set(part.n_id[part.seeds].tolist()))
    assert part.n_id.tolist() == sorted(nodes)
    assert part.e_id.tolist() == kept
    assert torch.equal(part.n_id[part.edge_index], edge_index[:, part.e_id])


def test_all_seeds_are_taken_where_they_fit_and_parallel_edges_and_loops_stay():
    edge_index = random_edges(30, 90, 2)
    reach = Reach(edge_index=edge_index, num_nodes=30, seeds=torch.arange(30), num_hops=1)
    part = cut(reach)
    assert part is not None
    assert torch.equal(part.edge_index, edge_index)
    assert part.seeds.tolist() == part.n_id.tolist() == list(range(30))


def test_a_hub_that_does_not_fit_is_passed_over():
    hub = torch.stack([torch.arange(1, 50), torch.zeros(49, dtype=torch.int64)])
    path = torch.tensor([[1, 2, 3], [2, 3, 4]])
    edge_index = torch.cat([hub, path], 1)
    reach = Reach(edge_index=edge_index, num_nodes=50, seeds=torch.tensor([0, 2, 3]), num_hops=1)
    part = cut(reach, max_size=60)
    assert part is not None
    assert part.n_id[part.seeds].tolist() == [2, 3]
    only = Reach(edge_index=edge_index, num_nodes=50, seeds=torch.tensor([0]), num_hops=1)
    assert cut(only, max_size=60) is None


def test_the_same_generator_gives_the_same_part():
    graph = data(num_nodes=200, num_edges=400)
    reach = Reach(edge_index=graph.edge_index, num_nodes=200, seeds=graph.rows, num_hops=2)
    one, two, other = cut(reach, 250), cut(reach, 250), cut(reach, 250, seed=1)
    assert one is not None
    assert two is not None
    assert other is not None
    assert torch.equal(one.n_id, two.n_id)
    assert not torch.equal(one.n_id, other.n_id)


def test_a_shrunken_graph_keeps_how_many_edges_a_node_has():
    graph = data(num_nodes=1_000, num_edges=7_000)
    reach = Reach(edge_index=graph.edge_index, num_nodes=1_000, seeds=graph.rows, num_hops=2)
    small = shrunken(reach, 0.1, generator=torch.Generator().manual_seed(0))
    assert (small.num_nodes, small.num_edges, small.seeds.numel()) == (100, 700, 50)
    assert int(small.edge_index.max()) < 100
    assert torch.equal(small.edge_index, graph.edge_index[:, small.e_id] % 100)
    empty = Reach(
        edge_index=torch.empty(2, 0, dtype=torch.int64), num_nodes=50, seeds=torch.tensor([3]), num_hops=1
    )
    none = shrunken(empty, 0.001, generator=torch.Generator().manual_seed(0))
    assert (none.num_nodes, none.num_edges, none.seeds.tolist()) == (1, 0, [0])


def test_bad_input_is_refused():
    edge_index = torch.tensor([[0], [1]])
    with pytest.raises(InvalidConfig, match="num_hops is 0"):
        Reach(edge_index=edge_index, num_nodes=2, seeds=torch.tensor([0]), num_hops=0)
    with pytest.raises(InvalidConfig, match="no seeds"):
        Reach(edge_index=edge_index, num_nodes=2, seeds=torch.tensor([], dtype=torch.int64), num_hops=1)
    with pytest.raises(InvalidGraph, match=r"seeds\[0\] is 2"):
        Reach(edge_index=edge_index, num_nodes=2, seeds=torch.tensor([2]), num_hops=1)
