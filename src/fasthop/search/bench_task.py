"""From a BenchConfig to a Task: the graph on its device and the callable that makes the model."""

from __future__ import annotations

import dataclasses
import inspect
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from fasthop.errors import DoesNotFit, InvalidConfig
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


def example_model(config: BenchConfig, graph: Graph) -> torch.nn.Module:
    """A model of the config, made before any worker is, so that what cannot be made is refused at once.

    The caller's generator stays where it is. Raises InvalidConfig where the callable asks for arguments or
    returns something else, and DoesNotFit where a reference model is larger than the machine's memory.
    """
    make = model_maker(config, graph)
    if isinstance(config.model, str):
        with torch.device("meta"):  # the shapes alone: a width that was mistyped must not fill the memory
            model = make()
        _check_fits(config, model)
        return model
    if not isinstance(config.model, torch.nn.Module):
        _check_takes_nothing(make, model_name(config))
    with torch.random.fork_rng(devices=[]):
        model = make()
    if not isinstance(model, torch.nn.Module):
        raise InvalidConfig(
            f"The callable that makes the model returned {type(model).__name__}; it returns an nn.Module."
        )
    return model


def _check_fits(config: BenchConfig, model: torch.nn.Module) -> None:
    import psutil

    # Parameters, their gradients and Adam's two moments.
    num_bytes = 4 * sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    total = psutil.virtual_memory().total
    if num_bytes > total:
        raise DoesNotFit(
            f"A {config.model} with hidden = {config.hidden:,} and layers = {config.layers:,} takes "
            f"{num_bytes / 1e9:,.1f} GB with its optimiser, and this machine has {total / 1e9:,.1f} GB; lower them."
        )


def _check_takes_nothing(make: Callable[[], torch.nn.Module], name: str) -> None:
    try:
        signature = inspect.signature(make)
    except ValueError:  # some builtins do not tell theirs
        return
    try:
        signature.bind()
    except TypeError as error:
        raise InvalidConfig(
            f"model is {name}, which cannot be called without arguments ({error}); give a callable that takes "
            "none, such as lambda: Net(in_channels, out_channels), or a module."
        ) from None


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
    """Writes the tensors of a graph for our own workers, who map the file instead of copying it.
    Raises DoesNotFit where there is no room for it."""
    tree = {name: getattr(graph, name) for name in FIELDS}
    tree |= {"num_nodes": graph.num_nodes, "num_classes": graph.num_classes, "name": graph.name}
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
    return place(Graph(**tree), device)


def place(graph: Graph, device: torch.device) -> Graph:
    """The graph with its tensors on a device; the graph itself where they are there already."""
    if graph.edge_index.device == device or device.type == "cpu":
        return graph
    moved = {name: value.to(device) for name in FIELDS if (value := getattr(graph, name)) is not None}
    return dataclasses.replace(graph, **moved)
