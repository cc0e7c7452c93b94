"""`fasthop check`: the cases of bad input by number, the statistics, --fix, --json and the exit codes."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from fasthop.cli.main import main
from fasthop.graph.sources import load_graph


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FASTHOP_CACHE", str(tmp_path / "cache"))


def path_data(**changes):
    """A directed path 0 -> 1 -> 2 -> 3 with an isolated node 4; two classes."""
    fields = {
        "x": torch.arange(10.0).view(5, 2),
        "edge_index": torch.tensor([[0, 1, 2], [1, 2, 3]]),
        "y": torch.tensor([0, 1, 0, 1, 0]),
        "train_mask": torch.tensor([True, True, False, False, False]),
        "val_mask": torch.tensor([False, False, True, False, False]),
        "test_mask": torch.tensor([False, False, False, True, True]),
    }
    return Data(**{key: value for key, value in (fields | changes).items() if value is not None})


@pytest.fixture
def run(tmp_path, capsys):
    def check(data, *options):
        path = data
        if not isinstance(data, str):
            path = str(tmp_path / "graph.pt")
            torch.save(data, path)
        code = main(["check", path, *options])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.out + captured.err
        return code, captured.out, captured.err

    return check


def test_a_sound_graph_is_shown_with_its_statistics(run):
    code, out, _ = run(path_data())
    assert code == 0
    assert out.splitlines()[0] == "graph: 0 errors, 0 warnings, 0 notes."
    for line in (
        "nodes                             5",
        "edges                             3, directed",
        "in-degree (least, median, most)   0, 1, 1",
        "isolated nodes                    1",
        "components                        2, the largest with 4 nodes",
        "edge homophily                    0.000",
        "features                          2, non-zero 90 %",
        "labels                            0: 3, 1: 2",
        "split                             train 2, val 1, test 2",
    ):
        assert line in out
    code, out, _ = run(path_data(), "--lang", "zh")
    assert code == 0
    assert "连通分量" in out
    assert "2，最大的含 4 个节点" in out


CASES = [
    # (case, changes, exit code, what is said)
    (6, {"edge_weight": torch.ones(3, 1)}, 0, "edge_weight of shape [E, 1] was squeezed to [E]."),
    (6, {"edge_weight": torch.ones(3, 2)}, 2, "edge_weight has shape [3, 2]"),
    (6, {"edge_weight": torch.ones(4)}, 2, "edge_weight has shape [4]"),
    (6, {"edge_weight": torch.ones(3, dtype=torch.float64)}, 0, "cast from float64 to float32"),
    (6, {"edge_attr": torch.ones(3, 1)}, 0, "edge_attr was kept, but is not used as the edges' weights"),
    (9, {"train_mask": torch.ones(5, 10, dtype=torch.bool)}, 2, "train_mask has shape [5, 10], which is 10 splits"),
    (9, {"train_mask": torch.ones(5, 3, dtype=torch.bool)}, 2, "choose one with split=0 to split=2"),
    (10, {"train_mask": torch.tensor([1, 1, 0, 0, 0])}, 0, "was read as a mask, not as node indices"),
    (10, {"train_mask": torch.tensor([1, 1, 0, 0, 0], dtype=torch.uint8)}, 0, "0 errors, 0 warnings, 0 notes"),
    (10, {"train_mask": torch.tensor([0, 1])}, 0, "0 errors, 0 warnings, 0 notes"),
    (11, {"y": torch.tensor([[0], [1], [0], [1], [0]])}, 0, "Labels of shape [N, 1] were squeezed to [N]."),
    (12, {"y": torch.tensor([0, -1, 0, 1, 0])}, 2, "1 of the 2 nodes in train_mask have no valid label: the first is node 1"),
    (12, {"y": torch.tensor([0, float("nan"), 0, 1, 0])}, 2, "node 1 with y = -1"),
    (13, {"train_mask": torch.zeros(5, dtype=torch.bool)}, 2, "train_mask selects no node"),
    (13, {"y": torch.zeros(5, dtype=torch.int64)}, 0, "accuracy means nothing here"),
    (14, {"x": None, "y": None, "train_mask": None, "val_mask": None, "test_mask": None}, 2, "number of nodes is not known"),
    (15, {"edge_index": torch.tensor([[0, 7], [1, 2]])}, 2, "edge_index[0, 1] is 7, which is out of range for 5 nodes"),
    (15, {"edge_index": torch.tensor([[0, 1], [1, -1]])}, 2, "edge_index[1, 1] is -1, which is negative"),
    (16, {"edge_index": torch.tensor([[0, 1, 2], [1, 2, 3]], dtype=torch.int32)}, 0, "0 errors, 0 warnings, 0 notes"),
    (16, {"edge_index": torch.tensor([[0.0, 1, 2], [1, 2, 3]])}, 2, "edge_index has dtype float32"),
    (16, {"edge_index": torch.empty(2, 0)}, 2, "an empty one is torch.empty(2, 0, dtype=torch.int64)"),
    (23, {"x": torch.eye(5).to_sparse_coo()}, 0, "features                          5, non-zero 20 %"),
    (26, {"x": torch.ones(5, 2, dtype=torch.int64)}, 0, "x was cast from int64 to float32"),
    (26, {"x": torch.ones(5, 2, dtype=torch.float64)}, 0, "x was cast from float64 to float32"),
    (26, {"x": None}, 0, "needs an embedding of the nodes (looked up by n_id)"),
    (30, {"edge_index": torch.empty(2, 0, dtype=torch.int64)}, 0, "The graph has no edges"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "changes", "code", "said"), CASES, ids=lambda value: value if type(value) is int else ""
)
def test_cases_by_number(run, case, changes, code, said):
    got, out, _ = run(path_data(**changes))
    assert said in out, case
    assert got == code


@pytest.mark.filterwarnings("ignore:Sparse")
def test_case_23_compressed_x(run):
    code, out, _ = run(path_data(x=torch.eye(5).to_sparse_csr()))
    assert code == 0
    assert "non-zero 20 %" in out


class Custom:
    """A class that torch.load does not know to be safe."""


def test_case_28_whole_objects(run, tmp_path):
    code, out, _ = run(path_data(extra=Custom()))
    assert code == 2
    assert "unpickling that may run any code" in out
    code, out, _ = run(path_data(extra=Custom()), "--unsafe-pickle", "--fix", str(tmp_path / "out.pt"))
    assert code == 0
    assert "Left out, being no tensors: extra." in out
    assert load_graph(tmp_path / "out.pt").num_nodes == 5


def test_case_29_no_network(run, monkeypatch):
    from fasthop.graph import planetoid

    monkeypatch.setattr(planetoid, "ADDRESSES", ("http://127.0.0.1:9/nowhere",))
    code, _, err = run("planetoid:CiteSeer")
    assert code == 2
    assert "Tried: " in err
    assert "--root" in err
    assert run("cora")[0] == 0


def test_fix_repairs_what_has_one_right_repair_and_says_so(run, tmp_path):
    data = path_data(
        y=torch.tensor([[0], [1], [0], [1], [0]]), edge_index=torch.tensor([[0, 1], [1, 2], [2, 3]])
    )
    out_path = tmp_path / "fixed.pt"
    code, out, _ = run(data, "--fix", str(out_path))
    assert code == 0
    assert f"Wrote {out_path}, with this repaired:" in out
    assert "edge_index has shape [3, 2]" in out.split("Wrote")[1]
    assert "squeezed" in out.split("Wrote")[1]
    assert run(str(out_path))[0] == 0
    # Without --fix the same graph is not usable, and the file that is there is kept.
    assert run(data)[0] == 2
    code, _, err = run(data, "--fix", str(out_path))
    assert code == 2
    assert "is there already" in err
    code, _, err = run(str(out_path), "--fix", str(out_path))
    assert (code, "is there already" in err) == (2, True)


def test_fix_writes_nothing_where_something_needs_a_guess(run, tmp_path):
    data = path_data(y=torch.tensor([[0], [-1], [0], [1], [0]]))
    code, out, _ = run(data, "--fix", str(tmp_path / "fixed.pt"))
    assert code == 2
    assert "was not written: 1 of the errors have no single right repair" in out
    assert not (tmp_path / "fixed.pt").exists()
    code, out, _ = run(data, "--fix", str(tmp_path / "fixed.pt"), "--lang", "zh")
    assert "1 个错误没有唯一正确的修复" in out
    code, _, err = run(path_data(), "--fix", str(tmp_path / "none" / "fixed.pt"))
    assert code == 2
    assert "cannot be written" in err


def test_json(run, tmp_path):
    code, out, _ = run(path_data(edge_index=torch.tensor([[0, 7], [1, 2]])), "--json")
    tree = json.loads(out)
    assert code == 2
    assert tree["num_errors"] == 1
    assert tree["findings"][0]["code"] == "index-out-of-range"
    assert set(tree["findings"][0]["sentence"]) == {"en", "zh"}
    assert tree["statistics"]["num_nodes"] == 5
    assert tree["fixed"] is None
    code, out, _ = run(path_data(), "--json", "--fix", str(tmp_path / "out.pt"))
    assert json.loads(out)["fixed"] == str(tmp_path / "out.pt")
    code, out, _ = run(str(tmp_path / "none.pt"), "--json")
    assert (code, json.loads(out)["error"]["type"]) == (2, "GraphNotFound")


def test_tables_and_splits(run, tmp_path):
    (tmp_path / "e.csv").write_text("source,target\na,b\nb,zoe\n")
    (tmp_path / "n.csv").write_text("id,f,label,split\na,1,x,train\nb,tall,y,train\nb,3,x,test\n")
    code, out, _ = run(str(tmp_path / "e.csv"), "--nodes", str(tmp_path / "n.csv"))
    assert code == 2
    assert "The id 'b' stands in rows 2 and 3 of n.csv" in out
    assert "row 2, column f, of n.csv is 'tall'" in out
    (tmp_path / "n.csv").write_text("id,f,label,split\na,1,x,train\nb,2,y,train\nc,3,x,test\n")
    code, out, _ = run(str(tmp_path / "e.csv"), "--nodes", str(tmp_path / "n.csv"))
    assert "row 2, column target, of e.csv ends at 'zoe'" in out
    edges = np.array([[0, 1], [1, 2]])
    masks = {f"{name}_masks": np.ones((10, 3), bool) for name in ("train", "val", "test")}
    np.savez(
        tmp_path / "ten.npz",
        node_features=np.ones((3, 2)),
        node_labels=np.array([0, 1, 0]),
        edges=edges,
        **masks,
    )
    assert run(str(tmp_path / "ten.npz"))[0] == 2
    code, out, _ = run(str(tmp_path / "ten.npz"), "--split", "3")
    assert code == 0
    assert "train_mask is split 3 of the 10" in out
    assert "4, undirected" in out
    assert run(str(tmp_path / "ten.npz"), "--split", "34/33/33", "--seed", "4")[0] == 0


def test_many_classes_are_summed_up(run):
    y = torch.arange(5) + 10
    _, out, _ = run(path_data(y=y))
    assert "15 classes of 0 to 1 nodes" in out
    _, out, _ = run(path_data(y=y), "--lang", "zh")
    assert "15 类，每类 0 到 1 个节点" in out
