"""The compiled sampler: bit for bit the reference, and what a sample must be, whoever makes it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fasthop.errors import InvalidConfig, InvalidGraph
from fasthop.kernels.sample import reference
from fasthop.kernels.sample.cpu import NeighborSampler
from fasthop.kernels.sample.draw import draw_key
from tests.kernels.graphs import by_target, edge_indices, random_edges


def assert_same(got, expected):
    for name in ("n_id", "edge_index", "e_id", "rowptr"):
        torch.testing.assert_close(getattr(got, name), getattr(expected, name), rtol=0, atol=0)
    assert got.num_sampled_nodes == expected.num_sampled_nodes
    assert got.num_sampled_edges == expected.num_sampled_edges


@settings(max_examples=150, deadline=None)
@given(
    edge_indices(),
    st.lists(st.sampled_from([-1, 0, 1, 2, 3, 7]), min_size=1, max_size=4),
    st.booleans(),
    st.integers(0, 2**64 - 1),
    st.data(),
)
def test_bit_for_bit_the_reference(graph, num_neighbors, replace, key, data):
    edge_index, num_nodes = graph
    rowptr, col, e_id = by_target(edge_index, num_nodes)
    col, e_id = col.to(data.draw(st.sampled_from([torch.int32, torch.int64]))), e_id.to(torch.int32)
    if data.draw(st.booleans()):
        e_id = None
    sampler = NeighborSampler(rowptr, col, e_id, num_neighbors=num_neighbors, replace=replace)
    for turn in range(2):  # the second draw finds the scratch memory of the first
        seeds = torch.tensor(
            data.draw(st.lists(st.integers(0, num_nodes - 1), max_size=8)), dtype=torch.int64
        )
        expected = reference.sample(rowptr, col, e_id, seeds, num_neighbors, replace=replace, key=key ^ turn)
        got = sampler.sample(seeds, key=key ^ turn)
        assert_same(got, expected)
        torch.testing.assert_close(
            sampler.edge_scale(got, torch.float64), reference.edge_scale(rowptr, got), rtol=1e-15, atol=0
        )


@pytest.mark.parametrize(
    ("degree", "k"), [(64, 40), (65, 32), (65, 33), (500, 3), (500, 64), (500, 499), (500, 500)]
)
@pytest.mark.parametrize("replace", [False, True])
def test_hubs_take_every_way_of_drawing(degree, k, replace):
    source = torch.arange(degree) % 97
    edge_index = torch.stack([source, torch.zeros_like(source)]).repeat(1, 2)
    edge_index[1, degree:] = 1
    rowptr, col, e_id = by_target(edge_index, degree)
    sampler = NeighborSampler(rowptr, col, e_id, num_neighbors=[k, 2], replace=replace)
    for key in range(5):
        seeds = torch.tensor([1, 0])
        assert_same(
            sampler.sample(seeds, key=key),
            reference.sample(rowptr, col, e_id, seeds, [k, 2], replace=replace, key=key),
        )


@pytest.mark.parametrize("replace", [False, True])
def test_what_a_sample_is(replace):
    """Checked from the outside: real edges, none twice, min(k, degree) of them, each node expanded once."""
    edge_index = random_edges(200, 3000, seed=1)
    rowptr, col, e_id = by_target(edge_index, 200)
    sampler = NeighborSampler(rowptr, col.int(), e_id.int(), num_neighbors=[4, 3, 2], replace=replace)
    seeds = torch.tensor([7, 199, 0, 42])
    out = sampler.sample(seeds, key=draw_key(3, 1, 4))
    assert torch.equal(out.n_id[:4], seeds)
    assert out.n_id.unique().numel() == out.n_id.numel()
    assert torch.equal(out.n_id[out.edge_index], edge_index[:, out.e_id])
    if not replace:
        assert out.e_id.unique().numel() == out.e_id.numel()
    degree = rowptr.diff()[out.n_id]
    hop = torch.repeat_interleave(torch.arange(4), torch.tensor(out.num_sampled_nodes))
    limit = torch.tensor([4, 3, 2, 0])[hop]
    expected = torch.where(degree > 0, limit, 0) if replace else torch.minimum(degree, limit)
    assert torch.equal(torch.bincount(out.edge_index[1], minlength=out.n_id.numel()), expected)
    assert torch.equal(out.rowptr.diff(), expected)
    assert sum(out.num_sampled_edges) == out.e_id.numel()
    # A node of hop h is a source of hop h's edges, and of none before.
    first_use = torch.full((out.n_id.numel(),), 99)
    edge_hop = torch.repeat_interleave(torch.arange(1, 4), torch.tensor(out.num_sampled_edges))
    first_use.scatter_reduce_(0, out.edge_index[0], edge_hop, "amin")
    assert torch.equal(first_use[4:], hop[4:])


def test_repeated_seeds_keep_a_row_each():
    edge_index = torch.tensor([[1, 2, 0], [0, 0, 1]])
    rowptr, col, e_id = by_target(edge_index, 3)
    out = NeighborSampler(rowptr, col, e_id, num_neighbors=[-1]).sample(torch.tensor([0, 1, 0]), key=0)
    assert out.n_id.tolist() == [0, 1, 0, 2]
    assert out.edge_index.tolist() == [[1, 3, 0, 1, 3], [0, 0, 1, 2, 2]]
    assert out.num_sampled_nodes == [3, 1]


def test_no_edges_gives_the_seeds_alone():
    sampler = NeighborSampler(
        torch.zeros(4, dtype=torch.int64), torch.empty(0, dtype=torch.int32), num_neighbors=[2, 2]
    )
    out = sampler.sample(torch.tensor([2, 0]), key=5)
    assert out.n_id.tolist() == [2, 0]
    assert out.edge_index.shape == (2, 0)
    assert (out.num_sampled_nodes, out.num_sampled_edges) == ([2, 0, 0], [0, 0])


def test_threads_do_not_change_a_draw():
    edge_index = random_edges(500, 8000, seed=2)
    rowptr, col, e_id = by_target(edge_index, 500)
    sampler = NeighborSampler(rowptr, col, e_id, num_neighbors=[5, 5, 5])
    seeds = [torch.randperm(500, generator=torch.Generator().manual_seed(i))[:50] for i in range(24)]
    alone = [sampler.sample(s, key=i) for i, s in enumerate(seeds)]
    for num_threads in (1, 2, 4):
        with ThreadPoolExecutor(num_threads) as threads:
            for got, expected in zip(
                threads.map(lambda i: sampler.sample(seeds[i], key=i), range(24)), alone, strict=True
            ):
                assert_same(got, expected)


def test_keys_tell_counters_apart():
    keys = {draw_key(a, b, c) for a in range(10) for b in range(10) for c in range(10)}
    assert len(keys) == 1000
    assert draw_key(-1, 2**70) == draw_key(-1, 2**70) != draw_key(2**70, -1)


@pytest.mark.parametrize(
    ("num_neighbors", "message"),
    [
        ([], "empty"),
        (5, "one int per hop"),
        ("15", "one int per hop"),
        ([3, -2], r"num_neighbors\[1\] is -2"),
        ([2.5], r"num_neighbors\[0\] is 2.5"),
        ([True], r"num_neighbors\[0\] is True"),
        ({("a", "to", "b"): [3]}, "heterogeneous"),
    ],
)
def test_bad_num_neighbors(num_neighbors, message):
    with pytest.raises(InvalidConfig, match=message):
        NeighborSampler(
            torch.zeros(2, dtype=torch.int64), torch.empty(0, dtype=torch.int64), num_neighbors=num_neighbors
        )


def test_bad_arrays():
    rowptr, col = torch.tensor([0, 1]), torch.tensor([0])
    with pytest.raises(InvalidGraph, match="rowptr"):
        NeighborSampler(torch.tensor([0, 2]), col, num_neighbors=[1])
    with pytest.raises(InvalidGraph, match="e_id"):
        NeighborSampler(rowptr, col, torch.tensor([0, 1]), num_neighbors=[1])
    for seed in (-1, 1):
        with pytest.raises(InvalidGraph, match=f"A seed is {seed}"):
            NeighborSampler(rowptr, col, num_neighbors=[1]).sample(torch.tensor([0, seed]), key=0)
