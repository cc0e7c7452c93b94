"""NetworkX, SciPy and DGL graphs, against PyG's own converters on directed graphs."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.utils import from_networkx, from_scipy_sparse_matrix

from fasthop.errors import InvalidGraph
from fasthop.graph.graph import Graph
from fasthop.graph.sources import load_graph

MASKS = {
    "train_mask": np.array([1, 1, 0, 0, 0], bool),
    "val_mask": np.array([0, 0, 1, 0, 0], bool),
    "test_mask": np.array([0, 0, 0, 1, 1], bool),
}
Y = np.array([0, 1, 0, 1, 0])
X = np.arange(10.0).reshape(5, 2)


def pairs(edge_index):
    return sorted(zip(*edge_index.tolist(), strict=True))


def adjacency(seed=0, weighted=True):
    rng = np.random.default_rng(seed)
    dense = np.triu(rng.random((5, 5)) < 0.6) * (rng.integers(2, 9, (5, 5)) if weighted else 1)
    return dense.astype(np.float64)


@pytest.mark.parametrize("form", ["coo", "csr", "csc", "lil", "dia"])
def test_a_scipy_matrix_is_read_as_pyg_reads_it(form):
    # Case 7: upper triangular, so that the transpose would show.
    adj = sp.coo_array(adjacency()).asformat(form)
    graph = Graph.from_scipy(adj, x=sp.csr_array(X), y=Y, **MASKS)
    edge_index, weight = from_scipy_sparse_matrix(sp.coo_matrix(adjacency()))
    expected = sorted(zip(*edge_index.tolist(), weight.tolist(), strict=True))
    assert sorted(zip(*graph.edge_index.tolist(), graph.edge_weight.tolist(), strict=True)) == expected
    assert graph.x.tolist() == X.tolist()
    assert graph.x.layout is torch.strided
    assert graph.train_mask.tolist() == MASKS["train_mask"].tolist()


def test_ones_are_no_weights_and_parallel_entries_stay():
    adj = sp.coo_array((np.ones(3), ([0, 0, 1], [1, 1, 4])), shape=(5, 5))
    graph = Graph.from_scipy(adj, y=Y, node_ids=list("abcde"), name="mine", split="40/20/40")
    assert graph.edge_weight is None
    assert pairs(graph.edge_index) == [(0, 1), (0, 1), (1, 4)]
    assert (graph.node_ids.tolist(), graph.name) == (list("abcde"), "mine")
    assert Graph.from_scipy(adj.astype(bool), y=Y, **MASKS).edge_weight is None


def test_what_is_no_graph_of_scipys_is_refused():
    with pytest.raises(InvalidGraph, match="adj is a 5 x 4 matrix, which means a bipartite graph"):
        Graph.from_scipy(sp.csr_array((5, 4)), y=Y)
    with pytest.raises(InvalidGraph, match="no labels y"):
        load_graph(sp.csr_array(adjacency()))
    with pytest.raises(InvalidGraph, match="dtype complex"):
        Graph.from_scipy(sp.csr_array(adjacency()).astype(complex), y=Y, **MASKS)


def test_very_wide_sparse_features_stay_sparse(monkeypatch):
    from fasthop.graph import matrices

    monkeypatch.setattr(matrices, "DENSE_UP_TO_BYTES", 8)
    graph = Graph.from_scipy(sp.csr_array(adjacency()), x=sp.coo_array(X), y=Y, **MASKS)
    assert graph.x.layout is torch.sparse_csr
    assert graph.x.to_dense().tolist() == X.tolist()


def networkx_graph(kind):
    graph = kind()
    names = ["e", "d", "c", "b", "a"]
    for name, x, y in zip(names, X, Y, strict=True):
        graph.add_node(name, x=x.tolist(), y=["red", "blue"][y], split="train" if name > "b" else "test")
    graph.add_weighted_edges_from([("e", "d", 2.0), ("c", "e", 3.0), ("a", "a", 4.0), ("b", "d", 5.0)])
    return graph


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
def test_a_networkx_graph_is_read_as_pyg_reads_it(kind):
    source = networkx_graph(kind)
    if source.is_multigraph():
        source.add_edge("e", "d", weight=6.0)
    graph = load_graph(source)
    plain = kind()
    plain.add_nodes_from(source.nodes)
    plain.add_edges_from(source.edges(data=True))
    expected = from_networkx(plain)
    assert sorted(zip(*graph.edge_index.tolist(), graph.edge_weight.tolist(), strict=True)) == sorted(
        zip(*expected.edge_index.tolist(), expected.weight.tolist(), strict=True)
    )
    assert graph.node_ids.tolist() == ["e", "d", "c", "b", "a"]
    assert graph.x.tolist() == X.tolist()
    assert graph.class_names == ("blue", "red")
    assert graph.y.tolist() == [1, 0, 1, 0, 1]
    assert graph.train_mask.tolist() == [True, True, True, False, False]


def test_named_attributes_of_networkx():
    source = nx.path_graph(4, create_using=nx.DiGraph)
    for node in source:
        source.nodes[node].update(age=node, size=[node, -node], kind=[1, node % 2], train_mask=node < 2)
    graph = Graph.from_networkx(source, x=["age", "size"], y="kind", weight="none")
    assert graph.x.tolist() == [[0, 0, 0], [1, 1, -1], [2, 2, -2], [3, 3, -3]]
    assert graph.is_multilabel
    assert graph.node_ids.tolist() == [0, 1, 2, 3]
    assert graph.edge_index.tolist() == [[0, 1, 2], [1, 2, 3]]
    assert Graph.from_networkx(source, x="age", y="age", split="50/25/25").y.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda g: g.nodes["c"].update(x=None), "attribute x of node 'c' is None"),
        (lambda g: g.nodes["c"].update(x=[1.0]), "Node 'c' has 1 features, and node 'e' has 2"),
        (lambda g: g.nodes["c"].update(x=["tall", 1]), "attribute x of node 'c' is .*no finite number"),
        (lambda g: g.edges["e", "d"].pop("weight"), "The edge 'e' -> 'd' has no weight, and others"),
        (lambda g: g.nodes["c"].update(split="maybe"), "split of row 3 is 'maybe'"),
        (lambda g: g.nodes["c"].update(y=7), "neither all numbers nor all words: that of row 3 is 7"),
    ],
)
def test_a_fault_of_a_networkx_graph_is_named(change, sentence):
    source = networkx_graph(nx.DiGraph)
    change(source)
    with pytest.raises(InvalidGraph, match=sentence):
        load_graph(source)


class DGLStandIn:
    """The part of DGLGraph's face that is read. DGL itself cannot be installed beside this torch."""

    def __init__(self, ntypes=("_N",), canonical_etypes=(("_N", "_E", "_N"),)):
        self.ntypes, self.canonical_etypes = list(ntypes), list(canonical_etypes)
        self.ndata = {
            "feat": torch.from_numpy(X),
            "label": torch.from_numpy(Y),
            "year": torch.arange(5),
            "size": torch.ones(5, 1),
        }
        self.ndata |= {name: torch.from_numpy(mask) for name, mask in MASKS.items()}
        self.edata = {"w": torch.tensor([1.0, 2.0, 3.0])}
        self.is_block = False

    def num_nodes(self):
        return 5

    def edges(self, form="uv", order="eid"):
        assert (form, order) == ("uv", "eid")
        return torch.tensor([0, 3, 3], dtype=torch.int32), torch.tensor([1, 2, 2], dtype=torch.int32)


def test_a_dgl_graph_is_read_by_its_face():
    for graph in (load_graph(DGLStandIn()), Graph.from_dgl(DGLStandIn())):
        assert graph.edge_index.tolist() == [[0, 3, 3], [1, 2, 2]]
        assert graph.edge_weight is None
        assert graph.x.tolist() == X.tolist()
        assert graph.y.tolist() == Y.tolist()
        assert graph.extras["year"].tolist() == [0, 1, 2, 3, 4]
        assert graph.extras["w"].tolist() == [1, 2, 3]
    named = Graph.from_dgl(DGLStandIn(), x="size", y="label", weight="w", split="40/20/40")
    assert named.edge_weight.tolist() == [1, 2, 3]
    assert "feat" in named.extras


def test_other_dgl_graphs_are_refused():
    with pytest.raises(InvalidGraph, match=r"DGLGraph .*several kinds of nodes or edges"):
        load_graph(DGLStandIn(ntypes=("user", "item"), canonical_etypes=(("user", "buys", "item"),)))
    block = DGLStandIn()
    block.is_block = True
    with pytest.raises(InvalidGraph, match="DGLGraph"):
        load_graph(block)
    with pytest.raises(InvalidGraph, match="ndata has no 'none'"):
        Graph.from_dgl(DGLStandIn(), x="none")
