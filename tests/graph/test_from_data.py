from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric import EdgeIndex
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.nn import GATConv, GCNConv
from torch_geometric.utils import to_torch_coo_tensor, to_torch_csc_tensor, to_torch_csr_tensor

from fasthop.errors import InvalidConfig, InvalidGraph
from fasthop.graph.edges import num_nodes_of
from fasthop.graph.fault import Faults
from fasthop.graph.graph import Graph
from fasthop.graph.masks import mended_mask
from fasthop.graph.mend import mended_edge_index


def sentences(graph, lang="en"):
    return " ".join(note[lang] for note in graph.notes)


def test_a_plain_data_needs_no_note(path_data):
    graph = Graph.from_data(path_data(), name="mine")
    assert graph.notes == ()
    assert graph.name == "mine"
    assert graph.edge_weight is None


def test_every_note_speaks_both_languages(path_data):
    data = path_data(
        x=torch.ones(5, 2, dtype=torch.int64),
        y=torch.zeros(5, 1),
        edge_attr=torch.ones(3),
        train_mask=torch.tensor([1, 1, 0, 0, 1]),
        val_mask=None,
        test_mask=torch.ones(5, 3, dtype=torch.bool),
    )
    graph = Graph.from_data(data, split=1)
    assert len(graph.notes) >= 8
    for note in graph.notes:
        assert set(note) == {"en", "zh"}
        assert any("\u4e00" <= letter <= "\u9fff" for letter in note["zh"])
        assert not any("\u4e00" <= letter <= "\u9fff" for letter in note["en"])


# Edges: cases 14, 15, 16 and 30


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8])
def test_other_integers_work_as_int64_does(path_data, dtype):
    graph = Graph.from_data(path_data(edge_index=path_data().edge_index.to(dtype)))
    assert graph.edge_index.dtype is torch.int64
    assert torch.equal(graph.edge_index, path_data().edge_index)


@pytest.mark.parametrize("edge_index", [torch.ones(2, 3), torch.empty(2, 0)])
def test_float_indices_are_refused(path_data, edge_index):
    with pytest.raises(InvalidGraph, match="edge_index has dtype float32"):
        Graph.from_data(path_data(edge_index=edge_index))


def test_a_sparse_edge_index_is_refused(path_data):
    with pytest.raises(InvalidGraph, match=r"edge_index is a sparse tensor; give .* as adj_t"):
        Graph.from_data(path_data(edge_index=path_data().edge_index.to_sparse()))


@pytest.mark.parametrize(("value", "fault"), [(7, "out of range"), (-1, "negative")])
def test_a_wrong_index_is_named_with_its_place(path_data, value, fault):
    edge_index = torch.tensor([[0, 1], [1, value]])
    with pytest.raises(InvalidGraph, match=rf"edge_index\[1, 1\] is {value}, which is {fault}"):
        Graph.from_data(path_data(edge_index=edge_index))


def test_the_number_of_nodes_is_asked_for_never_guessed():
    data = Data(edge_index=torch.tensor([[0, 1], [1, 0]]))
    with pytest.raises(InvalidGraph, match="number of nodes is not known"):
        num_nodes_of(data)
    data.num_nodes = 3
    assert num_nodes_of(data) == 3
    assert num_nodes_of(Data(edge_index=data.edge_index, y=torch.zeros(4))) == 4
    assert num_nodes_of(Data(edge_index=data.edge_index, train_mask=torch.ones(6, dtype=torch.bool))) == 6
    with pytest.raises(InvalidGraph, match="not known"):
        num_nodes_of(Data(edge_index=data.edge_index, train_mask=torch.tensor([0, 1])))


def test_a_stated_number_of_nodes_must_agree(path_data):
    with pytest.raises(InvalidGraph, match=r"y has shape \[5\]"):
        Graph.from_data(path_data(num_nodes=6))


def test_edge_index_class_is_read_as_a_plain_tensor(path_data):
    edges = EdgeIndex([[0, 1, 2], [1, 2, 3]], sparse_size=(5, 5), sort_order="row")
    graph = Graph.from_data(path_data(x=None, edge_index=edges))
    assert type(graph.edge_index) is torch.Tensor
    assert torch.equal(graph.edge_index, path_data().edge_index)
    assert num_nodes_of(Data(edge_index=edges)) == 5


@pytest.mark.parametrize("form", [to_torch_csr_tensor, to_torch_csc_tensor, to_torch_coo_tensor])
@pytest.mark.parametrize("weighted", [False, True])
def test_adj_t_is_read_by_target(path_data, form, weighted):
    edge_index = torch.tensor([[0, 2, 1], [1, 1, 3]])
    weight = torch.tensor([2.0, 3.0, 4.0]) if weighted else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adj_t = form(edge_index.flip(0), weight, size=(5, 5))
    graph = Graph.from_data(path_data(edge_index=None, adj_t=adj_t))
    pairs = sorted(
        zip(*graph.edge_index.tolist(), graph.edge_weight.tolist() if weighted else [1] * 3, strict=True)
    )
    assert pairs == sorted(zip(*edge_index.tolist(), weight.tolist() if weighted else [1] * 3, strict=True))
    assert (graph.edge_weight is None) is not weighted
    assert graph.csr.degree.tolist() == [0, 2, 0, 1, 0]


class SparseTensorLike:
    """The part of torch_sparse.SparseTensor's interface that is read, so that it is tested without it."""

    def __init__(self, row, col, value, sizes):
        self.parts, self.sizes = (row, col, value), sizes

    def coo(self):
        return self.parts

    def sparse_sizes(self):
        return self.sizes


def test_a_sparse_tensor_is_read_by_target(path_data):
    adj_t = SparseTensorLike(
        torch.tensor([1, 1, 3]), torch.tensor([0, 2, 1]), torch.tensor([2.0, 3.0, 4.0]), (5, 5)
    )
    graph = Graph.from_data(path_data(edge_index=None, adj_t=adj_t))
    assert graph.edge_index.tolist() == [[0, 2, 1], [1, 1, 3]]
    assert graph.edge_weight.tolist() == [2.0, 3.0, 4.0]


def test_the_real_sparse_tensor_is_read_by_target(path_data):
    torch_sparse = pytest.importorskip("torch_sparse", reason="torch-sparse is not installed")
    adj_t = torch_sparse.SparseTensor(row=torch.tensor([1, 3]), col=torch.tensor([0, 1]), sparse_sizes=(5, 5))
    assert Graph.from_data(path_data(edge_index=None, adj_t=adj_t)).edge_index.tolist() == [[0, 1], [1, 3]]


def test_parallel_edges_of_an_uncoalesced_adj_t_stay(path_data):
    adj_t = torch.sparse_coo_tensor([[1, 1], [0, 0]], [1.0, 1.0], (5, 5), check_invariants=False)
    assert Graph.from_data(path_data(edge_index=None, adj_t=adj_t)).num_edges == 2


# Weights: case 6


def test_a_column_of_weights_is_squeezed_and_said(path_data):
    graph = Graph.from_data(path_data(edge_weight=torch.tensor([[1.0], [2.0], [3.0]])))
    assert graph.edge_weight.tolist() == [1.0, 2.0, 3.0]
    assert "squeezed" in sentences(graph)


@pytest.mark.parametrize("shape", [(3, 2), (2,), (4,), (4, 1), (1, 3)])
def test_weights_of_another_shape_are_refused_by_shape(path_data, shape):
    with pytest.raises(InvalidGraph, match=rf"edge_weight has shape \[{', '.join(map(str, shape))}\]"):
        Graph.from_data(path_data(edge_weight=torch.ones(shape)))


def test_edge_attr_is_a_weight_only_when_named(path_data):
    data = path_data(edge_attr=torch.tensor([[1.0], [2.0], [3.0]]))
    graph = Graph.from_data(data)
    assert graph.edge_weight is None
    assert torch.equal(graph.extras["edge_attr"], data.edge_attr)
    assert "not used as the edges' weights" in sentences(graph)
    graph = Graph.from_data(data, weight_from="edge_attr")
    assert graph.edge_weight.tolist() == [1.0, 2.0, 3.0]
    assert "edge_attr" not in graph.extras
    with pytest.raises(InvalidGraph, match="no edge_time"):
        Graph.from_data(data, weight_from="edge_time")


def test_learnable_and_double_weights(path_data):
    weight = torch.ones(3, requires_grad=True)
    assert Graph.from_data(path_data(edge_weight=weight)).edge_weight is weight
    graph = Graph.from_data(path_data(edge_weight=torch.ones(3, dtype=torch.float64)))
    assert graph.edge_weight.dtype is torch.float32
    assert "float64 to float32" in sentences(graph)


# Masks: cases 9, 10 and 13


def test_several_splits_need_a_choice(path_data):
    masks = torch.zeros(5, 10, dtype=torch.bool)
    masks[:, 3] = torch.tensor([True, False, False, False, True])
    data = path_data(train_mask=masks, val_mask=masks, test_mask=path_data().test_mask)
    with pytest.raises(InvalidGraph, match=r"train_mask has shape \[5, 10\].*split=0 to split=9"):
        Graph.from_data(data)
    with pytest.raises(InvalidGraph, match="split is 10"):
        Graph.from_data(data, split=10)
    graph = Graph.from_data(data, split=3)
    assert graph.train_mask.tolist() == [True, False, False, False, True]
    assert "split 3 of the 10" in sentences(graph)
    with pytest.raises(InvalidGraph, match="one split only"):
        Graph.from_data(path_data(), split=3)


def test_a_mask_as_wide_as_the_classes_is_not_flattened(path_data):
    with pytest.raises(InvalidGraph, match=r"\[5, 3\]"):
        Graph.from_data(path_data(train_mask=torch.ones(5, 3, dtype=torch.bool)))


def test_zero_one_integers_are_a_mask_and_said(path_data):
    graph = Graph.from_data(path_data(train_mask=torch.tensor([0, 1, 1, 0, 0])))
    assert graph.train_mask.tolist() == [False, True, True, False, False]
    assert "read as a mask" in sentences(graph)


def test_uint8_masks_and_index_vectors_are_taken(path_data):
    graph = Graph.from_data(
        path_data(train_mask=torch.tensor([0, 1, 1, 0, 0], dtype=torch.uint8), test_mask=torch.tensor([4, 0]))
    )
    assert graph.train_mask.tolist() == [False, True, True, False, False]
    assert graph.test_mask.tolist() == [True, False, False, False, True]
    whole = Graph.from_data(path_data(train_mask=torch.tensor([4, 3, 2, 1, 0])))
    assert bool(whole.train_mask.all())


@pytest.mark.parametrize(
    ("mask", "sentence"),
    [
        (torch.tensor([0, 5]), r"train_mask\[1\] is 5"),
        (torch.tensor([0, -1]), r"train_mask\[1\] is -1"),
        (torch.tensor([3, 3, 1]), "1 of its 3 are repeated"),
        (torch.ones(4, dtype=torch.bool), "length 4"),
        (torch.ones(4, dtype=torch.uint8), "length 4"),
        (torch.tensor([0, 1, 2, 0, 0], dtype=torch.uint8), "uint8 with values other"),
        (torch.ones(5), "dtype torch.float32"),
        (torch.ones(2, 5, dtype=torch.bool), r"shape \[2, 5\]"),
        (torch.zeros(5, dtype=torch.bool), "selects no node"),
        (torch.empty(0, dtype=torch.int64), "selects no node"),
    ],
)
def test_a_wrong_mask_is_refused(path_data, mask, sentence):
    with pytest.raises(InvalidGraph, match=sentence):
        Graph.from_data(path_data(train_mask=mask))


def test_a_mask_of_two_nodes_may_be_either_and_is_refused():
    masks = {name: torch.tensor([0, 1]) for name in ("train_mask", "val_mask", "test_mask")}
    data = Data(x=torch.ones(2, 1), y=torch.tensor([0, 1]), edge_index=torch.tensor([[0], [1]]), **masks)
    with pytest.raises(InvalidGraph, match=r"may be a mask or node indices"):
        Graph.from_data(data)


def test_missing_masks(path_data):
    with pytest.raises(InvalidGraph, match="no train_mask"):
        Graph.from_data(path_data(train_mask=None))
    graph = Graph.from_data(path_data(val_mask=None))
    assert not bool(graph.val_mask.any())
    assert "no val_mask" in sentences(graph)


def test_masks_that_overlap_are_said(path_data):
    graph = Graph.from_data(path_data(test_mask=torch.ones(5, dtype=torch.bool)))
    assert "train_mask and test_mask share 2 nodes" in sentences(graph)


def test_a_split_may_be_drawn(path_data):
    graph = Graph.from_data(path_data(train_mask=None), split="60/20/20", seed=3)
    counts = [int(mask.sum()) for mask in (graph.train_mask, graph.val_mask, graph.test_mask)]
    assert counts == [3, 1, 1]
    assert "seed 3" in sentences(graph)
    with pytest.raises(InvalidGraph, match="percentages"):
        Graph.from_data(path_data(), split="random")
    with pytest.raises(InvalidConfig, match="seed is -1"):
        Graph.from_data(path_data(), split="60/20/20", seed=-1)
    few = Graph.from_data(path_data(), split="per-class:1/1/2", seed=3)
    assert [int(mask.sum()) for mask in (few.train_mask, few.val_mask, few.test_mask)] == [2, 1, 2]
    assert few.y[few.train_mask].tolist() in ([0, 1], [1, 0])
    assert "1 training nodes a class, 1 validation and 2 test nodes" in sentences(few)
    with pytest.raises(InvalidGraph, match="takes 1 labelled nodes a class and 5 more, and only 3 more"):
        Graph.from_data(path_data(), split="per-class:1/1/4")
    for wrong in ("60/20", "80/20/20", "half", "per-class:0/1/1", "per-class:1/1", "per-class:-1/1/1"):
        with pytest.raises(InvalidConfig, match="split is"):
            Graph.from_data(path_data(), split=wrong)


@given(st.lists(st.booleans(), min_size=3, max_size=20), st.randoms())
def test_every_form_of_a_mask_is_the_same_mask(flags, random):
    mask = torch.tensor(flags)
    index = mask.nonzero().flatten().tolist()
    random.shuffle(index)
    forms = [mask, mask.to(torch.uint8), mask.int(), flags, torch.stack([~mask, mask], 1)]
    # As many indices as nodes, all of them 0 and 1, cannot be: each node is listed once.
    forms.append(torch.tensor(index, dtype=torch.int64))
    for form in forms:
        assert torch.equal(mended_mask(form, len(flags), "train_mask", 1, Faults()), mask)


@given(st.integers(1, 6), st.lists(st.tuples(st.integers(-2, 7), st.integers(-2, 7)), max_size=8))
def test_edges_are_taken_whole_or_refused_by_value(num_nodes, edges):
    edge_index = torch.tensor(edges, dtype=torch.int64).view(-1, 2).t()
    wrong = [value for value in edge_index.flatten().tolist() if not 0 <= value < num_nodes]
    if wrong:
        with pytest.raises(InvalidGraph, match=rf" is {wrong[0]}, .*\({len(wrong)} wrong in all\)"):
            mended_edge_index(edge_index, num_nodes)
    else:
        assert mended_edge_index(edge_index, num_nodes).tolist() == edge_index.tolist()


# Labels: cases 11, 12 and 13


def test_a_column_of_labels_is_squeezed_once_and_said(path_data):
    graph = Graph.from_data(path_data(y=torch.tensor([[0], [1], [0], [1], [0]])))
    assert graph.y.tolist() == [0, 1, 0, 1, 0]
    assert len(graph.notes) == 1
    assert "squeezed" in sentences(graph)


def test_masked_nodes_without_a_label_are_counted_and_the_first_named(path_data):
    every = torch.ones(5, dtype=torch.bool)
    with pytest.raises(InvalidGraph, match=r"2 of the 5 nodes in train_mask .* node 2 with y = -1"):
        Graph.from_data(path_data(y=torch.tensor([0, 1, -1, 1, -100]), train_mask=every))
    with pytest.raises(InvalidGraph, match=r"1 of the 5 nodes in train_mask .* node 3 with y = 2"):
        Graph.from_data(path_data(y=torch.tensor([0, 1, 1, 2, 0]), train_mask=every), num_classes=2)
    with pytest.raises(InvalidGraph, match=r"1 of the 2 nodes in train_mask .* node 1 with y = -1"):
        Graph.from_data(path_data(y=torch.tensor([0.0, float("nan"), 1.0, 1.0, 0.0])))


def test_unlabelled_nodes_outside_the_masks_are_fine(path_data):
    graph = Graph.from_data(
        path_data(y=torch.tensor([0.0, 1.0, 1.0, 0.0, float("nan")]), test_mask=torch.tensor([3]))
    )
    assert graph.y.tolist() == [0, 1, 1, 0, -1]
    assert graph.num_classes == 2
    assert "1 NaN count as no label" in sentences(graph)


@pytest.mark.parametrize(
    ("y", "sentence"),
    [
        (torch.tensor([0.5, 1, 0, 1, 0]), "no whole numbers"),
        (torch.full((5, 3), 2.0), r"y\[0, 0\] is 2; with several values a node"),
        (torch.tensor([[0, 1], [1, 1], [1, float("nan")], [0, 0], [1, 1]]), r"y\[2, 1\] is nan"),
        (torch.eye(5), r"one-hot classes; give y\.argmax\(dim=1\)"),
        (torch.full((5, 2), float("nan")), "No node has a label"),
        (torch.tensor([1]), "label of the whole graph"),
        (torch.tensor([0, 1, 0]), r"y has shape \[3\]"),
        (torch.full((5,), -1), "No node has a label"),
        (None, "no labels y"),
    ],
)
def test_wrong_labels_are_refused(path_data, y, sentence):
    with pytest.raises(InvalidGraph, match=sentence):
        Graph.from_data(path_data(y=y))


def test_one_class_only_is_warned_of(path_data):
    assert "one class" in sentences(Graph.from_data(path_data(y=torch.ones(5, dtype=torch.int64))))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bool, torch.uint8])
def test_several_labels_a_node_are_read_as_multilabel_and_said(path_data, dtype):
    y = torch.tensor([[0, 1, 1], [0, 0, 0], [1, 1, 1], [1, 0, 0], [0, 1, 0]])
    graph = Graph.from_data(path_data(y=y.to(dtype)))
    assert graph.is_multilabel
    assert (graph.num_classes, graph.y.dtype) == (3, torch.float32)
    assert torch.equal(graph.y, y.float())
    assert "multi-label, 3 labels" in sentences(graph)
    with pytest.raises(InvalidGraph, match=r"num_classes is 4, and y has shape \[5, 3\]"):
        Graph.from_data(path_data(y=y), num_classes=4)


def test_a_row_of_nan_is_a_node_without_labels(path_data):
    y = torch.tensor([[0, 1], [1, 1], [1, 0], [0, 0], [1, 1]]).float()
    y[4] = float("nan")
    graph = Graph.from_data(path_data(y=y, test_mask=torch.tensor([3])))
    assert graph.labelled.tolist() == [True, True, True, True, False]
    with pytest.raises(InvalidGraph, match=r"1 of the 2 nodes in test_mask .* node 4 with y = nan"):
        Graph.from_data(path_data(y=y))
    drawn = Graph.from_data(path_data(y=y), split="50/25/25")
    assert [int(m.sum()) for m in (drawn.train_mask, drawn.val_mask, drawn.test_mask)] == [2, 1, 1]
    assert not bool((drawn.train_mask | drawn.val_mask | drawn.test_mask)[4])
    with pytest.raises(InvalidGraph, match="percentages"):
        Graph.from_data(path_data(y=y), split="random")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (np.array(["a", "b", "c", "d", "e"]), ["a", "b", "c", "d", "e"]),
        (["a", "b", "c", "d", "e"], ["a", "b", "c", "d", "e"]),
        (torch.tensor([9, 8, 7, 6, 5]), [9, 8, 7, 6, 5]),
        ([9, 8, 7, 6, 5], [9, 8, 7, 6, 5]),
        (np.array([9, 8, 7, 6, 5], dtype=np.int32), [9, 8, 7, 6, 5]),
    ],
)
def test_the_users_ids_are_kept(path_data, given, kept):
    graph = Graph.from_data(path_data(node_ids=given))
    assert graph.node_ids.tolist() == kept
    assert "node_ids" not in graph.extras


def test_what_are_no_ids_stays_an_extra_and_doubled_ids_are_named(path_data):
    for odd in (
        torch.ones(5),
        ["a", "b"],
        ["a", 1, 2, 3, 4],
        torch.ones(5, 2, dtype=torch.int64),
        torch.arange(5).to_sparse(),
    ):
        graph = Graph.from_data(path_data(node_ids=odd))
        assert graph.node_ids is None
        assert "node_ids" in graph.extras
    with pytest.raises(InvalidGraph, match=r"node_ids\[1\] is 'b', which other nodes have too"):
        Graph.from_data(path_data(node_ids=["a", "b", "c", "b", "e"]))


# Features: cases 23 and 26


@pytest.mark.parametrize("dtype", [torch.int64, torch.float64, torch.bool, torch.bfloat16])
def test_x_of_another_dtype_is_cast_and_said(path_data, dtype):
    graph = Graph.from_data(path_data(x=torch.ones(5, 2, dtype=dtype)))
    assert graph.x.dtype is torch.float32
    assert f"{str(dtype).removeprefix('torch.')} to float32" in sentences(graph)


def test_a_floating_dtype_may_be_kept(path_data):
    graph = Graph.from_data(path_data(x=torch.ones(5, 2, dtype=torch.float64)), dtype=None)
    assert graph.x.dtype is torch.float64
    assert graph.notes == ()


def test_no_x_is_said(path_data):
    graph = Graph.from_data(path_data(x=None))
    assert graph.x is None
    assert graph.num_features == 0
    assert "embedding" in sentences(graph)
    assert "x" not in graph.to_data()


@pytest.mark.parametrize("form", ["to_sparse_coo", "to_sparse_csr", "to_sparse_csc"])
@pytest.mark.filterwarnings("ignore:Sparse")
def test_sparse_x_stays_sparse(path_data, form):
    x = getattr(torch.eye(5), form)()
    graph = Graph.from_data(path_data(x=x))
    assert graph.x.layout in (torch.sparse_coo, torch.sparse_csr)
    assert torch.equal(graph.x.to_dense(), torch.eye(5))
    assert graph.num_features == 5
    with pytest.raises(InvalidGraph, match=r"the values of the sparse x\[0\] is inf"):
        Graph.from_data(path_data(x=getattr(torch.diag(torch.full((5,), float("inf"))), form)()))


@pytest.mark.parametrize("form", ["to_sparse_coo", "to_sparse_csr"])
@pytest.mark.parametrize("layer", [GCNConv, GATConv])
@pytest.mark.filterwarnings("ignore:Sparse")
def test_case_23_layers_take_sparse_x_as_they_take_it_dense(path_data, form, layer):
    graph = Graph.from_data(path_data(x=getattr(torch.eye(5), form)()))
    torch.manual_seed(0)
    conv = layer(5, 3)
    assert torch.allclose(conv(graph.x, graph.edge_index), conv(torch.eye(5), graph.edge_index), atol=1e-6)


@pytest.mark.parametrize(
    ("x", "sentence"),
    [
        (torch.ones(5), r"shape \[5\].*view\(-1, 1\)"),
        (torch.ones(5, 2, 2), r"shape \[5, 2, 2\]"),
        (torch.ones(5, 2, dtype=torch.complex64), "complex"),
        (torch.tensor([[1.0, 2], [3, 4], [5, float("nan")], [7, 8], [9, 1]]), r"x\[2, 1\] is nan"),
        ((torch.ones(5, 2), torch.ones(5, 2)), "bipartite"),
    ],
)
def test_wrong_features_are_refused(path_data, x, sentence):
    with pytest.raises(InvalidGraph, match=sentence):
        Graph.from_data(path_data(x=x, num_nodes=5))


# What fasthop does not train on


def test_other_kinds_of_graphs_are_refused_by_name(path_data):
    data = path_data()
    for wrong, word in [
        (HeteroData(), "HeteroData"),
        ([data, data], "list of 2 graphs"),
        (Batch.from_data_list([data, data]), "Batch of 2 graphs"),
        (path_data(edge_label_index=torch.tensor([[0], [1]])), "link prediction"),
        (path_data(x_s=torch.ones(3, 1)), "bipartite"),
        (path_data(hyperedge_index=torch.tensor([[0], [1]])), "hypergraph"),
        (path_data(edge_index=EdgeIndex([[0], [1]], sparse_size=(5, 4))), "bipartite"),
        (path_data(edge_index=None), "neither edge_index nor adj_t"),
        (path_data(edge_index=None, adj_t=torch.eye(5)), "dense matrix"),
        ({"x": 1}, "This is a dict"),
        (None, "This is a NoneType"),
    ]:
        with pytest.raises(InvalidGraph, match=word):
            Graph.from_data(wrong)
    assert Graph.from_data(Batch.from_data_list([data])).num_nodes == 5


@pytest.mark.parametrize("num_nodes", ["five", 5.5, -1, True, torch.ones(2, dtype=torch.int64)])
def test_a_number_of_nodes_that_is_none_is_refused(path_data, num_nodes):
    with pytest.raises(InvalidGraph, match="num_nodes is"):
        Graph.from_data(path_data(num_nodes=num_nodes))


def test_a_number_of_nodes_may_come_as_a_tensor(path_data):
    assert Graph.from_data(path_data(num_nodes=torch.tensor(5))).num_nodes == 5


def test_labels_that_are_ids_do_not_make_a_model_as_wide_as_the_largest(path_data):
    y = torch.tensor([0, 10**12, 0, 1, 0])
    with pytest.raises(InvalidGraph, match=r"largest label is 1,000,000,000,000 .*return_inverse"):
        Graph.from_data(path_data(y=y))
    assert Graph.from_data(path_data(), num_classes=2000).num_classes == 2000


def test_tensors_of_odd_kinds_are_named(path_data):
    with pytest.raises(InvalidGraph, match="x is a tensor that is on the meta device"):
        Graph.from_data(path_data(x=torch.ones(5, 2, device="meta")))
