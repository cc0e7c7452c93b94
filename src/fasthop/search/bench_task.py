"""From a BenchConfig to a Task: the graph on its device and the callable that makes the model."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from fasthop.errors import InvalidConfig
from fasthop.graph.graph import MASKS, Graph
from fasthop.search.config import BenchConfig
from fasthop.train.models import REFERENCE_MODELS
from fasthop.train.task import OptimizerConfig, Task, fresh_copies

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


def model_maker(config: BenchConfig, graph: Graph) -> Callable[[], torch.nn.Module]:
    """The `make_model` of a config: a reference model by name, copies of a module, or the callable itself."""
    if isinstance(config.model, torch.nn.Module):
        return fresh_copies(config.model)
    if callable(config.model):
        return config.model
    return partial(
        REFERENCE_MODELS[config.model],
        graph.num_features,
        config.hidden,
        graph.num_classes,
        num_layers=config.layers,
        dropout=config.dropout,
    )


def model_name(config: BenchConfig) -> str:
    """The name of a config's model in reports."""
    if isinstance(config.model, str):
        return config.model
    if isinstance(config.model, torch.nn.Module):
        return type(config.model).__name__
    return getattr(config.model, "__name__", type(config.model).__name__)


def make_task(config: BenchConfig, graph: Graph) -> Task:
    """The task of a config on a graph that lies on its device already."""
    optimizer = OptimizerConfig(name="adam", lr=config.lr, weight_decay=config.weight_decay)
    return Task(graph=graph, make_model=model_maker(config, graph), optimizer=optimizer)


def save_graph(graph: Graph, path: Path) -> None:
    """Writes the tensors of a graph for our own workers, who map the file instead of copying it."""
    tree = {name: getattr(graph, name) for name in FIELDS}
    tree |= {"num_nodes": graph.num_nodes, "num_classes": graph.num_classes, "name": graph.name}
    torch.save(tree, path)


def read_graph(path: Path, device: torch.device) -> Graph:
    """Reads what `save_graph` wrote, onto a device; on the CPU all workers share the file's pages."""
    tree = torch.load(path, weights_only=True, mmap=True, map_location="cpu")
    return place(Graph(**tree), device)


def place(graph: Graph, device: torch.device) -> Graph:
    """The graph with its tensors on a device; the graph itself where they are there already."""
    if graph.edge_index.device == device or device.type == "cpu":
        return graph
    moved = {name: value.to(device) for name in FIELDS if (value := getattr(graph, name)) is not None}
    return dataclasses.replace(graph, **moved)
