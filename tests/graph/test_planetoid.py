from __future__ import annotations

import functools
import http.server
import pickle
import shutil
import threading

import pytest
import torch
from torch_geometric.datasets import Planetoid

from fasthop.errors import GraphNotFound, InvalidConfig, InvalidGraph
from fasthop.graph import planetoid
from fasthop.graph.planetoid import planetoid_graph

NOWHERE = "http://127.0.0.1:9/data"


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    """Port 9 answers at once that nobody listens there."""
    monkeypatch.setattr(planetoid, "ADDRESSES", (NOWHERE, "http://127.0.0.1:9/mirror"))


@pytest.fixture
def mirror(planetoid_root):
    """A web server of this process that has Cora's raw files."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format, *args):
            pass

    handler = functools.partial(Quiet, directory=str(planetoid_root / "Cora" / "raw"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.filterwarnings("ignore")
def test_it_is_what_pyg_reads(planetoid_root, tmp_path):
    shutil.copytree(planetoid_root / "Cora", tmp_path / "Cora")
    dataset = Planetoid(str(tmp_path), "Cora")
    graph = planetoid_graph("Cora", root=planetoid_root)
    for key in ("x", "edge_index", "y", "train_mask", "val_mask", "test_mask"):
        assert torch.equal(getattr(graph, key), dataset[0][key]), key
    assert graph.num_classes == 7
    assert graph.notes == ()
    full = planetoid_graph("Cora", root=planetoid_root, split="full")
    assert torch.equal(full.train_mask, Planetoid(str(tmp_path), "Cora", split="full")[0].train_mask)


@pytest.mark.parametrize("inside", ["", "PubMed", "PubMed/raw"])
def test_the_root_may_be_any_of_three_folders_and_is_only_read(planetoid_root, tmp_path, cache, inside):
    root = tmp_path / "root"
    shutil.copytree(planetoid_root / "PubMed", root / "PubMed")
    before = {path: path.stat().st_mtime_ns for path in sorted(root.rglob("*"))}
    graph = planetoid_graph("pubmed", root=root / inside)
    assert (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes) == (
        19_717,
        88_648,
        500,
        3,
    )
    assert graph.name == "planetoid:PubMed"
    assert {path: path.stat().st_mtime_ns for path in sorted(root.rglob("*"))} == before
    assert [path.name for path in cache.rglob("*.pt") if path.name == "data.pt"] == ["data.pt"]


def test_what_was_derived_is_read_again(planetoid_root, monkeypatch):
    first = planetoid_graph("Cora", root=planetoid_root)

    def fail(self):
        raise AssertionError("processed twice")

    monkeypatch.setattr(Planetoid, "process", fail)
    assert torch.equal(planetoid_graph("Cora", root=planetoid_root).x, first.x)


def test_it_works_where_the_cache_cannot_be_written(planetoid_root, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("FASTHOP_CACHE", str(tmp_path / "file"))
    assert planetoid_graph("Cora", root=planetoid_root).num_nodes == 2708


def test_offline_the_sentence_says_what_was_tried_and_where_files_go(cache):  # case 29
    with pytest.raises(GraphNotFound) as caught:
        planetoid_graph("CiteSeer")
    message = str(caught.value)
    folder = str(cache / "graphs" / "planetoid" / "CiteSeer" / "raw")
    for part in (
        NOWHERE,
        "http://127.0.0.1:9/mirror",
        f"{folder} (not there)",
        "ind.citeseer.test.index",
        "--root",
        "cora",
    ):
        assert part in message
    assert f"into {folder}" in message


@pytest.mark.parametrize("rooted", [False, True])
def test_the_second_address_is_tried_and_the_files_are_kept(mirror, monkeypatch, tmp_path, cache, rooted):
    monkeypatch.setattr(planetoid, "ADDRESSES", (NOWHERE, mirror))
    root = tmp_path if rooted else None
    graph = planetoid_graph("Cora", root=root)
    assert graph.num_nodes == 2708
    raw = (tmp_path if rooted else cache / "graphs" / "planetoid") / "Cora" / "raw"
    assert sorted(path.name for path in raw.iterdir()) == sorted(planetoid.file_names("Cora"))
    monkeypatch.setattr(planetoid, "ADDRESSES", (NOWHERE,))
    assert planetoid_graph("Cora", root=root).num_nodes == 2708


class Evil:
    def __reduce__(self):
        return (print, ("code ran",))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"<!DOCTYPE html>", "is not Planetoid's file"),
        (b"", "is not Planetoid's file"),
        (pickle.dumps(Evil()), "refers to builtins.print"),
    ],
)
def test_a_damaged_or_unsafe_file_is_refused_unread(planetoid_root, tmp_path, capsys, content, sentence):
    shutil.copytree(planetoid_root / "Cora", tmp_path / "Cora")
    (tmp_path / "Cora" / "raw" / "ind.cora.graph").write_bytes(content)
    with pytest.raises(InvalidGraph, match=sentence):
        planetoid_graph("Cora", root=tmp_path)
    assert "code ran" not in capsys.readouterr().out


def test_a_damaged_download_leaves_nothing_behind(mirror, monkeypatch, cache):
    monkeypatch.setattr(planetoid, "PARTS", ("x", "graph.missing"))
    monkeypatch.setattr(planetoid, "ADDRESSES", (mirror,))
    with pytest.raises(GraphNotFound, match="404"):
        planetoid_graph("Cora")
    assert not (cache / "graphs" / "planetoid" / "Cora").exists()


def test_splits(planetoid_root):
    drawn = planetoid_graph("Cora", root=planetoid_root, split="random", seed=4)
    again = planetoid_graph("Cora", root=planetoid_root, split="random", seed=4)
    other = planetoid_graph("Cora", root=planetoid_root, split="random", seed=5)
    assert torch.equal(drawn.train_mask, again.train_mask)
    assert not torch.equal(drawn.train_mask, other.train_mask)
    assert torch.bincount(drawn.y[drawn.train_mask]).tolist() == [20] * 7
    assert (int(drawn.val_mask.sum()), int(drawn.test_mask.sum())) == (500, 1000)
    assert "seed 4" in drawn.notes[0]["en"]
    with pytest.raises(InvalidConfig, match='"public"'):
        planetoid_graph("Cora", root=planetoid_root, split=1)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(GraphNotFound, match="planetoid:Cora, planetoid:CiteSeer, planetoid:PubMed"):
        planetoid_graph("Corra")
