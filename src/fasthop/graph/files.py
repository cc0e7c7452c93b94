"""A PyG Data out of a .pt file, without running code that the file may carry."""

from __future__ import annotations

import pickle
import re
import zipfile
from pathlib import Path
from typing import Any

import torch

from fasthop.errors import GraphNotFound, InvalidGraph

SUFFIXES = (".pt", ".pth")


def data_from_file(path: Path, *, unsafe: bool = False) -> Any:
    """The Data that was written with torch.save: itself, its to_dict(), or PyG's processed form of one graph.

    unsafe: unpickle any object at all, which runs whatever code the file carries.
    Raises GraphNotFound where there is no file, InvalidGraph where it is not such a file or is unsafe.
    """
    if not path.is_file():
        raise GraphNotFound(f"There is no file {path}.")
    # PyG tells torch at its import that its Data classes are safe to load.
    from torch_geometric.data import Data

    try:
        content = torch.load(path, map_location="cpu", weights_only=not unsafe)
    except pickle.UnpicklingError as error:
        found = re.search(r"(?:GLOBAL|class|global) ([\w.]+\.[\w.]+)", str(error))
        what = found[1] if found and "weights_only" not in found[1] else "objects"
        if not zipfile.is_zipfile(path) and found is None:
            raise InvalidGraph(f"{path} is not a file of torch.save, or is damaged.") from None
        raise InvalidGraph(
            f"{path} holds {what} besides tensors and PyG's Data, and unpickling that may run any code. "
            "If you trust the file, load it with --unsafe-pickle (unsafe=True in Python); better, save "
            "torch.save(data.to_dict(), path) with tensors alone."
        ) from None
    except (RuntimeError, EOFError, ValueError, KeyError, AttributeError, ImportError) as error:
        raise InvalidGraph(
            f"{path} cannot be read by torch.load ({type(error).__name__}: {str(error).splitlines()[0]})."
        ) from None
    if isinstance(content, tuple) and len(content) in (2, 3):
        content, slices = content[0], content[1]
        if slices is not None and slices:
            raise InvalidGraph(f"{path} holds several graphs of a PyG dataset; fasthop trains on one graph.")
    if isinstance(content, dict):
        if "edge_index" not in content and "adj_t" not in content:
            raise InvalidGraph(
                f"{path} holds a dict with {sorted(map(str, content))[:8]} and neither edge_index nor adj_t."
            )
        content = Data.from_dict(content)
    return content
