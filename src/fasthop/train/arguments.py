"""Arguments: how a model's forward is called: what beyond x and edge_index it asks for, and what of its output is the logits."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fasthop.errors import InvalidConfig
from fasthop.graph.fault import Faults
from fasthop.graph.graph import MASKS, Graph
from fasthop.graph.mend import mended_weight
from fasthop.graph.note import Note, note

# Attributes of a graph that are no extras, and may be named as an argument.
OWN_ATTRIBUTES = ("x", "edge_index", "edge_weight", "y", "num_nodes", *MASKS)
# A forward with this one argument takes PyG's Data.
WHOLE = ("data", "batch", "inputs")


@dataclass(frozen=True, kw_only=True, slots=True)
class ForwardCall:
    """How the forward of a model is called, as far as the user says it; the rest is found out.

    arguments: by the forward's own names: the name of an attribute of the graph, or a number. output: which element of
    a tuple or dict is the logits; None is the first. head: whether a linear layer to the classes comes behind; width: of
    what it reads, once that is known.
    """

    arguments: Mapping[str, Any] = field(default_factory=dict)
    output: int | str | None = None
    head: bool = False
    width: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Presentation:
    """How one model's forward is called with one graph.

    style: "positional" (x, edge_index first), "keyword" (x=, edge_index=) or "data" (one object with both).
    attributes: the graph's attributes that are handed over, by the forward's names. constants: numbers, likewise.
    takes_weight: whether edge_weight is handed on. output, head, width: as in ForwardCall. notes: what of this nobody
    had said.
    """

    style: str
    attributes: Mapping[str, str]
    constants: Mapping[str, Any]
    takes_weight: bool
    output: int | str | None
    head: bool
    width: int | None
    notes: tuple[Note, ...]

    @property
    def changes_nothing(self) -> bool:
        """Whether the model is called as it is."""
        return (
            self.style == "positional"
            and not self.attributes
            and not self.constants
            and self.output is None
            and not self.head
        )


def with_tensors(graph: Graph, forward_args: Mapping[str, Any]) -> tuple[Graph, dict[str, Any]]:
    """(the graph with the tensors among forward_args as its extras, the arguments as names and numbers).

    What is given for edge_weight becomes the graph's edge_weight: [E], or [E, 1], which is squeezed.
    Raises InvalidConfig for a name that the graph does not have or a value of another kind, InvalidGraph for a weight of
    another shape.
    """
    arguments: dict[str, Any] = {}
    extras = dict(graph.extras)
    for name, value in forward_args.items():
        if name == "edge_weight":
            graph = _weighted(graph, value)
            continue
        if isinstance(value, str):
            _check_attribute(name, value, graph)
        elif isinstance(value, np.ndarray | Tensor):
            tensor = torch.as_tensor(value) if isinstance(value, np.ndarray) else value
            extras[name] = tensor.to(graph.edge_index.device)
            value = name
        elif not isinstance(value, int | float | None):
            raise InvalidConfig(
                f"The forward argument {name!r} is {type(value).__name__}; it is the name of one of the graph's attributes, a "
                "number or a tensor."
            )
        arguments[name] = value
    if len(extras) != len(graph.extras) or any(extras[name] is not graph.extras[name] for name in extras):
        graph = dataclasses.replace(graph, extras=extras)
    return graph, arguments


def _weighted(graph: Graph, value: Any) -> Graph:
    """The graph with what a forward argument says as its edge_weight."""
    name = "edge_weight"
    if isinstance(value, str):
        _check_attribute("edge_weight", value, graph)
        if value == "edge_weight":
            return graph
        name, value = value, _attribute(graph, value)
    if not isinstance(value, np.ndarray | Tensor):
        raise InvalidConfig(
            f"The forward argument 'edge_weight' is {value!r}; it has one number for each edge."
        )
    faults = Faults()
    dtype = graph.x.dtype if graph.x is not None else torch.float32
    weight = mended_weight(torch.as_tensor(value), graph.num_edges, name, dtype, faults)
    weight = weight.to(graph.edge_index.device)
    return dataclasses.replace(graph, edge_weight=weight, notes=(*graph.notes, *faults.notes))


def presentation_of(model: torch.nn.Module, call: ForwardCall, graph: Graph) -> Presentation:
    """How the model's forward is to be called with the graph.

    An argument under the name of one of the graph's extras gets that, in train and eval mode alike.
    Raises InvalidConfig for an argument that the forward does not have, and for an edge_attr that has not one row an edge.
    """
    parameters = _parameters(model)
    style = _style(parameters)
    given = dict(call.arguments)
    attributes: dict[str, str] = {}
    constants: dict[str, Any] = {}
    notes: list[Note] = []
    names = [name for name, p in parameters.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    if style == "data":
        attributes = {name: name for name, value in graph.extras.items() if isinstance(value, Tensor)}
        attributes |= {name: value for name, value in given.items() if isinstance(value, str)}
        constants = {name: value for name, value in given.items() if not isinstance(value, str)}
    else:
        free = [
            name
            for name in (names[2:] if style == "positional" else names)
            if name not in ("x", "edge_index")
        ]
        takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        for name in free if not takes_any else [*free, *(name for name in given if name not in free)]:
            if name == "edge_weight":
                continue
            value = given.pop(name, None) if name in given else _found(name, parameters.get(name), graph)
            if name in call.arguments and not isinstance(value, str):
                constants[name] = value
            elif isinstance(value, str):
                attributes[name] = value
        if given:
            _refuse_argument(model, next(iter(given)), free)
    for name, attribute in attributes.items():
        _check_rows(name, _attribute(graph, attribute), attribute, graph)
    found = [name for name in attributes if name not in call.arguments]
    if found and style != "data":
        listed = ", ".join(found)
        title = type(model).__name__
        notes.append(
            note(
                f"{title}.forward was given {listed} from the graph, as it asks for by name.",
                f"{title}.forward 按参数名从图中得到了 {listed}。",
            )
        )
    return Presentation(
        style=style,
        attributes=attributes,
        constants=constants,
        takes_weight=style == "data" or "edge_weight" in names,
        output=call.output,
        head=call.head and call.width is not None,
        width=call.width,
        notes=tuple(notes),
    )


def values_of(presentation: Presentation, graph: Any) -> dict[str, Any]:
    """The attributes that a forward is given, by its own names, of a Graph or a batch of PyG's kind."""
    return {name: _attribute(graph, attribute) for name, attribute in presentation.attributes.items()}


def _parameters(model: torch.nn.Module) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(model.forward).parameters)
    except (TypeError, ValueError):  # compiled or native code that does not tell
        return {}


def _style(parameters: Mapping[str, inspect.Parameter]) -> str:
    ordered = [p for p in parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names = [p.name for p in ordered]
    if len(ordered) == 1 and len(parameters) == 1:
        if names[0] in WHOLE or "Data" in str(ordered[0].annotation):
            return "data"
    elif {"x", "edge_index"} <= parameters.keys() and names[:2] != ["x", "edge_index"]:
        return "keyword"
    return "positional"


def _found(name: str, parameter: inspect.Parameter | None, graph: Graph) -> str | None:
    """The graph's attribute that an argument of this name gets without being told."""
    if isinstance(graph.extras.get(name), Tensor | int | float):
        return name
    required = parameter is not None and parameter.default is parameter.empty
    return name if required and name == "num_nodes" else None


def _check_attribute(name: str, value: str, graph: Graph) -> None:
    known = [*graph.extras, *OWN_ATTRIBUTES]
    if value in known and _attribute(graph, value) is not None:
        return
    near = difflib.get_close_matches(value, known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else f" It has {', '.join(known)}."
    raise InvalidConfig(
        f"The forward argument {name!r} is {value!r}, and the graph has no such attribute.{hint}"
    )


def _attribute(graph: Any, name: str) -> Any:
    if isinstance(graph, Graph):
        return graph.extras[name] if name in graph.extras else getattr(graph, name)
    return graph[name] if name != "num_nodes" else graph.num_nodes


def _check_rows(name: str, value: Any, attribute: str, graph: Graph) -> None:
    """edge_attr of a wrong length would fail deep inside a layer."""
    if attribute != "edge_attr" or not isinstance(value, Tensor):
        return
    if value.dim() == 0 or value.size(0) != graph.num_edges:
        raise InvalidConfig(
            f"{attribute}, which the forward takes as {name!r}, has shape {list(value.shape)}, and the graph has "
            f"{graph.num_edges:,} edges; it has one row for each edge."
        )


def _refuse_argument(model: torch.nn.Module, name: str, names: list[str]) -> None:
    near = difflib.get_close_matches(name, names, n=1)
    further = f" Beyond x and edge_index it takes {', '.join(names)}." if names else ""
    hint = f" Did you mean {near[0]!r}?" if near else further
    raise InvalidConfig(f"{type(model).__name__}.forward takes no argument {name!r}.{hint}")
