from __future__ import annotations

import copy
import dataclasses
import pickle

import numpy as np
import pytest
import torch
from torch_geometric.nn import GCNConv

from fasthop.errors import InvalidGraph
from fasthop.graph.graph import Graph


@pytest.fixture
def graph(path_data):
    return Graph.from_data(path_data())


def test_the_csr_is_built_once_and_anew_after_an_edit_in_place(graph):
    first, first_t = graph.csr, graph.csr_t
    assert graph.csr is first
    assert graph.csr_t is first_t
    graph.edge_index[:, 0] = torch.tensor([4, 0])
    assert graph.csr is not first
    assert graph.csr.degree.tolist() == [1, 0, 1, 1, 0]
    assert graph.csr_t.degree.tolist() == [0, 1, 1, 0, 1]


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g)), dataclasses.replace]
)
def test_copies_carry_no_cache(graph, copied):
    # Case 2: what was cached on one graph must not answer for another.
    old = graph.csr
    other = copied(graph)
    assert other._cache == {}
    assert other.csr is not old
    assert graph.csr is old
    edges = torch.tensor([[3], [0]])
    assert dataclasses.replace(graph, edge_index=edges).csr.degree.tolist() == [1, 0, 0, 0, 0]


def test_tensors_made_in_inference_mode_work_too(path_data):
    with torch.inference_mode():
        graph = Graph.from_data(path_data(edge_index=torch.tensor([[0, 1], [1, 2]])))
        assert graph.csr is graph.csr
        assert graph.csr.col.tolist() == [0, 1]


def test_it_is_frozen(graph):
    with pytest.raises(dataclasses.FrozenInstanceError):
        graph.num_nodes = 7


def test_to_data_gives_back_what_came(path_data):
    data = path_data(
        edge_weight=torch.tensor([1.0, 2.0, 3.0]), edge_attr=torch.ones(3, 4), year=torch.arange(5)
    )
    back = Graph.from_data(data).to_data()
    assert set(back.keys()) == set(data.keys()) | {"num_nodes"}
    for key in data.keys():  # noqa: SIM118
        assert torch.equal(back[key], data[key]), key
    assert back.num_nodes == 5
    assert back.validate()


def test_figures(graph):
    assert (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes) == (5, 3, 2, 2)


def test_the_isolated_node_keeps_its_row(path_data):
    # Case 14: weights 1, so x = 3 of the isolated node stays 3.
    data = path_data(
        x=torch.tensor([[1.0], [2.0], [3.0]]),
        edge_index=torch.tensor([[0, 1], [1, 0]]),
        y=torch.tensor([0, 1, 0]),
        **{name: torch.ones(3, dtype=torch.bool) for name in ("train_mask", "val_mask", "test_mask")},
    )
    layer = GCNConv(1, 1, bias=False)
    torch.nn.init.ones_(layer.lin.weight)
    graph = Graph.from_data(data)
    assert layer(graph.x, graph.edge_index).flatten().tolist() == pytest.approx([1.5, 1.5, 3.0])
    # Case 30: no edges at all.
    empty = dataclasses.replace(graph, edge_index=torch.empty(2, 0, dtype=torch.int64))
    assert layer(empty.x, empty.edge_index).flatten().tolist() == [1.0, 2.0, 3.0]
    assert empty.csr.degree.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"x": torch.ones(4, 2)}, r"x has shape \[4, 2\]"),
        ({"x": torch.ones(5, 2, dtype=torch.int64)}, "x has dtype int64"),
        ({"x": torch.full((5, 2), float("nan"))}, r"x\[0, 0\] is nan"),
        ({"edge_weight": torch.ones(2)}, r"edge_weight has shape \[2\]"),
        ({"edge_weight": torch.tensor([1.0, float("inf"), 1.0])}, r"edge_weight\[1\] is inf"),
        ({"edge_weight": torch.ones(3, dtype=torch.int64)}, "edge_weight has dtype int64"),
        ({"y": torch.zeros(5)}, "y has dtype float32"),
        ({"train_mask": torch.zeros(5, dtype=torch.bool)}, "train_mask selects no node"),
        ({"train_mask": torch.ones(4, dtype=torch.bool)}, r"train_mask .*shape \[4\]"),
        ({"val_mask": torch.ones(5)}, "val_mask has dtype float32"),
        ({"num_classes": 1}, "train_mask have no valid label"),
        ({"num_classes": 0}, "num_classes is 0"),
        ({"num_nodes": 3}, r"edge_index\[1, 2\] is 3"),
        ({"x": torch.ones(5, 2, device="meta")}, "different devices"),
        ({"y": torch.ones(5, 3)}, r"y has shape \[5, 3\]; multi-label y must be \[5, 2\]"),
        ({"y": torch.full((5, 2), 0.5)}, r"y\[0, 0\] is 0\.5"),
        ({"y": torch.full((5, 2), float("nan"))}, "train_mask have no valid label"),
        ({"node_ids": ["a", "b", "c", "d", "e"]}, "node_ids is list"),
        ({"node_ids": np.arange(4)}, r"node_ids has shape \[4\]"),
        ({"class_names": ("a",)}, "class_names has 1 names for 2 classes"),
        ({"node_ids": np.ones(5)}, "node_ids is float64"),
        ({"node_ids": np.array([1, 2, 3, 2, 1])}, r"node_ids\[0\] is 1, .*\(2 such ids"),
    ],
)
def test_a_graph_that_does_not_hold_together_is_refused(graph, changes, sentence):
    with pytest.raises(InvalidGraph, match=sentence):
        dataclasses.replace(graph, **changes)


def test_ids_and_several_labels_survive_copies(graph):
    y = torch.tensor([[0.0, 1], [1, 1], [0, 0], [1, 0], [float("nan")] * 2])
    ids = np.array(["a", "b", "c", "d", "e"])
    many = dataclasses.replace(graph, y=y, node_ids=ids, test_mask=torch.zeros(5, dtype=torch.bool))
    assert many.is_multilabel
    assert not graph.is_multilabel
    assert many.labelled.tolist() == [True] * 4 + [False]
    for other in (dataclasses.replace(many, name="b"), copy.deepcopy(many), pickle.loads(pickle.dumps(many))):
        assert other.node_ids.tolist() == ids.tolist()
        assert torch.equal(other.y, y) or torch.equal(other.y.nan_to_num(7), y.nan_to_num(7))
    assert "node_ids" not in many.to_data()
