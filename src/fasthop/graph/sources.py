"""Names to graphs: everything that may stand after --data, or in `fasthop.load_graph`."""

from __future__ import annotations

import difflib
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from fasthop.errors import GraphNotFound, InvalidConfig
from fasthop.graph.check import values_of
from fasthop.graph.files import SUFFIXES
from fasthop.graph.graph import Graph
from fasthop.graph.note import note

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
    data: str | os.PathLike[str] | Data | Graph,
    *,
    root: str | os.PathLike[str] | None = None,
    split: int | str | None = None,
    transform: str | None = None,
    seed: int = 0,
    unsafe: bool = False,
) -> Graph:
    """A checked Graph from a name (`NAMES`), a .pt file of a PyG Data, or a Data itself.

    root: where the files of a named data set lie, or go.
    split: a column of masks [N, S], "random" or percentages; see `Graph.from_data`.
    transform: "normalize_features" divides each row of x by its sum, as PyG's NormalizeFeatures.
    seed: for what is drawn: a synthetic graph, a split.
    unsafe: let a .pt file unpickle any object, which runs whatever code it carries.
    Raises GraphNotFound for what cannot be had, InvalidGraph for a graph with a fault, InvalidConfig
    for an option that cannot work.
    """
    if transform is not None and transform not in TRANSFORMS:
        raise InvalidConfig(f"transform is {transform!r}; known is {', '.join(TRANSFORMS)}.")
    place = None if root is None else Path(root).expanduser()
    if place is not None and not place.is_dir():
        raise GraphNotFound(f"root {place} is no folder.")
    if isinstance(split, str) and split.isdecimal():
        split = int(split)  # as it comes from a command line
    graph = _graph(data, place, split, seed, unsafe)
    return normalized(graph) if transform else graph


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


def _graph(data: Any, root: Path | None, split: int | str | None, seed: int, unsafe: bool) -> Graph:
    if isinstance(data, Graph):
        return _resplit(data, split, seed)
    if not isinstance(data, str | os.PathLike):
        return Graph.from_data(data, split=split, seed=seed)
    text = os.fspath(data)
    if text.endswith(SUFFIXES):
        from fasthop.graph.files import data_from_file

        path = Path(text).expanduser()
        return Graph.from_data(data_from_file(path, unsafe=unsafe), split=split, seed=seed, name=path.stem)
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
            return _graph(f"planetoid:{rest.removeprefix('Planetoid/')}", root, split, seed, unsafe)
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
        hint = f" A file or folder of that name is there; a graph's file ends in {' or '.join(SUFFIXES)}."
    return f"There is no graph {text!r}.{hint} Known are {', '.join(NAMES)}, and the path of a .pt file of a PyG Data."
