"""What NeighborLoader takes, and what it refuses in a sentence before any work."""

from __future__ import annotations

import copy
import itertools
import logging
import pickle
import subprocess
import sys
import warnings

import pytest
import torch
from torch_geometric import EdgeIndex
from torch_geometric.data import Data, HeteroData

from fasthop.errors import InvalidConfig, InvalidGraph
from fasthop.train import loader_inputs
from fasthop.train.neighbor_loader import NeighborLoader
from tests.train.graphs import digraph

EDGE_INDEX = torch.tensor([[0, 1, 2, 2], [1, 2, 0, 2]])


def make_data(**changes) -> Data:
    return Data(**({"x": torch.arange(4.0).view(4, 1), "edge_index": EDGE_INDEX} | changes))


def nodes_of(data, **options):
    return [b.n_id.tolist() for b in NeighborLoader(data, [-1], batch_size=2, **options)]


@pytest.mark.parametrize(
    "edge_index",
    [EDGE_INDEX.int(), EdgeIndex(EDGE_INDEX, sparse_size=(4, 4)), EDGE_INDEX.t().contiguous().t()],
    ids=["int32", "EdgeIndex", "strided"],
)
def test_forms_of_edge_index(edge_index):
    """Case 16: int32 works as int64 does."""
    assert nodes_of(make_data(edge_index=edge_index)) == nodes_of(make_data()) == [[0, 1, 2], [2, 3, 1]]
    batch = next(iter(NeighborLoader(make_data(edge_index=edge_index), [1])))
    assert type(batch.edge_index) is torch.Tensor
    assert batch.edge_index.dtype is torch.int64


@pytest.mark.parametrize(
    ("edge_index", "message"),
    [
        (torch.tensor([[0, 7], [1, 2]]), r"edge_index\[0, 1\] is 7"),
        (torch.tensor([[0, 1], [1, -1]]), r"edge_index\[1, 1\] is -1"),
        (EDGE_INDEX.float(), "float32"),
        (torch.empty(2, 0), "float32"),
        (EDGE_INDEX.t(), r"\[2, E\]"),
    ],
)
def test_bad_edge_index(edge_index, message):
    """Cases 15 and 16."""
    with pytest.raises(InvalidGraph, match=message):
        NeighborLoader(make_data(edge_index=edge_index), [1])


def test_the_number_of_nodes_is_asked_for():
    """Case 14: the largest index misses the isolated node; with num_nodes it keeps its row."""
    with pytest.raises(InvalidGraph, match=r"Set data\.num_nodes"):
        NeighborLoader(Data(edge_index=EDGE_INDEX), [1])
    batches = list(NeighborLoader(Data(edge_index=EDGE_INDEX, num_nodes=4), [1], torch.tensor([3])))
    assert batches[0].n_id.tolist() == [3]
    assert batches[0].num_nodes == 1


def sparse_adj_t(layout) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adj_t = torch.sparse_coo_tensor(
            EDGE_INDEX.flip(0), torch.tensor([1.0, 2.0, 3.0, 4.0]), (4, 4)
        ).coalesce()
        return adj_t if layout is torch.sparse_coo else adj_t.to_sparse_csr()


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_coo])
def test_adj_t(layout):
    adj_t = sparse_adj_t(layout)
    data = Data(x=torch.arange(4.0).view(4, 1), adj_t=adj_t, order=torch.arange(4))
    dense = adj_t.to_dense()
    for batch in NeighborLoader(data, [-1, -1], batch_size=2):
        assert "edge_index" not in batch
        n = batch.batch_size + batch.num_sampled_nodes[1]  # the rows that were expanded
        assert torch.equal(batch.adj_t.to_dense()[:n], dense[batch.n_id][:n][:, batch.n_id])
        columns, rowptr = batch.adj_t.col_indices(), batch.adj_t.crow_indices()
        assert all(bool((columns[a:b].diff() > 0).all()) for a, b in itertools.pairwise(rowptr.tolist()))


@pytest.mark.parametrize("change", [lambda a: a.to_dense(), lambda a: a.to_sparse_csc()])
def test_bad_adj_t(change):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adj_t = change(sparse_adj_t(torch.sparse_csr))
    with pytest.raises(InvalidGraph, match="layout"):
        NeighborLoader(Data(x=torch.zeros(4, 1), adj_t=adj_t), [1])


def test_sparse_tensor_adj_t():
    torch_sparse = pytest.importorskip(
        "torch_sparse", reason="torch-sparse is not installed", exc_type=ImportError
    )
    value = torch.tensor([1.0, 2.0, 3.0, 4.0])
    adj_t = torch_sparse.SparseTensor(row=EDGE_INDEX[1], col=EDGE_INDEX[0], value=value, sparse_sizes=(4, 4))
    batch = next(iter(NeighborLoader(Data(x=torch.zeros(4, 1), adj_t=adj_t), [-1], batch_size=3)))
    expected = adj_t.to_dense()[batch.n_id][:, batch.n_id]
    assert torch.equal(batch.adj_t.to_dense(), expected)


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_coo])
def test_sparse_features(layout):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dense = torch.tensor([[0.0, 1.0], [2.0, 0.0], [0.0, 0.0], [3.0, 4.0]])
        x = dense.to_sparse_csr() if layout is torch.sparse_csr else dense.to_sparse_coo()
    batch = next(iter(NeighborLoader(make_data(x=x), [-1], torch.tensor([3, 0]), batch_size=2)))
    assert batch.x.layout is layout
    assert torch.equal(batch.x.to_dense(), dense[batch.n_id])


MASK = torch.tensor([True, False, True, False])


@pytest.mark.parametrize(
    ("input_nodes", "nodes", "input_id"),
    [
        (None, [0, 1, 2, 3], [0, 1, 2, 3]),
        (MASK, [0, 2], [0, 2]),
        (MASK.numpy(), [0, 2], [0, 2]),
        (MASK.to(torch.uint8), [0, 2], [0, 2]),
        (torch.tensor([2, 0, 2]), [2, 0, 2], [0, 1, 2]),
        (torch.tensor([3], dtype=torch.int32), [3], [0]),
        ([3, 1], [3, 1], [0, 1]),
        (range(2, 4), [2, 3], [0, 1]),
        ([True, False, False, False], [0], [0]),
    ],
)
def test_input_nodes(input_nodes, nodes, input_id):
    """Masks give the node as input_id and indices the place, as in PyG."""
    batch = next(iter(NeighborLoader(make_data(), [0], input_nodes, batch_size=10)))
    assert batch.n_id.tolist() == nodes
    assert batch.input_id.tolist() == input_id


@pytest.mark.parametrize(
    ("input_nodes", "error", "message"),
    [
        (torch.zeros(4, dtype=torch.bool), InvalidConfig, "selects no node"),
        ([], InvalidConfig, "selects no node"),
        (torch.empty(0), InvalidConfig, "float32"),
        (torch.tensor([0.0]), InvalidConfig, "float32"),
        (MASK.long(), InvalidConfig, r"mask\.bool"),
        (MASK[:3], InvalidConfig, "mask of 3 entries"),
        (torch.ones(4, 10, dtype=torch.bool), InvalidConfig, "one column"),
        (torch.tensor([0, 4]), InvalidGraph, r"input_nodes\[1\] is 4"),
        (torch.tensor([0, -1]), InvalidGraph, r"input_nodes\[1\] is -1"),
        ("paper", InvalidConfig, "heterogeneous"),
        (("paper", MASK), InvalidConfig, "heterogeneous"),
        (object(), InvalidConfig, "object"),
    ],
)
def test_bad_input_nodes(input_nodes, error, message):
    """Cases 9, 10, 13, 15 and 16, where they concern sampling."""
    with pytest.raises(error, match=message):
        NeighborLoader(make_data(), [1], input_nodes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size is 0"),
        ({"batch_size": 2.0}, "batch_size is 2.0"),
        ({"seed": "x"}, "seed is 'x'"),
        ({"num_threads": -1}, "num_threads is -1"),
        ({"num_workers": "all"}, "num_workers is 'all'"),
        ({"transform": 3}, "transform is a int"),
        ({"disjoint": True}, "disjoint=True is not supported"),
        ({"subgraph_type": "induced"}, "subgraph_type='induced' is not supported"),
        ({"weight_attr": "edge_weight"}, "weight_attr"),
        ({"time_attr": "time"}, "time_attr"),
        ({"directed": False}, "directed=False"),
        ({"sampler": range(3)}, "sampler"),
        ({"neighbor_sampler": object()}, "neighbor_sampler"),
        ({"generator": torch.Generator()}, "generator"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(InvalidConfig, match=message):
        NeighborLoader(make_data(), [1], **options)


def test_an_unknown_option_is_a_type_error():
    with pytest.raises(TypeError, match="batchsize"):
        NeighborLoader(make_data(), [1], batchsize=3)


@pytest.mark.parametrize("num_neighbors", [[], 3, {("a", "to", "b"): [1]}])
def test_bad_num_neighbors(num_neighbors):
    with pytest.raises(InvalidConfig, match="num_neighbors"):
        NeighborLoader(make_data(), num_neighbors)


@pytest.mark.parametrize("data", [HeteroData(), (object(), object()), torch.zeros(3)])
def test_other_kinds_of_graph(data):
    with pytest.raises(InvalidGraph, match="one homogeneous graph"):
        NeighborLoader(data, [1])


def test_no_edges_attribute():
    with pytest.raises(InvalidGraph, match="neither edge_index nor adj_t"):
        NeighborLoader(Data(x=torch.zeros(3, 1)), [1])


def test_options_of_pygs_scripts_are_taken(caplog):
    """num_workers becomes threads, and that is said once; the rest changes nothing."""
    loader_inputs._said.clear()
    with caplog.at_level(logging.INFO, logger="fasthop.train"):
        for _ in range(2):
            loader = NeighborLoader(
                make_data(),
                num_neighbors=[1, 1],
                input_nodes=None,
                batch_size=2,
                num_workers=12,
                persistent_workers=True,
                pin_memory=True,
                prefetch_factor=2,
                filter_per_worker=None,
                is_sorted=True,
                subgraph_type="directional",
                disjoint=False,
            )
    assert [r.message for r in caplog.records if "num_workers=12" in r.message] == [caplog.records[0].message]
    assert 1 <= loader.num_threads <= 12
    assert len(list(loader)) == 2


def test_sampling_needs_neither_pyg_lib_nor_torch_sparse():
    """Case 18."""
    code = (
        "import sys\n"
        "for name in ('pyg_lib', 'torch_sparse', 'torch_scatter', 'torch_cluster'): sys.modules[name] = None\n"
        "import torch\n"
        "from torch_geometric.data import Data\n"
        "from fasthop.train.neighbor_loader import NeighborLoader\n"
        "data = Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0, 1], [1, 2]]))\n"
        "print([b.n_id.tolist() for b in NeighborLoader(data, [1, 1], torch.tensor([2]))])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[[2, 1, 0]]", done.stderr


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda loader: pickle.loads(pickle.dumps(loader))])
def test_a_copy_has_the_same_batches_and_memory_of_its_own(copied):
    loader = NeighborLoader(digraph(dtype=torch.float32), [3, 2], batch_size=16, shuffle=True, num_threads=2)
    next(iter(loader))  # buffers are lent by now
    twin = copied(loader)
    for one, other in zip(loader, twin, strict=True):
        assert torch.equal(one.n_id, other.n_id)
        assert one.x.data_ptr() != other.x.data_ptr()
    assert twin([0, 1]).batch_size == 2


def test_x_of_another_length_than_the_edges_were_sorted_for_is_refused():
    data = digraph(dtype=torch.float32).to_data()
    loader = NeighborLoader(data, [2], batch_size=60)
    data.x = data.x[:10]
    with pytest.raises(InvalidGraph, match=r"x has shape \[10, 8\] .* for 60 nodes.*make a new"):
        next(iter(loader))


def test_an_epoch_that_is_no_number_is_refused():
    with pytest.raises(InvalidConfig, match="epoch is 'x'"):
        NeighborLoader(digraph(), [2]).set_epoch("x")
