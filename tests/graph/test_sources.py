from __future__ import annotations

import sys
import types

import pytest
import torch
from torch_geometric import datasets
from torch_geometric.data import Data, InMemoryDataset
from torch_geometric.transforms import NormalizeFeatures

from fasthop.errors import GraphNotFound, InvalidConfig, InvalidGraph
from fasthop.graph.graph import Graph
from fasthop.graph.sources import load_graph, normalized


def test_names_data_and_graphs_are_all_taken(path_data):
    assert load_graph("cora").name == "cora"
    assert load_graph("synthetic:nodes=100,degree=4").num_nodes == 100
    graph = load_graph(path_data())
    assert isinstance(graph, Graph)
    assert load_graph(graph) is graph


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Cora", "mean cora"),
        ("coar", "mean cora"),
        ("pubmed", "mean planetoid:PubMed"),
        ("arxiv", "mean synthetic:arxiv"),
        ("planetoid", "Known are cora, planetoid:Cora"),
        ("", "Known are"),
        ("pyg:Actr", "mean pyg:Actor"),
        ("pyg:Data", "no data set 'Data'"),
        ("ogb:ogbn-proteins", "ogb:ogbn-arxiv"),
    ],
)
def test_an_unknown_name_says_which_exist(name, hint):
    with pytest.raises(GraphNotFound, match=hint):
        load_graph(name)


def test_wrong_options_are_refused(tmp_path):
    with pytest.raises(InvalidConfig, match="normalize_features"):
        load_graph("cora", transform="normalise")
    with pytest.raises(GraphNotFound, match="no folder"):
        load_graph("cora", root=tmp_path / "none")
    for split in (2, "2"):
        with pytest.raises(InvalidConfig, match="split is 2, but cora has one split only"):
            load_graph("cora", split=split)


def test_a_folder_named_cora_does_not_hide_the_bundled_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cora").mkdir()
    (tmp_path / "cora" / "edges.csv").write_text("source,target\n")
    (tmp_path / "cora" / "nodes.csv").write_text("id,label,split\na,0,train\n")
    assert load_graph("cora").num_nodes == 2708
    assert load_graph("cora/").num_nodes == 1


def test_any_source_may_be_made_undirected(path_data):
    graph = load_graph("cora", undirected=True)
    assert graph.num_edges == load_graph("cora").num_edges
    assert "0 of the 10,556 had no reverse" in graph.notes[-1]["en"]
    assert len(graph.notes) == 2
    given = Graph.from_data(path_data())
    assert load_graph(given, undirected=True).edge_index.tolist() == [[0, 1, 2, 1, 2, 3], [1, 2, 3, 0, 1, 2]]
    assert Graph.from_data(path_data(), undirected=True).num_edges == 6


def test_another_split_takes_the_place_of_the_bundled_one_and_of_its_note():
    graph = load_graph("cora", split="60/20/20", seed=1)
    assert [int(m.sum()) for m in (graph.train_mask, graph.val_mask, graph.test_mask)] == [1625, 541, 542]
    assert len(graph.notes) == 1
    assert "60/20/20" in graph.notes[0]["en"]


@pytest.mark.parametrize("shift", [0.0, -3.0])
def test_normalising_is_pygs(path_data, shift):
    data = path_data(x=torch.rand(5, 4) * 9 + shift)
    data.x[2] = data.x.min()
    graph = load_graph(data, transform="normalize_features")
    assert torch.equal(graph.x, NormalizeFeatures()(data.clone()).x)
    assert "normalised" in graph.notes[-1]["en"]


@pytest.mark.parametrize("form", ["to_sparse_coo", "to_sparse_csr"])
@pytest.mark.filterwarnings("ignore:Sparse")
def test_normalising_keeps_sparse_features_sparse(path_data, form):
    dense = torch.tensor([[1.0, 0, 3], [0, 0, 0], [0, 0.25, 0], [5, 5, 0], [0, 0, 2]])
    graph = load_graph(path_data(x=getattr(dense, form)()), transform="normalize_features")
    assert torch.allclose(
        graph.x.to_dense(), load_graph(path_data(x=dense), transform="normalize_features").x
    )
    with pytest.raises(InvalidConfig, match="negative"):
        load_graph(path_data(x=getattr(-dense, form)()), transform="normalize_features")


def test_normalising_needs_x(path_data):
    with pytest.raises(InvalidConfig, match="has none"):
        normalized(Graph.from_data(path_data(x=None)))


class LocalSet(InMemoryDataset):
    """A PyG data set that is made from a raw file, as those that are downloaded."""

    raw_file_names = ["raw.txt"]  # noqa: RUF012
    processed_file_names = ["data.pt"]  # noqa: RUF012

    def __init__(self, root, name="a", transform=None):
        self.name = name
        super().__init__(root, transform)
        self.load(self.processed_paths[0])

    def download(self):
        raise OSError("no network")

    def process(self):
        masks = {key: torch.tensor([True, True, False]) for key in ("train_mask", "val_mask", "test_mask")}
        data = Data(
            x=torch.ones(3, 1), y=torch.tensor([0, 1, 1]), edge_index=torch.tensor([[0], [1]]), **masks
        )
        self.save([data], self.processed_paths[0])


class Several(LocalSet):
    def process(self):
        self.save([Data(x=torch.ones(1, 1))] * 3, self.processed_paths[0])


class Needy(LocalSet):
    def __init__(self, root, name, category):
        super().__init__(root, name)


@pytest.fixture
def local_sets(monkeypatch):
    for cls in (LocalSet, Several, Needy):
        monkeypatch.setattr(datasets, cls.__name__, cls, raising=False)


@pytest.mark.usefixtures("local_sets")
class TestPyG:
    def test_a_set_is_found_by_class_and_name(self, tmp_path):
        (tmp_path / "raw").mkdir()
        (tmp_path / "raw" / "raw.txt").touch()
        graph = load_graph("pyg:LocalSet/b", root=tmp_path)
        assert (graph.num_nodes, graph.name) == (3, "pyg:LocalSet/b")
        assert (tmp_path / "processed" / "data.pt").exists()

    def test_a_read_only_root_is_only_read(self, tmp_path, cache, monkeypatch):
        (tmp_path / "raw").mkdir()
        (tmp_path / "raw" / "raw.txt").touch()
        monkeypatch.setattr("os.access", lambda *_: False)
        assert load_graph("pyg:LocalSet", root=tmp_path).num_nodes == 3
        assert not (tmp_path / "processed").exists()
        assert [path.parent.name for path in cache.rglob("data.pt")] == ["all"]

    def test_what_cannot_be_had_says_where_it_belongs(self, cache):
        with pytest.raises(GraphNotFound, match=r"pyg/LocalSet \(OSError: no network\).*--root"):
            load_graph("pyg:LocalSet")

    def test_what_does_not_fit_is_refused(self, tmp_path):
        (tmp_path / "raw").mkdir()
        (tmp_path / "raw" / "raw.txt").touch()
        with pytest.raises(InvalidGraph, match="3 graphs"):
            load_graph("pyg:Several", root=tmp_path)
        with pytest.raises(InvalidGraph, match="needs category"):
            load_graph("pyg:Needy/b", root=tmp_path)

    def test_names_are_asked_for_and_refused(self):
        with pytest.raises(GraphNotFound, match="pyg:Amazon/<name>"):
            load_graph("pyg:Amazon")
        with pytest.raises(GraphNotFound, match="takes no name"):
            load_graph("pyg:KarateClub/x")

    def test_a_set_without_files_and_one_of_pygs_own_names_for_planetoid(self, planetoid_root):
        assert load_graph("pyg:KarateClub", split="60/20/20").num_nodes == 34
        assert load_graph("pyg:Planetoid/Cora", root=planetoid_root).name == "planetoid:Cora"


class TestOGB:
    def test_without_the_package_it_says_what_to_install(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "ogb.nodeproppred", None)
        with pytest.raises(GraphNotFound, match=r"pip install 'fasthop\[ogb\]'"):
            load_graph("ogb:ogbn-arxiv")

    def test_splits_labels_and_direction(self, monkeypatch, tmp_path):
        class Stand:
            """What ogb's class gives: labels [N, 1], the split as indices, arxiv's edges one way."""

            num_classes = 40

            def __init__(self, name, root):
                assert (name, root) == ("ogbn-arxiv", str(tmp_path))

            def __getitem__(self, index):
                edge_index = torch.tensor([[0, 1], [1, 2]])
                return Data(x=torch.ones(3, 2), y=torch.tensor([[0], [1], [2]]), edge_index=edge_index)

            def get_idx_split(self):
                return {"train": torch.tensor([2]), "valid": torch.tensor([0]), "test": torch.tensor([1])}

        module = types.ModuleType("ogb.nodeproppred")
        module.PygNodePropPredDataset = Stand
        monkeypatch.setitem(sys.modules, "ogb", types.ModuleType("ogb"))
        monkeypatch.setitem(sys.modules, "ogb.nodeproppred", module)
        graph = load_graph("ogb:ogbn-arxiv", root=tmp_path)
        assert graph.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
        assert (graph.train_mask.tolist(), graph.num_classes) == ([False, False, True], 40)
        assert "squeezed" in graph.notes[0]["en"]
        assert "undirected" in graph.notes[1]["en"]
