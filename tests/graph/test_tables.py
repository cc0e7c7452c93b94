from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from fasthop.errors import GraphNotFound, InvalidConfig, InvalidGraph
from fasthop.graph.sources import load_graph

EDGES = "source,target,weight\nann,bob,1.5\nbob,ann,2\ncid,ann,0.25\n"
NODES = (
    "id,f1,f2,label,split\nbob,1,2,red,train\nann,3,4.5,blue,train\ncid,-1,1e3,red,val\ndee,0,0,blue,test\n"
)


@pytest.fixture
def write(tmp_path):
    def make(edges=EDGES, nodes=NODES, suffix=".csv"):
        for stem, text in (("edges", edges), ("nodes", nodes)):
            content = text if isinstance(text, bytes) else text.encode()
            (tmp_path / f"{stem}{suffix}").write_bytes(content)
        return tmp_path / f"edges{suffix}", tmp_path / f"nodes{suffix}"

    return make


def load(paths, **options):
    return load_graph(paths[0], nodes=paths[1], **options)


def said(graph):
    return " ".join(note["en"] for note in graph.notes)


def check_small(graph):
    assert graph.node_ids.tolist() == ["bob", "ann", "cid", "dee"]
    assert graph.edge_index.tolist() == [[1, 0, 2], [0, 1, 1]]
    assert graph.edge_weight.tolist() == [1.5, 2.0, 0.25]
    assert graph.x.tolist() == [[1, 2], [3, 4.5], [-1, 1000], [0, 0]]
    assert graph.class_names == ("blue", "red")
    assert graph.y.tolist() == [1, 0, 1, 0]
    assert graph.train_mask.tolist() == [True, True, False, False]
    assert graph.val_mask.tolist() == [False, False, True, False]
    assert graph.test_mask.tolist() == [False, False, False, True]


def test_csv_tsv_and_a_folder(write, tmp_path):
    paths = write()
    check_small(load(paths))
    assert "taken as directed, source to target: 1 of 3 have no reverse" in said(load(paths))
    check_small(load_graph(tmp_path))
    assert load_graph(f"{tmp_path}/").name == tmp_path.name
    for path in paths:
        path.unlink()
    check_small(load(write(EDGES.replace(",", "\t"), NODES.replace(",", "\t"), ".tsv")))


def test_parquet_with_its_own_types(tmp_path):
    ids = pa.array(["bob", "ann", "cid", "dee"]).dictionary_encode()
    nodes = {
        "id": ids,
        "x": pa.array([[1.0, 2.0], [3.0, 4.5], [-1.0, 1000.0], [0.0, 0.0]]),
        "label": ["red", "blue", "red", "blue"],
        "train_mask": [True, True, False, False],
        "val_mask": [False, False, True, False],
        "test_mask": [0, 0, 0, 1],
    }
    edges = {
        "src": ["ann", "bob", "cid"],
        "dst": ["bob", "ann", "ann"],
        "weight": pa.array([1.5, 2, 0.25], pa.float32()),
    }
    pq.write_table(pa.table(nodes), tmp_path / "nodes.parquet")
    pq.write_table(pa.table(edges), tmp_path / "edges.parquet")
    check_small(load_graph(tmp_path))


def test_text_as_spreadsheets_write_it(write):
    edges = EDGES.replace("\n", "\r\n").replace(",", ", ")
    nodes = "\ufeff" + NODES.replace("label", '"Label"').replace("ann", '"ann"').rstrip("\n")
    check_small(load(write(edges, nodes)))


def test_whole_numbers_stay_numbers_and_leading_zeros_stay_text(write):
    nodes = "id,a,y\n10,1,0\n7,2,1\n-3,3,1\n"
    graph = load(write("source,target\n7,10\n-3,7\n", nodes), split="34/33/33")
    assert graph.node_ids.dtype == np.int64
    assert graph.node_ids.tolist() == [10, 7, -3]
    assert graph.edge_index.tolist() == [[1, 2], [0, 1]]
    assert graph.class_names is None
    graph = load(write("source,target\n007,7\n", "id,a,y\n7,1,0\n007,2,1\n"), split="50/50/0")
    assert graph.node_ids.tolist() == ["7", "007"]
    assert graph.edge_index.tolist() == [[1], [0]]


def test_unlabelled_nodes_and_several_labels(write):
    nodes = NODES.replace("blue,test", ",")
    graph = load(write(nodes=nodes))
    assert graph.y.tolist() == [1, 0, 1, -1]
    many = "id,label_wet,label_warm,f,split\na,1,1,5,train\nb,0,0,6,train\nc,,,7,\nd,1,0,8,test\n"
    graph = load(write("source,target\na,b\n", many))
    assert graph.is_multilabel
    assert graph.class_names == ("wet", "warm")
    assert graph.labelled.tolist() == [True, True, False, True]
    assert graph.y[[0, 1, 3]].tolist() == [[1, 1], [0, 0], [1, 0]]
    assert graph.x.tolist() == [[5], [6], [7], [8]]


def test_both_directions_on_request(write):
    graph = load(write(), undirected=True)
    assert graph.edge_index.tolist() == [[1, 0, 2, 1], [0, 1, 1, 2]]
    assert graph.edge_weight.tolist() == [1.5, 2.0, 0.25, 0.25]
    assert "1 of the 3 had no reverse, which was added" in said(graph)
    assert "taken as directed" not in said(graph)


def test_no_edges_no_features_and_other_columns(write):
    # Case 30: an edge list without edges is a graph.
    graph = load(write("source,target\n", "id,label,split\na,0,train\nb,1,test\n"))
    assert (graph.num_edges, graph.num_nodes, graph.x) == (0, 2, None)
    graph = load(write("a,b,time,kind\nann,bob,7,x\n"))
    assert graph.extras["edge_attr"].tolist() == [[7.0]]
    assert "columns a and b of edges.csv were taken as source and target" in said(graph)
    assert "kind" in said(graph)


def test_how_it_is_asked_for(write, tmp_path):
    edges, nodes = write()
    with pytest.raises(InvalidConfig, match=r"--nodes nodes\.csv"):
        load_graph(edges)
    with pytest.raises(InvalidConfig, match="nodes goes with an edge list"):
        load_graph("cora", nodes=nodes)
    with pytest.raises(GraphNotFound, match=r"no file .*none\.csv"):
        load_graph(edges, nodes=tmp_path / "none.csv")
    (tmp_path / "nodes.tsv").write_text("id\n")
    with pytest.raises(GraphNotFound, match=r"holds nodes\.csv, nodes\.tsv"):
        load_graph(tmp_path)
    nodes.unlink()
    (tmp_path / "nodes.tsv").unlink()
    with pytest.raises(GraphNotFound, match="holds no nodes table"):
        load_graph(tmp_path)


@pytest.mark.parametrize(
    ("edges", "sentence"),
    [
        (
            EDGES + "zoe,ann,1\n",
            r"row 4, column source, of edges\.csv ends at 'zoe', which is no id in nodes\.csv \(1 such",
        ),
        (EDGES + "ann,,1\n", r"The id in row 4, column target, of edges\.csv is missing"),
        (EDGES + "ann,bob\n", r"Row 4 of edges\.csv has 2 values, and the header names 3 columns \(1 such"),
        (EDGES + "ann,bob,1,2,3\n", r"Row 4 of edges\.csv has 5 values"),
        (EDGES + "ann,bob,heavy\n", r"row 4, column weight, of edges\.csv is 'heavy', which is no number"),
        (EDGES + "ann,bob,nan\n", r"row 4, column weight, of edges\.csv is 'nan'"),
        (b"", r"edges\.csv is empty.*first line names the columns"),
        (b"\n\n", r"edges\.csv has no header"),
        ("1,2\n2,3\n", r"first line of edges\.csv is '1,2', which is no header"),
        (EDGES.encode("utf-16"), r"not UTF-8 text: byte 0xff in line 1 \(it looks like UTF-16\)"),
        (EDGES.encode() + b"jos\xe9,ann,1\n", r"not UTF-8 text: byte 0xe9 in line 5"),
        (EDGES.encode() + b"\x00", "holds zero bytes"),
        ("source;target\nann;bob\n", r"one column, 'source;target'.*separated by commas"),
        ("source,target,Source\nann,bob,cid\n", "two columns named 'Source'"),
    ],
)
def test_a_fault_of_the_edges_is_named_with_its_row(write, edges, sentence):
    with pytest.raises(InvalidGraph, match=sentence):
        load(write(edges))


@pytest.mark.parametrize(
    ("nodes", "sentence"),
    [
        (NODES + "ann,5,5,red,\n", r"The id 'ann' stands in rows 2 and 5 of nodes\.csv \(1 such"),
        (NODES + ",5,5,red,\n", r"The id in row 5, column id, of nodes\.csv is missing"),
        (
            NODES + "eve,tall,5,red,\n",
            r"row 5, column f1, of nodes\.csv is 'tall', which is no number .*leave the column out",
        ),
        (NODES + "eve,,5,red,\n", r"row 5, column f1, of nodes\.csv is empty"),
        (NODES + "eve,inf,5,red,\n", r"row 5, column f1, of nodes\.csv is 'inf'"),
        (NODES + "eve,1,5,red,maybe\n", "The split of row 5 is 'maybe'; it must be train, val or test"),
        (NODES + "eve,1,5,,train\n", r"1 of the 3 nodes in train_mask .* node 4 with y = -1"),
        (NODES.replace("f2", "y"), "labels in several columns: y, label"),
        (NODES.replace("f2", "train_mask"), "both split and train_mask"),
        (NODES.replace("split", "train_mask").replace("train\n", "2\n"), "The train_mask of row 1 is '2'"),
        (NODES + "x" * 1001 + ",1,5,red,\n", "longer than 1,000 characters"),
        ("id,f,label,split\n", "No node has a label|y has shape"),
    ],
)
def test_a_fault_of_the_nodes_is_named_with_its_row(write, nodes, sentence):
    with pytest.raises(InvalidGraph, match=sentence):
        load(write("source,target\n" if nodes.startswith("id,f,") else EDGES, nodes))


def test_ids_of_other_types_are_refused(tmp_path):
    pq.write_table(pa.table({"id": [1.0, 2.0], "label": [0, 1]}), tmp_path / "nodes.parquet")
    pq.write_table(pa.table({"source": [1], "target": [2]}), tmp_path / "edges.parquet")
    with pytest.raises(
        InvalidGraph, match=r"Column id of nodes\.parquet has type double; ids are text or whole"
    ):
        load_graph(tmp_path)
    (tmp_path / "edges.parquet").write_bytes(b"PAR1 no table PAR1")
    with pytest.raises(InvalidGraph, match=r"edges\.parquet is not a Parquet file|type double"):
        load_graph(tmp_path)


def test_label_columns_of_lists_are_refused(tmp_path):
    nodes = {
        "id": ["a", "b"],
        "label_0": pa.array([[1.0], [0.0]]),
        "label_1": [0, 1],
        "split": ["train", "test"],
    }
    pq.write_table(pa.table(nodes), tmp_path / "nodes.parquet")
    pq.write_table(pa.table({"source": ["a"], "target": ["b"]}), tmp_path / "edges.parquet")
    with pytest.raises(InvalidGraph, match=r"Column label_0 of nodes\.parquet holds lists"):
        load_graph(tmp_path)


def test_rows_that_are_quoted_over_lines(write):
    graph = load(write('source,target\n"an,n","b\nb"\n', 'id,label,split\n"an,n",0,train\n"b\nb",1,test\n'))
    assert graph.node_ids.tolist() == ["an,n", "b\nb"]
    assert torch.equal(graph.edge_index, torch.tensor([[0], [1]]))
