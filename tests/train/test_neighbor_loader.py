"""NeighborLoader keeps PyG's contract: the batches, their attributes, the order of the seeds, epochs."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.loader.utils import filter_data
from torch_geometric.nn import GraphSAGE

from fasthop.graph.graph import Graph
from fasthop.train.neighbor_loader import NeighborLoader
from tests.kernels.graphs import random_edges


def make_data(num_nodes: int = 60, num_edges: int = 400, seed: int = 0) -> Data:
    torch.manual_seed(seed)
    return Data(
        x=torch.randn(num_nodes, 7),
        edge_index=random_edges(num_nodes, num_edges, seed),
        y=torch.arange(num_nodes),
        train_mask=torch.rand(num_nodes) < 0.5,
        edge_weight=torch.rand(num_edges),
        edge_attr=torch.randn(num_edges, 3).bfloat16(),
        pos=np.random.default_rng(seed).random((num_nodes, 2)),
        name_of=[f"node {i}" for i in range(num_nodes)],
        long_mask=torch.rand(num_nodes, 10) < 0.5,
        some_index=torch.randint(9, (2, num_edges)),
        graph_level=torch.tensor([3.0, 4.0]),
        note="kept as it is",
    )


def assert_equal_batches(got, expected):
    assert got.keys() == expected.keys()
    for key in expected.keys():  # noqa: SIM118 - a Data iterates over pairs
        if isinstance(expected[key], torch.Tensor):
            assert torch.equal(got[key], expected[key]), key
        else:
            assert got[key] == expected[key], key


def test_attributes_are_sliced_as_pyg_slices_them():
    data = make_data()
    loader = NeighborLoader(data, [3, 2], input_nodes=data.train_mask, batch_size=8)
    place = data.train_mask.nonzero().view(-1)
    del data.name_of  # PyG cannot slice lists
    for number, batch in enumerate(loader):
        row, col = batch.edge_index
        expected = filter_data(data, batch.n_id, row, col, batch.e_id)
        for key in expected.keys():  # noqa: SIM118
            same = torch.equal if isinstance(expected[key], torch.Tensor) else lambda a, b: a == b
            assert same(batch[key], expected[key]), key
        assert set(batch.keys()) - set(expected.keys()) == {
            "n_id", "e_id", "num_sampled_nodes", "num_sampled_edges", "input_id", "batch_size",
        }  # fmt: skip
        seeds = place[8 * number : 8 * number + 8]
        assert batch.batch_size == seeds.numel()
        assert torch.equal(batch.input_id, seeds)
        assert torch.equal(batch.n_id[: batch.batch_size], seeds)
        assert torch.equal(batch.y, batch.n_id)
        assert sum(batch.num_sampled_nodes) == batch.num_nodes
        assert len(batch.num_sampled_nodes) == 3
        assert sum(batch.num_sampled_edges) == batch.num_edges
    assert number + 1 == len(loader)


def test_lists_are_sliced_and_the_data_is_left_alone():
    data = make_data()
    before = data.clone()
    batch = next(iter(NeighborLoader(data, [-1], batch_size=5)))
    assert batch.name_of == [f"node {int(v)}" for v in batch.n_id]
    assert batch.is_edge_attr("edge_weight")
    assert batch.edge_index.is_contiguous()
    assert data.keys() == before.keys()
    assert all(torch.equal(data[k], before[k]) for k in before.keys() if isinstance(before[k], torch.Tensor))  # noqa: SIM118


def test_only_the_seeds_enter_the_loss():
    """Case 8: the first batch_size rows are the seeds in order; predicting all nodes gives each once."""
    edge_index = torch.tensor([[0, 1, 2, 3, 4, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0, 1, 2, 3, 4]])
    data = Data(x=torch.eye(6), edge_index=edge_index, y=torch.arange(6))
    batches = list(NeighborLoader(data, [2, 2], input_nodes=torch.tensor([1, 3, 5]), batch_size=2))
    assert [b.y[: b.batch_size].tolist() for b in batches] == [[1, 3], [5]]
    assert [b.input_id.tolist() for b in batches] == [[0, 1], [2]]
    seen = torch.cat([b.y[: b.batch_size] for b in NeighborLoader(data, [2, 2], batch_size=4, shuffle=True)])
    assert sorted(seen.tolist()) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "options", [{"num_threads": 1}, {"num_threads": 2}, {"num_threads": 4}, {"num_workers": 3}]
)
def test_threads_and_workers_do_not_change_the_batches(options):
    """Case 25."""
    data = make_data()
    common = {"batch_size": 7, "shuffle": True, "seed": 5}
    alone = NeighborLoader(data, [3, 2], **common)
    threaded = NeighborLoader(data, [3, 2], **common, **options)
    for _ in range(2):
        for expected, got in zip(alone, threaded, strict=True):
            assert_equal_batches(got, expected)


def test_epochs_and_seeds():
    data = make_data()

    def nodes(loader):
        return [b.n_id.tolist() for b in loader]

    loader = NeighborLoader(data, [2, 2], batch_size=16, shuffle=True, seed=1)
    first, second = nodes(loader), nodes(loader)
    assert first != second
    assert sorted(v for b, ids in zip(loader, first, strict=True) for v in ids[: b.batch_size]) == list(
        range(60)
    )
    loader.set_epoch(0)
    assert nodes(loader) == first
    assert nodes(loader) == second
    assert nodes(NeighborLoader(data, [2, 2], batch_size=16, shuffle=True, seed=1)) == first
    assert nodes(NeighborLoader(data, [2, 2], batch_size=16, shuffle=True, seed=2)) != first
    in_order = NeighborLoader(data, [2], batch_size=16)
    assert [b.input_id.tolist() for b in in_order] == [b.input_id.tolist() for b in in_order]
    assert nodes(in_order) != nodes(in_order), "the draws are new each epoch"


def test_two_iterations_at_once():
    data = make_data()
    loader = NeighborLoader(data, [3, 2], batch_size=10, num_threads=2)
    pairs = list(zip(loader, loader, strict=True))
    loader.set_epoch(0)
    for (first, _), expected in zip(pairs, loader, strict=True):
        assert_equal_batches(first, expected)


@pytest.mark.parametrize("num_threads", [0, 2])
def test_stopping_early_leaves_nothing_behind(num_threads):
    import threading

    loader = NeighborLoader(make_data(), [3, 2], batch_size=4, num_threads=num_threads)
    for _ in loader:
        break
    import gc

    gc.collect()
    assert not [t for t in threading.enumerate() if t.name.startswith("fasthop-loader")]


def test_number_of_batches():
    data = make_data()
    nodes = torch.arange(33)
    for batch_size, drop_last, expected in [
        (8, False, 5),
        (8, True, 4),
        (33, False, 1),
        (40, True, 0),
        (1, False, 33),
    ]:
        loader = NeighborLoader(data, [2], nodes, batch_size=batch_size, drop_last=drop_last)
        assert len(loader) == len(list(loader)) == expected
        assert len(loader.dataset) == 33


@pytest.mark.parametrize(
    ("count", "batch_size", "sizes"),
    [
        (33, 8, [8, 8, 8, 9]),
        (34, 8, [8, 8, 8, 8, 2]),
        (1, 8, [1]),
        (3, 1, [1, 1, 1]),
        (9, 8, [9]),
        (8, 8, [8]),
    ],
)
def test_a_last_batch_of_one_is_merged(count, batch_size, sizes):
    """Case 27: the last batch holds one isolated seed, on which BatchNorm cannot train."""
    data = make_data()
    nodes = torch.cat([torch.arange(count - 1), torch.tensor([59])])  # node 59 is isolated
    loader = NeighborLoader(data, [2, 2], nodes, batch_size=batch_size, merge_last_single=True)
    batches = list(loader)
    assert [b.batch_size for b in batches] == sizes
    assert len(loader) == len(sizes)
    assert torch.cat([b.n_id[: b.batch_size] for b in batches]).tolist() == nodes.tolist()
    if count > 1 and batch_size > 1:
        norm = torch.nn.BatchNorm1d(7)
        for batch in batches:
            norm(batch.x[: batch.batch_size])


def test_calling_the_loader_and_transform():
    data = make_data()
    loader = NeighborLoader(
        data, [2], torch.tensor([5, 6, 7]), batch_size=2, transform=lambda b: (b, b.batch_size)
    )
    batch, size = loader([2, 0])
    assert size == 2
    assert batch.n_id[:2].tolist() == [7, 5]
    assert batch.input_id.tolist() == [2, 0]
    assert [size for _, size in loader] == [2, 1]
    assert loader(torch.tensor([1]))[0].n_id[0] == 6


def test_attributes_may_be_changed_after_construction():
    """As PyG's examples do it for inference: drop x, and let n_id find the features."""
    data = make_data()
    loader = NeighborLoader(data.clone(), [-1], batch_size=16)
    del loader.data.x, loader.data.y, loader.data.long_mask
    loader.data.num_nodes = 60
    loader.data.n_id = torch.arange(60)
    for batch in loader:
        assert "x" not in batch
        assert batch.num_nodes == batch.n_id.numel()
        assert torch.equal(batch.input_id, batch.n_id[: batch.batch_size])


def test_as_many_nodes_as_edges():
    """What has "edge" in its name is the edges'."""
    data = Data(x=torch.randn(5, 2), edge_index=torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]]))
    data.edge_weight, data.y = torch.arange(5.0), torch.arange(5)
    batch = next(iter(NeighborLoader(data, [1], torch.tensor([3]))))
    assert batch.edge_weight.tolist() == [2.0]
    assert batch.y.tolist() == [3, 2]


def test_trim_to_layer_leaves_the_seeds_rows():
    data = make_data()
    model = GraphSAGE(7, 8, num_layers=3, out_channels=4).double()
    data.x = data.x.double()
    for batch in NeighborLoader(data, [4, 3, 2], batch_size=9):
        whole = model(batch.x, batch.edge_index)
        trimmed = model(
            batch.x,
            batch.edge_index,
            num_sampled_nodes_per_hop=batch.num_sampled_nodes,
            num_sampled_edges_per_hop=batch.num_sampled_edges,
        )
        torch.testing.assert_close(
            trimmed[: batch.batch_size], whole[: batch.batch_size], rtol=1e-12, atol=1e-12
        )


def test_repeated_seeds_and_replacement():
    data = make_data()
    batch = next(iter(NeighborLoader(data, [3], torch.tensor([4, 4, 9]), batch_size=3, replace=True)))
    assert batch.n_id[:3].tolist() == [4, 4, 9]
    assert batch.num_sampled_edges == [9]
    assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])


def test_no_edges():
    """Case 30: sampling gives the seeds alone."""
    data = Data(x=torch.tensor([[1.0], [2.0], [3.0]]), edge_index=torch.empty(2, 0, dtype=torch.int64))
    batches = list(NeighborLoader(data, [5, 5], batch_size=2))
    assert [b.x.view(-1).tolist() for b in batches] == [[1, 2], [3]]
    assert batches[0].edge_index.shape == (2, 0)
    assert batches[0].num_sampled_nodes == [2, 0, 0]


def test_a_graph_of_ours():
    """Its batches are those of its Data, with edge_scale besides."""
    data = make_data()
    mask = torch.arange(60) % 2 == 0
    graph = Graph(
        x=data.x.double(), edge_index=data.edge_index, y=data.y, num_nodes=60, num_classes=60,
        train_mask=mask, val_mask=~mask, test_mask=~mask, edge_weight=data.edge_weight,
    )  # fmt: skip
    ours = NeighborLoader(graph, [3, 2], graph.train_mask, batch_size=8, shuffle=True)
    plain = NeighborLoader(graph.to_data(), [3, 2], graph.train_mask, batch_size=8, shuffle=True)
    degree = torch.bincount(data.edge_index[1], minlength=60)
    for batch, expected in zip(ours, plain, strict=True):
        target = batch.edge_index[1]
        sampled = torch.bincount(target, minlength=batch.num_nodes)
        scale = (degree[batch.n_id].double() / sampled)[target]
        assert torch.equal(batch.edge_scale, scale)
        assert (scale > 1).any()
        del batch.edge_scale
        assert_equal_batches(batch, expected)


def test_pygs_own_loader_delivers_the_same():
    """With more neighbors asked for than there are, PyG's loader over torch-sparse has the same nodes, edges
    and attributes in each batch; only the order within a hop is its own."""
    pytest.importorskip("torch_sparse", reason="torch-sparse is not installed", exc_type=ImportError)
    from torch_geometric.loader import NeighborLoader as PyGLoader

    data = make_data()
    del data.name_of  # PyG cannot slice lists
    common = {"num_neighbors": [1000, 1000], "input_nodes": data.train_mask, "batch_size": 4}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Using 'NeighborSampler' without a 'pyg-lib'")
        theirs = PyGLoader(data, **common)
    ours = NeighborLoader(data, **common)
    assert len(ours) == len(theirs)
    for got, expected in zip(ours, theirs, strict=True):
        assert got.batch_size == expected.batch_size
        assert torch.equal(got.input_id, expected.input_id)
        assert torch.equal(got.n_id[:4], expected.n_id[:4])
        assert set(expected.keys()) <= set(got.keys())
        nodes, their_nodes = got.n_id.argsort(), expected.n_id.argsort()
        edges, their_edges = got.e_id.argsort(), expected.e_id.argsort()
        for key in ("n_id", "x", "y", "train_mask", "pos", "long_mask"):
            assert torch.equal(got[key][nodes], expected[key][their_nodes]), key
        for key in ("e_id", "edge_weight", "edge_attr"):
            assert torch.equal(got[key][edges], expected[key][their_edges]), key
        ends = (got.n_id[got.edge_index][:, edges], expected.n_id[expected.edge_index][:, their_edges])
        assert torch.equal(*ends)
        assert torch.equal(got.graph_level, expected.graph_level)
        assert got.note == expected.note
