"""Names to graphs: everything that may stand after --data, or in `fasthop.load_graph`."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from fasthop.errors import GraphNotFound, InvalidConfig
from fasthop.graph.check import values_of
from fasthop.graph.fault import Faults
from fasthop.graph.files import SUFFIXES
from fasthop.graph.graph import Graph
from fasthop.graph.note import note
from fasthop.graph.parts import Parts
from fasthop.graph.table import TABLE_SUFFIXES

if TYPE_CHECKING:
    from torch_geometric.data import Data

TRANSFORMS = ("normalize_features",)
NAMES = (
    "cora",
    "planetoid:Cora",
    "planetoid:CiteSeer",
    "planetoid:PubMed",
    "ogb:ogbn-arxiv",
    "ogb:ogbn-products",
    "pyg:<ClassName>",
    "synthetic:arxiv",
    "synthetic:products",
    "synthetic:reddit",
    "synthetic:nodes=…,degree=…,features=…,classes=…,homophily=…",
)


def load_graph(
    data: str | os.PathLike[str] | Data | Graph | Any,
    *,
    nodes: str | os.PathLike[str] | None = None,
    undirected: bool = False,
    root: str | os.PathLike[str] | None = None,
    split: int | str | None = None,
    transform: str | None = None,
    seed: int = 0,
    unsafe: bool = False,
) -> Graph:
    """A checked Graph from a name (`NAMES`), a file, or an object: a PyG Data, a NetworkX graph, a DGLGraph.

    data: a path's ending says what it is: .pt (torch.save of a Data), .npz (`npz.data_from_npz` lists the
        layouts), .csv, .tsv or .parquet (an edge list, with `nodes`); or a folder with edges.csv and nodes.csv.
    nodes: the table of the nodes that an edge list goes with.
    undirected: add the reverse of each edge that lacks one, with its weight.
    root: where the files of a named data set lie, or go.
    split: a column of masks [N, S], "random", "per-class:20/500/1000" or percentages; see `Graph.from_data`.
    transform: "normalize_features" divides each row of x by its sum, as PyG's NormalizeFeatures.
    seed: for what is drawn: a synthetic graph, a split.
    unsafe: let a .pt file unpickle any object, which runs whatever code it carries.
    Raises GraphNotFound for what cannot be had, InvalidGraph for a graph with a fault, InvalidConfig
    for an option that cannot work.
    """
    if transform is not None and transform not in TRANSFORMS:
        raise InvalidConfig(f"transform is {transform!r}; known is {', '.join(TRANSFORMS)}.")
    source = Source(
        data=data, nodes=nodes, undirected=undirected, root=root, split=split, seed=seed, unsafe=unsafe
    )
    graph = source.graph()
    return normalized(graph) if transform else graph


@dataclass(frozen=True, kw_only=True)
class Source:
    """What a graph is read from, and how; `load_graph` says what each field means."""

    data: Any
    nodes: str | os.PathLike[str] | None = None
    undirected: bool = False
    root: str | os.PathLike[str] | None = None
    split: int | str | None = None
    seed: int = 0
    unsafe: bool = False

    def graph(self) -> Graph:
        """The graph. Raises at its first fault."""
        faults = Faults()
        whole = self._whole()
        if whole is None:
            return self._parts(faults).graph(faults)
        if not self.undirected:
            return whole
        parts = Parts.of(whole)
        parts.make_undirected(faults)
        return replace(parts.graph(faults), notes=(*whole.notes, *faults.notes))

    def parts(self, faults: Faults) -> Parts:
        """The graph's parts; with `faults` that collect, those without a fault."""
        whole = self._whole()
        if whole is None:
            return self._parts(faults)
        for said in whole.notes:
            faults.note("named", said["en"], said["zh"])
        parts = Parts.of(whole)
        if self.undirected:
            parts.make_undirected(faults)
        return parts

    def _whole(self) -> Graph | None:
        """The graph of a name, and a Graph itself; None for what is read part by part."""
        place = None if self.root is None else Path(self.root).expanduser()
        if place is not None and not place.is_dir():
            raise GraphNotFound(f"root {place} is no folder.")
        if self.nodes is not None and self._path() is None:
            raise InvalidConfig("nodes goes with an edge list: a .csv, .tsv or .parquet file.")
        if isinstance(self.data, Graph):
            return _resplit(self.data, self._split, self.seed)
        if not isinstance(self.data, str | os.PathLike) or self._path() is not None:
            return None
        return _named(os.fspath(self.data), place, self._split, self.seed)

    @property
    def _split(self) -> int | str | None:
        if isinstance(self.split, str) and self.split.isdecimal():
            return int(self.split[:9])  # as it comes from a command line
        return self.split

    def _path(self) -> Path | None:
        """The file or folder that holds the graph; None for a name."""
        if not isinstance(self.data, str | os.PathLike):
            return None
        text = os.fspath(self.data)
        path = Path(text).expanduser()
        if text.lower().endswith((*SUFFIXES, ".npz", *TABLE_SUFFIXES)):
            return path
        # A folder is a graph only where it has tables, so that one named like a data set does not hide it.
        has_tables = any(
            (path / f"{stem}{s}").is_file() for stem in ("edges", "nodes") for s in TABLE_SUFFIXES
        )
        is_folder = text.endswith(("/", os.sep)) and path.is_dir()
        return path if is_folder or (has_tables and text != "cora") else None

    def _parts(self, faults: Faults) -> Parts:
        from fasthop.graph.convert import ReadOptions, parts_of_data

        path = self._path()
        data = None
        with faults.part():
            data = self._object(faults) if path is None else self._file(path, faults)
        name = "data" if path is None else (path.resolve().name if path.is_dir() else path.stem)
        if data is None:
            return Parts(name=name)
        options = ReadOptions(name=name, split=self._split, seed=self.seed, undirected=self.undirected)
        return parts_of_data(data, options, faults)

    def _file(self, path: Path, faults: Faults) -> Any:
        suffix = path.suffix.lower()
        nodes = None if self.nodes is None else Path(self.nodes).expanduser()
        if path.is_dir() and suffix not in TABLE_SUFFIXES:
            from fasthop.graph.tables import data_from_tables, tables_in

            edges, own = tables_in(path)
            return data_from_tables(edges, nodes or own, faults)
        if suffix in TABLE_SUFFIXES:
            from fasthop.graph.tables import data_from_tables

            return data_from_tables(path, nodes, faults)
        if nodes is not None:
            raise InvalidConfig("nodes goes with an edge list: a .csv, .tsv or .parquet file.")
        if suffix == ".npz":
            from fasthop.graph.npz import data_from_npz

            return data_from_npz(path, faults)
        from fasthop.graph.files import data_from_file

        return data_from_file(path, unsafe=self.unsafe)

    def _object(self, faults: Faults) -> Any:
        from fasthop.graph.python_graphs import data_from_dgl, data_from_networkx, is_dgl, is_networkx

        if is_networkx(self.data):
            return data_from_networkx(
                self.data, x="x", y=_labels_key(self.data), weight="weight", faults=faults
            )
        if is_dgl(self.data):
            return data_from_dgl(self.data, x=None, y=None, weight=None, faults=faults)
        if hasattr(self.data, "tocoo") and hasattr(self.data, "shape"):
            from fasthop.graph.matrices import data_from_scipy

            return data_from_scipy(self.data, {}, faults)
        return self.data


def _labels_key(graph: Any) -> str:
    """The attribute that holds the labels: y, else label."""
    return "y" if any("y" in attributes for _, attributes in graph.nodes(data=True)) else "label"


def normalized(graph: Graph) -> Graph:
    """The graph with rows of x that sum to 1 (after the least value is moved to 0), and a note of it.

    x' = (x - min x) / max(sum of the row, 1); a sparse x keeps its zeros and so must not be negative.
    """
    if graph.x is None:
        raise InvalidConfig("transform='normalize_features' needs x, and this graph has none.")
    x = graph.x
    if x.layout is torch.strided:
        if x.numel():
            x = x - x.min()
            x.div_(x.sum(dim=-1, keepdim=True).clamp_(min=1.0))
    else:
        x = _normalized_sparse(x)
    said = note("The rows of x were normalised to sum to 1.", "x 的各行已归一化为和为 1。")
    return replace(graph, x=x, notes=(*graph.notes, said))


def _normalized_sparse(x: torch.Tensor) -> torch.Tensor:
    values = values_of(x)
    if values.numel() and float(values.min()) < 0:
        raise InvalidConfig(
            "transform='normalize_features' moves the least value to 0, which a sparse x with negative "
            "values "
            "cannot take; give x.to_dense()."
        )
    if x.layout is torch.sparse_csr:
        crow = x.crow_indices()
        row = torch.repeat_interleave(torch.arange(x.size(0), device=crow.device), crow.diff().long())
    else:
        row = x._indices()[0]
    total = torch.zeros(x.size(0), dtype=values.dtype, device=values.device).index_add_(0, row, values)
    values = values / total.clamp_(min=1.0)[row]
    if x.layout is torch.sparse_csr:
        return torch.sparse_csr_tensor(x.crow_indices(), x.col_indices(), values, x.shape)
    return torch.sparse_coo_tensor(x._indices(), values, x.shape, is_coalesced=x.is_coalesced())


def _named(text: str, root: Path | None, split: int | str | None, seed: int) -> Graph:
    kind, _, rest = text.partition(":")
    if text == "cora":
        from fasthop.graph.bundled import bundled_cora

        graph = bundled_cora()
        # The note tells of the bundled split, which another one takes the place of.
        return graph if split is None else _resplit(replace(graph, notes=()), split, seed)
    if kind == "synthetic" and rest:
        from fasthop.graph.synthetic import synthetic_config, synthetic_graph

        return _resplit(synthetic_graph(synthetic_config(rest, seed), name=text), split, seed)
    if kind == "planetoid" and rest:
        from fasthop.graph.planetoid import planetoid_graph

        return planetoid_graph(rest, root=root, split=split, seed=seed)
    if kind == "pyg" and rest:
        if rest.startswith("Planetoid/"):
            return _named(f"planetoid:{rest.removeprefix('Planetoid/')}", root, split, seed)
        from fasthop.graph.pyg_datasets import pyg_graph

        return pyg_graph(rest, root=root, split=split, seed=seed)
    if kind == "ogb" and rest:
        from fasthop.graph.pyg_datasets import ogb_graph

        return ogb_graph(rest, root=root, split=split, seed=seed)
    raise GraphNotFound(_unknown(text))


def _resplit(graph: Graph, split: int | str | None, seed: int) -> Graph:
    """A graph that has one split, with another drawn in its place where one is asked for."""
    if split is None:
        return graph
    if isinstance(split, int):
        raise InvalidConfig(f'split is {split}, but {graph.name} has one split only; "random" draws another.')
    from fasthop.graph.split import drawn_split

    masks, said = drawn_split(split, graph.y, graph.num_classes, seed)
    return replace(
        graph, train_mask=masks[0], val_mask=masks[1], test_mask=masks[2], notes=(*graph.notes, said)
    )


def _unknown(text: str) -> str:
    named = [name for name in NAMES if "<" not in name and "=" not in name]
    by_lower = {name.partition(":")[2].lower(): name for name in named} | {
        name.lower(): name for name in named
    }
    near = difflib.get_close_matches(text.lower(), by_lower, n=1, cutoff=0.6)
    hint = f" Did you mean {by_lower[near[0]]}?" if near else ""
    if text and Path(text).expanduser().exists():
        endings = (*SUFFIXES, ".npz", *TABLE_SUFFIXES)
        hint = (
            f" A file or folder of that name is there; a graph's file ends in {', '.join(endings)}, and its folder "
            "holds edges.csv and nodes.csv."
        )
    return (
        f"There is no graph {text!r}.{hint} Known are {', '.join(NAMES)}, and the path of a .pt file of a PyG Data, "
        "of an .npz file, or of an edge list in .csv, .tsv or .parquet."
    )
