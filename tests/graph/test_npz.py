from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.utils import from_scipy_sparse_matrix, to_undirected

from fasthop.errors import GraphNotFound, InvalidGraph
from fasthop.graph.sources import load_graph

N = 6
RNG = np.random.default_rng(0)
X = RNG.random((N, 3), dtype=np.float32)
Y = np.array([0, 1, 2, 0, 1, 2])
# Directed, with a self-loop and an isolated node 5.
EDGES = np.array([[0, 1, 1, 3, 4], [1, 2, 4, 3, 0]])
MASKS = {
    "train_mask": np.array([True, True, False, False, False, False]),
    "val_mask": np.array([False, False, True, False, False, False]),
    "test_mask": np.array([False, False, False, True, True, True]),
}


@pytest.fixture
def write(tmp_path):
    def make(**arrays):
        path = tmp_path / "graph.npz"
        np.savez(path, **{name: value for name, value in arrays.items() if value is not None})
        return path

    return make


def said(graph):
    return " ".join(note["en"] for note in graph.notes)


def pairs(edge_index):
    return sorted(map(tuple, np.asarray(edge_index).T.tolist()))


@pytest.mark.parametrize("names", [("x", "y"), ("features", "labels"), ("node_feat", "node_label")])
def test_edge_index_features_and_labels(write, names):
    weight = np.arange(5) / 2
    path = write(
        edge_index=EDGES,
        edge_weight=weight,
        year=np.arange(N),
        **dict(zip(names, (X, Y), strict=True)),
        **MASKS,
    )
    graph = load_graph(path)
    assert (graph.name, graph.num_nodes, graph.num_classes) == ("graph", N, 3)
    assert graph.edge_index.tolist() == EDGES.tolist()
    assert graph.edge_weight.tolist() == weight.tolist()
    assert np.array_equal(graph.x.numpy(), X)
    assert graph.y.tolist() == Y.tolist()
    assert graph.test_mask.tolist() == MASKS["test_mask"].tolist()
    assert graph.extras["year"].tolist() == list(range(N))


def heterophilous(**changes):
    edges = np.array([[0, 1], [2, 1], [3, 5], [4, 4]])
    masks = {name: np.zeros((10, N), dtype=bool) for name in ("train_masks", "val_masks", "test_masks")}
    for k in range(10):
        masks["train_masks"][k, [k % N, (k + 1) % N]] = True
        masks["val_masks"][k, (k + 2) % N] = True
        masks["test_masks"][k, [(k + 3) % N, (k + 4) % N]] = True
    return {"node_features": X, "node_labels": Y, "edges": edges, **masks, **changes}


def test_the_heterophilous_layout_gives_both_directions_and_one_of_ten_splits(write):
    arrays = heterophilous()
    path = write(**arrays)
    # Case 9: masks of ten splits need a choice.
    with pytest.raises(InvalidGraph, match=r"train_mask has shape \[6, 10\].*split=0 to split=9"):
        load_graph(path)
    for k in (0, 3, "7"):
        graph = load_graph(path, split=k)
        for name in ("train", "val", "test"):
            mask = getattr(graph, f"{name}_mask")
            assert mask.tolist() == arrays[f"{name}_masks"][int(k)].tolist()
        expected = to_undirected(torch.from_numpy(arrays["edges"]).t().contiguous(), num_nodes=N)
        assert pairs(graph.edge_index) == pairs(expected)
        assert "both directions were made, 7 in all" in said(graph)
        assert f"split {k} of the 10" in said(graph)
    with pytest.raises(InvalidGraph, match="split is 10"):
        load_graph(path, split=10)


def test_as_many_splits_as_nodes_are_still_rows(write):
    arrays = heterophilous()
    path = write(**{k: v[:N] if k.endswith("_masks") else v for k, v in arrays.items()})
    assert load_graph(path, split=1).train_mask.tolist() == arrays["train_masks"][1].tolist()


@pytest.mark.parametrize(
    "names",
    [
        ("adj_data", "adj_indices", "adj_indptr", "adj_shape"),
        ("adj_matrix.data", "adj_matrix.indices", "adj_matrix.indptr", "adj_matrix.shape"),
        ("data", "indices", "indptr", "shape"),
        (None, "indices", "indptr", None),
        (None, "col", "rowptr", None),
    ],
)
def test_an_adjacency_in_compressed_rows_is_read_as_pyg_reads_it(write, names):
    # Case 7: a directed graph, so that the transpose would show.
    adj = sp.csr_array((np.ones(5, np.float32), (EDGES[0], EDGES[1])), shape=(N, N))
    parts = (adj.data, adj.indices, adj.indptr, np.array(adj.shape))
    path = write(x=X, labels=Y, **{n: p for n, p in zip(names, parts, strict=True) if n}, **MASKS)
    graph = load_graph(path)
    assert pairs(graph.edge_index) == pairs(from_scipy_sparse_matrix(adj)[0]) == pairs(EDGES)
    assert graph.edge_weight is None
    assert "[i, j] was read as an edge i -> j" in said(graph)
    assert graph.num_nodes == N


def test_the_well_known_benchmark_layout(write):
    adj = sp.csr_array((np.array([2.0, 3, 4, 5, 6]), (EDGES[0], EDGES[1])), shape=(N, N))
    attr = sp.csr_array(np.round(X))
    path = write(
        adj_data=adj.data, adj_indices=adj.indices, adj_indptr=adj.indptr, adj_shape=adj.shape,
        attr_data=attr.data, attr_indices=attr.indices, attr_indptr=attr.indptr, attr_shape=attr.shape,
        labels=Y, node_names=np.array(["a"] * N, dtype=object),
    )  # fmt: skip
    with pytest.raises(InvalidGraph, match="no train_mask"):
        load_graph(path)
    graph = load_graph(path, split="34/33/33")
    assert np.array_equal(graph.x.numpy(), attr.toarray())
    edge_index, weight = from_scipy_sparse_matrix(adj)
    assert pairs(graph.edge_index) == pairs(edge_index)
    assert sorted(graph.edge_weight.tolist()) == sorted(weight.tolist())
    assert "node_names" in said(graph)


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_what_scipy_saves_is_read_in_its_own_form(tmp_path, form):
    adj = sp.coo_matrix((np.arange(1.0, 6), (EDGES[0], EDGES[1])), shape=(N, N)).asformat(form)
    sp.save_npz(tmp_path / "adj.npz", adj)
    with np.load(tmp_path / "adj.npz") as file:
        np.savez(tmp_path / "whole.npz", y=Y, **MASKS, **dict(file))
    graph = load_graph(tmp_path / "whole.npz")
    triples = sorted(zip(*graph.edge_index.tolist(), graph.edge_weight.tolist(), strict=True))
    assert triples == sorted(zip(*EDGES.tolist(), [1.0, 2, 3, 4, 5], strict=True))


def test_words_as_labels_and_ids(write):
    words = np.array(["b", "a", "", "b", "a", "c"])
    path = write(
        edge_index=EDGES,
        x=X,
        y=words,
        node_ids=np.array(list("uvwxyz")),
        **(MASKS | {"val_mask": MASKS["test_mask"]}),
    )
    graph = load_graph(path)
    assert graph.class_names == ("a", "b", "c")
    assert graph.y.tolist() == [1, 0, -1, 1, 0, 2]
    assert graph.node_ids.tolist() == list("uvwxyz")


def test_several_labels(write):
    y = np.array([[0, 1], [1, 1], [0, 0], [1, 0], [1, 1], [0, 1]])
    assert load_graph(write(edge_index=EDGES, x=X, y=y, **MASKS)).is_multilabel


@pytest.mark.parametrize("dtype", ["int32", "uint16", "uint32", "uint64", ">i4", "int8"])
def test_indices_of_any_integer_type(write, dtype):
    graph = load_graph(write(edge_index=EDGES.astype(dtype), x=X.astype(">f8"), y=Y.astype(dtype), **MASKS))
    assert graph.edge_index.tolist() == EDGES.tolist()
    assert torch.allclose(graph.x, torch.from_numpy(X))


class Evil:
    def __reduce__(self):
        return (print, ("code ran",))


@pytest.mark.parametrize("name", ["x", "y", "edge_index", "train_mask"])
def test_python_objects_are_refused_and_never_unpickled(write, capsys, name):
    arrays = {"edge_index": EDGES, "x": X, "y": Y, **MASKS, name: np.array([Evil()] * 3, dtype=object)}
    with pytest.raises(InvalidGraph, match=f"array {name} of .*graph.npz holds Python objects"):
        load_graph(write(**arrays))
    assert "code ran" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"edge_index": None}, r"holds \['test_mask', 'train_mask', 'val_mask', 'x', 'y'\], and no edges"),
        ({"edge_index": EDGES + 4}, r"edge_index\[0, 3\] is 7"),
        ({"edge_index": EDGES - 1}, r"edge_index\[0, 0\] is -1"),
        ({"edge_index": EDGES.T}, r"edge_index has shape \[5, 2\].*edge_index\.t\(\)"),
        ({"edge_index": EDGES.astype(float)}, "edge_index has dtype float64"),
        ({"x": X[:4], "num_nodes": N}, r"x has shape \[4, 3\]"),
        ({"x": np.full((N, 2), np.nan)}, r"x\[0, 0\] is nan"),
        ({"x": X.astype(complex)}, "x has dtype complex128; it must hold numbers"),
        ({"y": Y[:4]}, r"y has shape \[4\]"),
        ({"edge_index": EDGES.astype(np.uint64) + np.uint64(2**63)}, "which does not fit into int64"),
        ({"train_mask": np.zeros(N, bool)}, "train_mask selects no node"),
    ],
)
def test_faults_are_named(write, changes, sentence):
    with pytest.raises(InvalidGraph, match=sentence):
        load_graph(write(**({"edge_index": EDGES, "x": X, "y": Y, **MASKS} | changes)))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"indptr": np.array([0, 2, 1, 3, 4, 5, 5])}, "indptr does not rise"),
        ({"indptr": np.array([0, 2, 5])}, r"shape is \[6, 6\], and indptr has 3"),
        ({"indices": np.array([0, 1, 2, 3, 9])}, r"indices\[4\] is 9"),
        ({"indices": np.array([0.0, 1, 2, 3, 4])}, "indices has dtype float64"),
        ({"shape": np.array([6, 4])}, "6 x 4 matrix, which means a bipartite graph"),
        ({"shape": np.array([6, -4])}, "shape has dtype int64"),
        ({"data": np.ones(4)}, "data has dtype float64 and shape"),
        ({"format": np.array("bsr")}, "format is 'bsr'"),
    ],
)
def test_what_is_no_compressed_matrix_is_refused(write, changes, sentence):
    whole = {
        "indptr": np.array([0, 1, 2, 3, 4, 5, 5]),
        "indices": np.array([1, 2, 3, 4, 0]),
        "shape": np.array([6, 6]),
    }
    with pytest.raises(InvalidGraph, match=sentence):
        load_graph(write(**(whole | {"x": X, "y": Y, **MASKS} | changes)))


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04 broken", b"\x93NUMPY\x01\x00"])
def test_what_is_no_archive_is_explained(tmp_path, content):
    (tmp_path / "odd.npz").write_bytes(content)
    with pytest.raises(InvalidGraph, match=r"odd\.npz is not an \.npz file, or is damaged"):
        load_graph(tmp_path / "odd.npz")
    with pytest.raises(GraphNotFound, match="no file"):
        load_graph(tmp_path / "none.npz")


def test_an_array_that_claims_more_than_it_holds_is_refused_before_memory_is_reserved(tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f4", "fortran_order": False, "shape": (10**13, 3)}
    )
    with zipfile.ZipFile(tmp_path / "liar.npz", "w") as archive:
        archive.writestr("x.npy", header.getvalue())
    with pytest.raises(InvalidGraph, match="should hold 120,000,000,000,000 bytes and holds 0"):
        load_graph(tmp_path / "liar.npz")


def test_making_both_directions_of_a_directed_file(write):
    graph = load_graph(
        write(edge_index=EDGES, x=X, y=Y, edge_weight=np.arange(1.0, 6), edge_attr=np.ones((5, 2)), **MASKS),
        undirected=True,
    )
    assert pairs(graph.edge_index) == pairs(to_undirected(torch.from_numpy(EDGES)))
    weights = dict(zip(zip(*graph.edge_index.tolist(), strict=True), graph.edge_weight.tolist(), strict=True))
    assert weights[(2, 1)] == weights[(1, 2)] == 2.0
    assert graph.extras["edge_attr"].shape == (graph.num_edges, 2)
    assert "4 of the 5 had no reverse" in said(graph)
