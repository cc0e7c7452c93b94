"""diagnose: every fault is found, not only the first, and what has one right repair is repaired."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData

from fasthop.errors import GraphNotFound, InvalidConfig, InvalidGraph
from fasthop.graph.diagnosis import diagnose
from fasthop.graph.fault import FaultyGraph, Finding
from fasthop.graph.fingerprint import graph_fingerprint
from fasthop.graph.graph import Graph
from fasthop.graph.sources import load_graph


def codes(diagnosis, level=None):
    return [found.code for found in diagnosis.findings if level in (None, found.level)]


def test_a_sound_graph_has_no_errors(path_data):
    diagnosis = diagnose(path_data())
    assert diagnosis.errors == ()
    assert codes(diagnosis) == []
    assert diagnosis.stats.num_components == 2
    assert graph_fingerprint(diagnosis.graph) == graph_fingerprint(Graph.from_data(path_data()))


def test_every_fault_is_found_not_only_the_first(path_data):
    data = path_data(
        edge_index=torch.tensor([[0, 7], [1, 2]]),
        x=torch.tensor([[1.0, 2], [3, float("nan")], [5, 6], [7, 8], [9, 1]]),
        y=torch.tensor([0, -1, 0, 1, 0]),
        edge_weight=torch.ones(3),
        train_mask=torch.tensor([1, 1, 0, 0, 0]),
        val_mask=torch.ones(4, dtype=torch.bool),
        test_mask=torch.ones(5, 3, dtype=torch.bool),
    )
    diagnosis = diagnose(data)
    assert codes(diagnosis, "error") == [
        "index-out-of-range",
        "mask-length",
        "split-choice",
        "not-finite",
        "masked-unlabelled",
    ]
    said = " ".join(found.text() for found in diagnosis.errors)
    for part in (
        "edge_index[0, 1] is 7",
        "x[1, 1] is nan",
        "node 1 with y = -1",
        "length 4",
        "split=0 to split=2",
    ):
        assert part in said
    assert diagnosis.graph is None
    # What is sound is still counted.
    assert (diagnosis.stats.num_nodes, diagnosis.stats.num_edges) == (5, None)
    assert diagnosis.stats.class_counts == (3, 1)


def test_load_graph_says_the_same_as_diagnose(path_data):
    data = path_data(edge_index=torch.tensor([[0, 7], [1, 2]]))
    with pytest.raises(FaultyGraph) as caught:
        load_graph(data)
    assert caught.value.finding == diagnose(data).errors[0]
    assert str(caught.value) == diagnose(data).errors[0].text()
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.finding, str(again)) == (caught.value.finding, str(caught.value))


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"edge_index": torch.tensor([[0, 1], [1, 2], [2, 3]])}, "edge-index-by-rows"),
        ({"edge_index": torch.tensor([[0.0, 1, 2], [1, 2, 3]])}, "edge-index-dtype"),
        ({"edge_index": torch.empty(2, 0)}, "edge-index-dtype"),
        ({"x": torch.arange(5.0), "num_nodes": 5}, "x-flat"),
        ({"train_mask": torch.tensor([1.0, 1, 0, 0, 0])}, "mask-float"),
        ({"train_mask": torch.tensor([0, 1, 1])}, "mask-repeated"),
        ({"edge_index": None, "adj_t": torch.eye(5)}, "adj-dense"),
    ],
)
def test_an_error_with_one_right_repair_is_repaired(path_data, changes, code, tmp_path):
    data = path_data(**changes)
    with pytest.raises(InvalidGraph):
        load_graph(data)
    diagnosis = diagnose(data)
    assert codes(diagnosis, "error") == [code]
    assert [found.code for found in diagnosis.mendable] == [code]
    diagnosis.save(tmp_path / "fixed.pt")
    fixed = load_graph(tmp_path / "fixed.pt")
    assert graph_fingerprint(fixed) == graph_fingerprint(diagnosis.graph)
    assert codes(diagnose(tmp_path / "fixed.pt"), "error") == []


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"y": torch.tensor([[0], [1], [0], [1], [0]])}, "labels-column"),
        ({"y": torch.tensor([0.0, 1, 0, 1, 0])}, "labels-float"),
        ({"train_mask": torch.tensor([1, 1, 0, 0, 0])}, "mask-integer"),
        ({"x": torch.ones(5, 2, dtype=torch.float64)}, "cast"),
        ({"edge_weight": torch.ones(3, 1)}, "weight-column"),
    ],
)
def test_what_loading_changes_is_changed_for_good(path_data, changes, code, tmp_path):
    diagnosis = diagnose(path_data(**changes))
    assert codes(diagnosis) == [code]
    assert diagnosis.findings[0].is_mendable
    diagnosis.save(tmp_path / "fixed.pt")
    assert codes(diagnose(tmp_path / "fixed.pt")) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"edge_index": torch.tensor([[0.5, 1], [1, 2]])},
        {"edge_index": torch.tensor([[0, 0, 7], [1, 2, 3]])},
        {"y": torch.eye(5)},
        {"y": torch.tensor([0, -1, 0, 1, 0])},
        {"train_mask": torch.zeros(5, dtype=torch.bool)},
        {"edge_index": torch.tensor([[1e9], [1.0]])},
        {"adj_t": torch.ones(5), "edge_index": None},
    ],
)
def test_what_needs_a_guess_is_not_repaired(path_data, changes, tmp_path):
    diagnosis = diagnose(path_data(**changes))
    assert diagnosis.graph is None
    with pytest.raises(InvalidConfig, match="was not written"):
        diagnosis.save(tmp_path / "fixed.pt")
    assert not (tmp_path / "fixed.pt").exists()


def test_a_file_that_is_there_is_never_overwritten(path_data, tmp_path):
    (tmp_path / "mine.pt").write_bytes(b"precious")
    diagnosis = diagnose(path_data())
    with pytest.raises(InvalidConfig, match="is there already"):
        diagnosis.save(tmp_path / "mine.pt")
    assert (tmp_path / "mine.pt").read_bytes() == b"precious"
    with pytest.raises(InvalidConfig, match=r"is a \.pt file"):
        diagnosis.save(tmp_path / "mine.npz")


def test_ids_names_and_extras_are_kept_in_the_repaired_file(path_data, tmp_path):
    graph = Graph.from_data(
        path_data(node_ids=list("abcde"), class_names=["x", "y"], year=torch.arange(5), odd={1: 2})
    )
    diagnosis = diagnose(graph)
    assert diagnosis.save(tmp_path / "fixed.pt") == ("odd",)
    fixed = load_graph(tmp_path / "fixed.pt")
    assert fixed.node_ids.tolist() == list("abcde")
    assert fixed.class_names == ("x", "y")
    assert fixed.extras["year"].tolist() == [0, 1, 2, 3, 4]
    numbered = diagnose(path_data(node_ids=torch.tensor([9, 8, 7, 6, 5])))
    numbered.save(tmp_path / "numbered.pt")
    assert load_graph(tmp_path / "numbered.pt").node_ids.dtype == np.int64


def test_oddities_are_said(path_data):
    data = path_data(
        edge_index=torch.tensor([[0, 0, 1], [1, 1, 0]]),
        edge_weight=torch.tensor([1.0, -2.0, 1.0]),
        x=torch.tensor([[1e6, 0]] * 5),
        y=torch.tensor([0, 0, 3, 0, 0]),
    )
    diagnosis = diagnose(data)
    assert codes(diagnosis, "warning") == ["parallel-edges", "weight-negative", "class-empty", "x-large"]
    text = " ".join(found.text() for found in diagnosis.findings)
    for part in ("edge_weight[1] is -2", "2 of the 4 classes have no node: the first is class 1", "1e+06"):
        assert part in text
    assert codes(diagnose(path_data(y=torch.tensor([0, 0, 1, 1, 0]))), "warning") == ["class-untrained"]
    wide = torch.zeros(5, 100)
    wide[0, 0] = 1
    assert "x-sparse" in codes(diagnose(path_data(x=wide)), "note")


def test_whatever_cannot_be_had_is_not_a_finding(tmp_path):
    with pytest.raises(GraphNotFound):
        diagnose(tmp_path / "none.pt")
    with pytest.raises(InvalidConfig):
        diagnose("cora", split=3)


def test_a_file_that_cannot_be_read_is_one(tmp_path):
    (tmp_path / "odd.pt").write_bytes(b"hello")
    diagnosis = diagnose(tmp_path / "odd.pt")
    assert codes(diagnosis) == ["file-damaged"]
    assert diagnosis.graph is None
    assert diagnosis.stats.num_nodes is None
    assert codes(diagnose(HeteroData())) == ["heterogeneous"]
    torch.save(HeteroData(paper={"x": torch.ones(2, 2)}), tmp_path / "hetero.pt")
    assert codes(diagnose(tmp_path / "hetero.pt")) == ["heterogeneous"]
    torch.save(HeteroData(paper={"x": torch.ones(2, 2)}).to_dict(), tmp_path / "dict.pt")
    assert "not" in diagnose(tmp_path / "dict.pt").errors[0].text()


def test_every_finding_speaks_both_languages(path_data, tmp_path):
    wrongs = [
        Data(edge_index=torch.tensor([[0, 1], [1, 0]])),
        path_data(y=None, x=torch.ones(5), train_mask=None),
        path_data(edge_index=torch.ones(3, 3), y=torch.full((5, 2), 2.0), val_mask=torch.tensor([0, 9])),
        path_data(edge_weight=torch.ones(2, 2), test_mask=torch.ones(5) / 2, edge_attr=torch.ones(3, 2)),
        [1, 2],
    ]
    for wrong in wrongs:
        found = diagnose(wrong).findings
        assert found
        for one in found:
            assert isinstance(one, Finding)
            for said in (one.sentence, *([one.hint] if one.hint else [])):
                assert any("\u4e00" <= letter <= "\u9fff" for letter in said["zh"]), said
                assert not any("\u4e00" <= letter <= "\u9fff" for letter in said["en"]), said
