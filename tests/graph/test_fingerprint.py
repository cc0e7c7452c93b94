from __future__ import annotations

import dataclasses
import sys

import numpy as np
import pytest
import torch

from fasthop.graph import fingerprint
from fasthop.graph.fingerprint import graph_fingerprint
from fasthop.graph.graph import Graph


@pytest.fixture
def graph(path_data):
    return Graph.from_data(path_data(edge_weight=torch.tensor([1.0, 2.0, 3.0])))


def test_it_is_the_same_on_every_machine(graph):
    # Computed once and written down: another value would disown every plan and checkpoint that was saved.
    assert graph_fingerprint(graph) == "7efdef18e940d400f3b4783ab16102ef973afc40d10855987ad74d6fbcd0edf9"


def test_whatever_changes_the_training_changes_it(graph):
    other_mask = torch.tensor([True, False, False, False, False])
    changes = [
        {"x": graph.x + 1},
        {"x": None},
        {"x": graph.x.double()},
        {"x": graph.x.to_sparse_coo()},
        {"x": torch.cat([graph.x, graph.x[:, :1]], dim=1)},
        {"edge_index": graph.edge_index.flip(0)},
        {"edge_index": graph.edge_index[:, :2], "edge_weight": graph.edge_weight[:2]},
        {"edge_weight": None},
        {"edge_weight": graph.edge_weight * 2},
        {"y": 1 - graph.y},
        {"y": torch.ones(5, 2)},
        {"train_mask": other_mask},
        {"val_mask": other_mask},
        {"test_mask": other_mask},
        {"num_classes": 3},
    ]
    seen = {graph_fingerprint(graph)} | {
        graph_fingerprint(dataclasses.replace(graph, **change)) for change in changes
    }
    assert len(seen) == len(changes) + 1


def test_what_does_not_change_the_training_does_not(graph):
    same = dataclasses.replace(
        graph,
        name="other",
        extras={"year": 1},
        node_ids=np.arange(5),
        edge_index=graph.edge_index.int(),
    )
    assert graph_fingerprint(same) == graph_fingerprint(graph)


@pytest.mark.filterwarnings("ignore:Sparse")
def test_the_layout_of_a_sparse_x_and_the_bits_of_nan_do_not_matter(graph):
    coo, csr = graph.x.to_sparse_coo(), graph.x.to_sparse_csr()
    assert graph_fingerprint(dataclasses.replace(graph, x=coo)) == graph_fingerprint(
        dataclasses.replace(graph, x=csr)
    )
    y = torch.tensor([[0.0, 1], [1, 1], [0, 0], [1, 0], [float("nan")] * 2])
    odd = y.clone()
    odd.view(torch.int32)[4] = 0x7FC00123
    none = torch.zeros(5, dtype=torch.bool)
    assert graph_fingerprint(dataclasses.replace(graph, y=y, test_mask=none)) == graph_fingerprint(
        dataclasses.replace(graph, y=odd, test_mask=none)
    )


def test_pieces_and_byte_order(graph, monkeypatch):
    whole = graph_fingerprint(graph)
    monkeypatch.setattr(fingerprint, "CHUNK", 2)
    assert graph_fingerprint(graph) == whole
    # A big-endian machine turns its bytes round: what it hashes is what we hash.
    monkeypatch.setattr(sys, "byteorder", "big")
    assert graph_fingerprint(graph) != whole


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_dtypes_of_x(graph, dtype):
    assert len(graph_fingerprint(dataclasses.replace(graph, x=graph.x.to(dtype)))) == 64


def test_no_edges(graph):
    empty = dataclasses.replace(graph, edge_index=torch.empty(2, 0, dtype=torch.int64), edge_weight=None)
    assert graph_fingerprint(empty) == graph_fingerprint(dataclasses.replace(empty))
