"""A PyG Data out of a .pt file, without running code that the file may carry."""

from __future__ import annotations

import pickle
import re
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch

from fasthop.errors import GraphNotFound
from fasthop.graph.fault import fault
from fasthop.graph.kinds import heterogeneous, is_attribute_name

SUFFIXES = (".pt", ".pth")
# Attributes of Data that are properties of the class as well.
OWN = ("x", "y", "edge_index", "num_nodes", "batch", "face")


def data_from_file(path: Path, *, unsafe: bool = False) -> Any:
    """The Data that was written with torch.save: itself, its to_dict(), or PyG's processed form of one graph.

    unsafe: unpickle any object at all, which runs whatever code the file carries.
    Raises GraphNotFound where there is no file, InvalidGraph where it is not such a file or is unsafe.
    """
    if not path.is_file():
        raise GraphNotFound(f"There is no file {path}.")
    from torch_geometric.data import Data
    from torch_geometric.data.data import BaseData

    _check_sums(path)
    try:
        with torch.serialization.safe_globals(_pyg_classes()), warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # on pickle protocols and deprecated dtypes: what matters is said below
            content = torch.load(path, map_location="cpu", weights_only=not unsafe)
    except MemoryError:
        raise
    except Exception as error:  # what a file of any bytes makes torch.load raise is not to be listed
        raise _unreadable(path, error) from None
    if isinstance(content, tuple) and len(content) in (2, 3):
        content, slices = content[0], content[1]
        if slices is not None and slices:
            raise fault(
                "several-graphs",
                f"{path} holds several graphs of a PyG dataset; fasthop trains on one graph.",
                f"{path} 含 PyG 数据集的多张图；fasthop 在一张图上训练。",
            )
    if isinstance(content, dict):
        if any(isinstance(key, tuple) and len(key) == 3 for key in content):
            raise heterogeneous(f"{path} holds the dict of a HeteroData", f"{path} 是 HeteroData 的字典")
        if "edge_index" not in content and "adj_t" not in content:
            keys = sorted(map(str, content))[:8]
            raise fault(
                "file-no-edges",
                f"{path} holds a dict with {keys} and neither edge_index nor adj_t.",
                f"{path} 的字典含 {keys}，既没有 edge_index 也没有 adj_t。",
            )
        odd = next((key for key in content if not is_attribute_name(key) and key not in OWN), None)
        if odd is not None:
            raise fault(
                "file-key",
                f"{path} holds a dict with the key {odd!r}; the names of attributes are strings, and no methods of Data.",
                f"{path} 的字典含键 {odd!r}；属性名应为字符串，且不是 Data 的方法名。",
            )
        content = Data.from_dict(content)
    if not isinstance(content, BaseData | list | tuple):
        kind = type(content).__name__
        raise fault(
            "file-content",
            f"{path} holds {_a(kind)}, not a PyG Data; write one with torch.save(data, path).",
            f"{path} 含 {kind}，不是 PyG 的 Data；请用 torch.save(data, path) 写出。",
        )
    return content


def _check_sums(path: Path) -> None:
    """Raises InvalidGraph where a part of the file is not what its checksum says: torch.load looks at none, and
    gives flipped values, or memory that was never written, for a damaged file."""
    if not zipfile.is_zipfile(path):
        return
    try:
        with zipfile.ZipFile(path) as archive:
            bad = archive.testzip()
            # torch reads nothing of an entry that is marked as a folder, and hands out memory as it was.
            folders = [member.filename for member in archive.infolist() if member.external_attr & 0x10]
    except Exception as error:  # what a file of any bytes makes zipfile raise is not to be listed
        raise _unreadable(path, error) from None
    if bad is not None:
        raise _unreadable(path, ValueError(f"the checksum of {bad} is wrong"))
    if folders:
        raise _unreadable(path, ValueError(f"{folders[0]} is marked as a folder"))


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


def _unreadable(path: Path, error: Exception) -> Exception:
    if path.stat().st_size == 0:
        return fault(
            "file-empty",
            f"{path} is empty; write it again with torch.save(data, path).",
            f"{path} 是空文件；请用 torch.save(data, path) 重新写出。",
        )
    found = re.search(r"(?:GLOBAL|Unsupported class) ([\w.]+)", str(error))
    if isinstance(error, pickle.UnpicklingError) and found:
        return fault(
            "file-unsafe",
            f"{path} holds {found[1]} besides tensors and PyG's Data, and unpickling that may run any code.",
            f"{path} 除张量与 PyG 的 Data 外还含 {found[1]}，反序列化可能执行任意代码。",
            (
                "If you trust the file, load it with --unsafe-pickle (unsafe=True in Python); better, save "
                "torch.save(data.to_dict(), path) with tensors alone.",
                "若信任该文件，请用 --unsafe-pickle（Python 中为 unsafe=True）读取；更好的做法是只保存张量："
                "torch.save(data.to_dict(), path)。",
            ),
        )
    # torch's own message is a page on how to load anything; its point, where it has one, stands here.
    point = re.search(r"WeightsUnpickler error: (.*)", str(error))
    first = point[1] if point else (str(error).splitlines() or [""])[0]
    cause = f"{type(error).__name__}: {first}" if first.strip() else type(error).__name__
    return fault(
        "file-damaged",
        f"{path} is not a file of torch.save, or is damaged ({cause}); write it with torch.save(data, path).",
        f"{path} 不是 torch.save 的文件，或已损坏（{cause}）；请用 torch.save(data, path) 写出。",
    )
