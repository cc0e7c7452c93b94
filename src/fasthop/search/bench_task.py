"""What a bench run hands to its workers: the device, the graph in a file, and a model made once beforehand."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fasthop.errors import DoesNotFit, InvalidConfig
from fasthop.graph.graph import MASKS, Graph
from fasthop.train.generators import kept_generators
from fasthop.train.task import Task
from fasthop.train.task_config import MODELS, TaskConfig

FIELDS = ("x", "edge_index", "edge_weight", "y", *MASKS)


def pick_device(name: str) -> torch.device:
    """The device by its option. Raises InvalidConfig where CUDA is asked for and not there."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name == "cuda" and not torch.cuda.is_available():
        raise InvalidConfig(
            "device is 'cuda', and torch finds no CUDA device here; use --device cpu or auto."
        )
    return torch.device(name)


def example_model(config: TaskConfig, task: Task) -> torch.nn.Module:
    """A model of the task, made before any worker is, so that what cannot be made is refused at once.

    The caller's generators stay where they are. Raises InvalidConfig where the model cannot be made, or not be called with
    the task's graph.
    """
    if config.model in MODELS:
        with torch.device("meta"):  # the shapes alone
            return task.make_model()
    with kept_generators():
        return task.build_model(0)


def save_graph(graph: Graph, path: Path) -> None:
    """Writes a graph for our own workers, who map the file instead of copying it: its tensors, those among its extras
    and plain values there, and its ids and names. Raises DoesNotFit where there is no room for it."""
    tree = {
        name: getattr(graph, name) for name in (*FIELDS, "num_nodes", "num_classes", "name", "class_names")
    }
    tree["extras"] = {name: value for name, value in graph.extras.items() if _travels(value)}
    ids = graph.node_ids
    # torch reads neither arrays nor NumPy's strings without running code from the file.
    tree["node_ids"] = (
        None if ids is None else ids.tolist() if ids.dtype.kind == "U" else torch.from_numpy(ids)
    )
    try:
        torch.save(tree, path)
    except (OSError, RuntimeError) as error:  # torch's zip writer turns a full disk into a RuntimeError
        room = shutil.disk_usage(path.parent).free
        raise DoesNotFit(
            f"The graph could not be written for the workers into {path.parent.parent}, where {room / 1e6:,.1f} MB "
            "are free; make room, or set TMPDIR to a folder on another disk."
        ) from error


def read_graph(path: Path, device: torch.device) -> Graph:
    """Reads what `save_graph` wrote, onto a device; on the CPU all workers share the file's pages."""
    tree = torch.load(path, weights_only=True, mmap=True, map_location="cpu")
    ids = tree["node_ids"]
    if ids is not None:
        tree["node_ids"] = ids.numpy() if isinstance(ids, Tensor) else np.array(ids, dtype=np.str_)
    return place(Graph(**tree), device)


def place(graph: Graph, device: torch.device) -> Graph:
    """The graph with its tensors on a device; the graph itself where they are there already."""
    if graph.edge_index.device == device or device.type == "cpu":
        return graph
    moved: dict[str, Any] = {
        name: value.to(device) for name in FIELDS if (value := getattr(graph, name)) is not None
    }
    moved["extras"] = {
        name: value.to(device) if isinstance(value, Tensor) else value for name, value in graph.extras.items()
    }
    return dataclasses.replace(graph, **moved)


def _travels(value: Any) -> bool:
    return (type(value) is Tensor and value.layout is torch.strided) or isinstance(value, int | float | str)
