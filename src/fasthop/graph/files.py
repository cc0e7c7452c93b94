"""A PyG Data out of a .pt file, without running code that the file may carry."""

from __future__ import annotations

import pickle
import re
import warnings
from pathlib import Path
from typing import Any

import torch

from fasthop.errors import GraphNotFound, InvalidGraph
from fasthop.graph.kinds import heterogeneous

SUFFIXES = (".pt", ".pth")


def data_from_file(path: Path, *, unsafe: bool = False) -> Any:
    """The Data that was written with torch.save: itself, its to_dict(), or PyG's processed form of one graph.

    unsafe: unpickle any object at all, which runs whatever code the file carries.
    Raises GraphNotFound where there is no file, InvalidGraph where it is not such a file or is unsafe.
    """
    if not path.is_file():
        raise GraphNotFound(f"There is no file {path}.")
    from torch_geometric.data import Data
    from torch_geometric.data.data import BaseData

    try:
        with torch.serialization.safe_globals(_pyg_classes()), warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # on pickle protocols and deprecated dtypes: what matters is said below
            content = torch.load(path, map_location="cpu", weights_only=not unsafe)
    except MemoryError:
        raise
    except Exception as error:  # what a file of any bytes makes torch.load raise is not to be listed
        raise InvalidGraph(_explanation(path, error)) from None
    if isinstance(content, tuple) and len(content) in (2, 3):
        content, slices = content[0], content[1]
        if slices is not None and slices:
            raise InvalidGraph(f"{path} holds several graphs of a PyG dataset; fasthop trains on one graph.")
    if isinstance(content, dict):
        if any(isinstance(key, tuple) and len(key) == 3 for key in content):
            raise heterogeneous(f"{path} holds the dict of a HeteroData", f"{path} 是 HeteroData 的字典")
        if "edge_index" not in content and "adj_t" not in content:
            raise InvalidGraph(
                f"{path} holds a dict with {sorted(map(str, content))[:8]} and neither edge_index nor adj_t."
            )
        if not all(isinstance(key, str) for key in content):
            odd = next(key for key in content if not isinstance(key, str))
            raise InvalidGraph(
                f"{path} holds a dict with the key {odd!r}; the names of attributes are strings."
            )
        content = Data.from_dict(content)
    if not isinstance(content, BaseData | list | tuple):
        raise InvalidGraph(
            f"{path} holds {_a(type(content).__name__)}, not a PyG Data; write one with torch.save(data, path)."
        )
    return content


def _pyg_classes() -> list[Any]:
    """The classes that a saved Data is made of. PyG tells torch of Data alone, so that torch.load refuses
    its parts; none of them does more than hold what it is given."""
    from torch_geometric.data import data, hetero_data, storage

    return [
        hetero_data.HeteroData,
        data.DataEdgeAttr,
        data.DataTensorAttr,
        storage.BaseStorage,
        storage.GlobalStorage,
        storage.NodeStorage,
        storage.EdgeStorage,
    ]


def _a(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"


def _explanation(path: Path, error: Exception) -> str:
    if path.stat().st_size == 0:
        return f"{path} is empty; write it again with torch.save(data, path)."
    found = re.search(r"(?:GLOBAL|Unsupported class) ([\w.]+)", str(error))
    if isinstance(error, pickle.UnpicklingError) and found:
        return (
            f"{path} holds {found[1]} besides tensors and PyG's Data, and unpickling that may run any code. "
            "If you trust the file, load it with --unsafe-pickle (unsafe=True in Python); better, save "
            "torch.save(data.to_dict(), path) with tensors alone."
        )
    # torch's own message is a page on how to load anything; its point, where it has one, stands here.
    point = re.search(r"WeightsUnpickler error: (.*)", str(error))
    first = point[1] if point else (str(error).splitlines() or [""])[0]
    cause = f"{type(error).__name__}: {first}" if first.strip() else type(error).__name__
    return (
        f"{path} is not a file of torch.save, or is damaged ({cause}); write it with torch.save(data, path)."
    )
