"""From a TaskConfig to the callable that makes the model: its arguments from the config, and from the graph what it asks for."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from fasthop.errors import DoesNotFit, InvalidConfig
from fasthop.graph.graph import Graph
from fasthop.graph.note import Note, note
from fasthop.train.models import REFERENCE_MODELS
from fasthop.train.named_model import find_model, users_code
from fasthop.train.task import fresh_copies

if TYPE_CHECKING:
    from fasthop.train.task_config import TaskConfig

Make = Callable[[], torch.nn.Module]

# Under which names functions and classes ask for what the graph knows.
NUM_FEATURES = (
    "in_channels", "in_features", "in_feats", "in_dim", "in_size", "input_dim", "input_channels", "input_size",
    "num_features", "num_node_features", "num_feats", "n_features", "nfeat", "node_dim",
)  # fmt: skip
NUM_CLASSES = (
    "out_channels", "out_features", "out_feats", "out_dim", "out_size", "output_dim", "output_channels", "output_size",
    "num_classes", "n_classes", "nclass", "num_labels",
)  # fmt: skip
NUM_NODES = ("num_nodes", "n_nodes")
EDGE_DIM = ("edge_dim", "edge_channels", "num_edge_features")
# And for what the options of the reference models say.
SHAPES = {
    "hidden": (
        "hidden_channels",
        "hidden",
        "hidden_dim",
        "hidden_size",
        "hidden_features",
        "hid_dim",
        "nhid",
    ),
    "layers": ("num_layers", "layers", "n_layers"),
    "dropout": ("dropout", "dropout_rate", "p_dropout"),
}
SHAPE_DEFAULTS = {"hidden": 16, "layers": 2, "dropout": 0.0}


def model_maker(config: TaskConfig, graph: Graph) -> tuple[Make, tuple[Note, ...]]:
    """(a callable without arguments that makes the model, what was handed to it).

    Raises InvalidConfig where a named model is not found or its arguments do not fit, DoesNotFit where a reference model
    is larger than the machine's memory.
    """
    model = config.model
    if isinstance(model, str) and model in REFERENCE_MODELS:
        make = partial(
            REFERENCE_MODELS[model],
            graph.num_features,
            config.hidden,
            graph.num_classes,
            num_layers=config.layers,
            dropout=config.dropout,
        )
        _check_fits(config, make)
        return make, ()
    name = model if isinstance(model, str) else None
    made_by: Any = find_model(model) if isinstance(model, str) else model
    if isinstance(made_by, torch.nn.Module):
        _refuse_arguments(config, type(made_by).__name__)
        return fresh_copies(made_by), ()
    title = getattr(made_by, "__name__", type(made_by).__name__)
    arguments, handed = _arguments(config, graph, made_by, title)
    make = partial(made_by, **arguments) if arguments else made_by
    return (make if name is None else _InUsersFile(make, name)), _notes(title, handed)


class _InUsersFile:
    """Makes the model, and tells what goes wrong in the user's file by its line."""

    def __init__(self, make: Callable[[], Any], place: str) -> None:
        self.make, self.place = make, place

    def __call__(self) -> Any:
        with users_code(self.place, f"{self.place.rpartition(':')[2]}(…)"):
            return self.make()


def _arguments(
    config: TaskConfig, graph: Graph, made_by: Any, title: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(all arguments by name, those among them that the user did not give)."""
    given = dict(config.model_args)
    try:
        signature = inspect.signature(made_by)
    except (TypeError, ValueError):  # some builtins do not tell theirs
        _refuse_shapes(config, (), title)
        return given, {}
    parameters = {
        name: parameter
        for name, parameter in signature.parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    handed: dict[str, Any] = {}
    for name, parameter in parameters.items():
        if name not in given:
            required = parameter.default is parameter.empty
            found = _known(name, graph, config, required=required)
            if found is not None:
                handed[name] = found
    _refuse_shapes(config, (*given, *handed), title)
    takes_any = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    unknown = [] if takes_any else [name for name in given if name not in parameters]
    if unknown:
        near = difflib.get_close_matches(unknown[0], parameters, n=1)
        hint = f" Did you mean {near[0]}?" if near else f" It takes {', '.join(parameters) or 'none'}."
        raise InvalidConfig(f"{title} takes no argument {unknown[0]!r}.{hint}")
    arguments = {**handed, **given}
    try:
        signature.bind(**arguments)
    except TypeError as error:
        known = ", ".join(f"{name} = {value}" for name, value in handed.items() if isinstance(value, int))
        raise InvalidConfig(
            f"model is {title}{signature}, which cannot be called ({error})."
            f"{f' The graph gives {known}.' if known else ''} Give the rest with model_args={{'name': value}} "
            "(--model-arg name=value), or give a callable that takes no arguments, such as lambda: Net(64)."
        ) from None
    return arguments, handed


def _known(name: str, graph: Graph, config: TaskConfig, *, required: bool) -> Any:
    """What an argument of this name is given without being told; None for nothing."""
    if name in NUM_FEATURES:
        return graph.num_features
    if name in NUM_CLASSES:
        # What ends in embeddings has a width of its own.
        return graph.num_classes if required or not config.head else None
    for option, names in SHAPES.items():
        if name in names and (required or getattr(config, option) != SHAPE_DEFAULTS[option]):
            return getattr(config, option)
    if not required:
        return None
    if name in NUM_NODES:
        return graph.num_nodes
    if name in EDGE_DIM:
        edge_attr = graph.extras.get("edge_attr")
        return edge_attr.size(1) if isinstance(edge_attr, torch.Tensor) and edge_attr.dim() == 2 else 1
    if name == "graph":
        return graph
    if name == "data":
        data = graph.to_data()
        data.num_classes = graph.num_classes
        return data
    return None


def _refuse_shapes(config: TaskConfig, names: tuple[str, ...], title: str) -> None:
    """An option that nothing takes must not be passed over in silence."""
    for option, taken in SHAPES.items():
        value = getattr(config, option)
        if value != SHAPE_DEFAULTS[option] and not set(taken) & set(names):
            raise InvalidConfig(
                f"{option} is {value!r}, and {title} has no argument for it ({', '.join(taken[:2])}); it shapes the "
                f"reference models. Give what {title} takes with model_args (--model-arg name=value)."
            )


def _refuse_arguments(config: TaskConfig, title: str) -> None:
    if config.model_args:
        raise InvalidConfig(
            f"model_args is {dict(config.model_args)!r}, and {title} is a module that is made already."
        )
    _refuse_shapes(config, (), title)


def _notes(title: str, handed: dict[str, Any]) -> tuple[Note, ...]:
    if not handed:
        return ()
    said = ", ".join(
        f"{name} = {value}" if isinstance(value, int | float) else name for name, value in handed.items()
    )
    return (
        note(
            f"{title} was given {said}, as it asks for by name.",
            f"{title} 按其参数名得到了 {said}。",
        ),
    )


def _check_fits(config: TaskConfig, make: Make) -> None:
    import psutil

    with torch.device("meta"):  # the shapes alone: a width that was mistyped must not fill the memory
        model = make()
    # Parameters, their gradients and Adam's two moments.
    num_bytes = 4 * sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    total = psutil.virtual_memory().total
    if num_bytes > total:
        raise DoesNotFit(
            f"A {config.model} with hidden = {config.hidden:,} and layers = {config.layers:,} takes "
            f"{num_bytes / 1e9:,.1f} GB with its optimiser, and this machine has {total / 1e9:,.1f} GB; lower them."
        )
