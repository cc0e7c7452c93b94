"""PyG's other node classification sets, and OGB's: by the name of their class, in their own file layout."""

from __future__ import annotations

import difflib
import inspect
import os
import socket
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from fasthop.cache import cache_dir
from fasthop.errors import FasthopError, GraphNotFound, InvalidGraph
from fasthop.graph.graph import Graph
from fasthop.graph.note import note

TIMEOUT_S = 20
OGB_NAMES = ("ogbn-arxiv", "ogbn-products", "ogbn-papers100M")


def pyg_graph(spec: str, *, root: Path | None = None, split: int | str | None = None, seed: int = 0) -> Graph:
    """`torch_geometric.datasets.<ClassName>`; "ClassName/name" where the class takes a name "
    "(Amazon/Computers).

    root: the folder that the class keeps its files in (the cache's pyg/<ClassName> by default); from a
    read-only one only raw/ is read, and what is derived goes to the cache.
    Raises GraphNotFound for an unknown class or files that cannot be had, InvalidGraph for another task.
    """
    from torch_geometric import datasets
    from torch_geometric.data import Dataset

    class_name, _, name = spec.partition("/")
    cls = getattr(datasets, class_name, None)
    if not inspect.isclass(cls) or not issubclass(cls, Dataset):
        near = difflib.get_close_matches(class_name, datasets.__all__, n=3)
        hint = f" Did you mean {', '.join(f'pyg:{n}' for n in near)}?" if near else ""
        raise GraphNotFound(f"torch_geometric.datasets has no data set {class_name!r}.{hint}")
    folder = root or cache_dir("graphs") / "pyg" / class_name
    arguments = _arguments(cls, class_name, name, folder)
    if root is not None and not os.access(root, os.W_OK):
        cls = _deriving_elsewhere(cls, cache_dir("graphs") / "pyg" / class_name / "derived" / (name or "all"))
    with _explained(f"pyg:{spec}", folder):
        dataset = cls(**arguments)
    return Graph.from_data(dataset, split=split, seed=seed, name=f"pyg:{spec}")


def ogb_graph(name: str, *, root: Path | None = None, split: int | str | None = None, seed: int = 0) -> Graph:
    """One of `OGB_NAMES` (Hu et al. 2020) with its own split; ogbn-arxiv is made undirected, and says so.

    Raises GraphNotFound where the package ogb is missing or the files cannot be had.
    """
    if name not in OGB_NAMES:
        raise GraphNotFound(
            f"ogb:{name} is not known; there are ogb:{', ogb:'.join(OGB_NAMES)}. Others of OGB have several "
            "labels a node or several kinds of nodes."
        )
    try:
        from ogb.nodeproppred import PygNodePropPredDataset  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise GraphNotFound(
            f"ogb:{name} needs the package ogb, which is not installed: pip install 'fasthop[ogb]'."
        ) from None
    import torch

    folder = root or cache_dir("graphs") / "ogb"
    with _explained(f"ogb:{name}", folder):
        dataset = PygNodePropPredDataset(name=name, root=str(folder))
        data, parts = dataset[0], dataset.get_idx_split()
    for key, part in (("train_mask", "train"), ("val_mask", "valid"), ("test_mask", "test")):
        data[key] = torch.as_tensor(parts[part])
    said = ()
    if name == "ogbn-arxiv":
        from torch_geometric.utils import to_undirected

        data.edge_index = to_undirected(data.edge_index, num_nodes=data.num_nodes)
        said = (
            note(
                "The citations of ogbn-arxiv were made undirected, as is usual with it.",
                "ogbn-arxiv 的引用边已按惯例转换为无向边。",
            ),
        )
    graph = Graph.from_data(
        data, split=split, seed=seed, name=f"ogb:{name}", num_classes=int(dataset.num_classes)
    )
    return replace(graph, notes=graph.notes + said)


def _arguments(cls: Any, class_name: str, name: str, folder: Path) -> dict[str, Any]:
    """What to call the class with; refuses a class that asks for more than root and name."""
    parameters = inspect.signature(cls.__init__).parameters
    needed = {
        key
        for key, parameter in parameters.items()
        if key != "self"
        and parameter.default is parameter.empty
        and parameter.kind is not parameter.VAR_KEYWORD
    }
    if needed - {"root", "name"}:
        raise InvalidGraph(
            f"pyg:{class_name} needs {', '.join(sorted(needed - {'root', 'name'}))}; make it in Python "
            f"and give fasthop "
            "the Data."
        )
    if "name" in needed and not name:
        raise GraphNotFound(
            f"pyg:{class_name} needs a name: pyg:{class_name}/<name>, as PyG's class takes it."
        )
    if name and "name" not in parameters:
        raise GraphNotFound(f"pyg:{class_name} takes no name; write pyg:{class_name}.")
    arguments: dict[str, Any] = {"root": str(folder)} if "root" in parameters else {}
    return arguments | ({"name": name} if name else {})


def _deriving_elsewhere(cls: Any, place: Path) -> Any:
    return type(cls.__name__, (cls,), {"processed_dir": property(lambda self: str(place))})


@contextmanager
def _explained(name: str, folder: Path) -> Iterator[None]:
    """Turns whatever a download or a reader of files raises into a sentence, within a time limit a socket."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(TIMEOUT_S)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # notices of third-party readers that say nothing to a user
            yield
    except FasthopError:
        raise
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        raise GraphNotFound(
            f"{name} cannot be had in {folder} ({type(error).__name__}: {first}). Without a network, copy "
            f"the data "
            "set's folder, as PyG lays it out, from a machine that has it and give it with --root (root=)."
        ) from error
    finally:
        socket.setdefaulttimeout(before)
