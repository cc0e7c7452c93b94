"""Presented models: a user's model as `forward(x, edge_index[, edge_weight])` to logits [N, C], whatever its own forward is.

Nothing wraps the model: its class becomes a subclass of itself with another forward, so that its modules, parameters
and the names in its state_dict stay what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor

from fasthop.errors import InvalidConfig
from fasthop.graph.graph import Graph
from fasthop.graph.note import Note, note
from fasthop.train.arguments import ForwardCall, Presentation, presentation_of, values_of

PREFIX = "fasthop_"
HEAD = f"{PREFIX}head"
# In the order of a presented class's bases: itself, the mixin and its parent, the user's.
_PLACE_OF_THE_USERS = 3


class Inputs:
    """What a `forward(data)` reads: x, edge_index, edge_weight (None without), num_nodes, and the graph's extras."""

    batch = None

    def __init__(
        self, x: Tensor, edge_index: Any, edge_weight: Tensor | None, others: Mapping[str, Any]
    ) -> None:
        self.x, self.edge_index, self.edge_weight = x, edge_index, edge_weight
        self.num_nodes, self.num_features = x.size(0), x.size(1)
        for name, value in others.items():
            setattr(self, name, value)


class _Copied:
    """Copies and pickles name the user's class, since ours can be found nowhere."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        kind = type(self).__mro__[_PLACE_OF_THE_USERS]
        return _restored, (kind, isinstance(self, _PresentedWithWeight)), self.__getstate__()


class _Presented(_Copied):
    """Mixed into a user's class."""

    def forward(self, x: Tensor, edge_index: Any, **arguments: Any) -> Any:
        return _called(self, super().forward, x, edge_index, None, arguments)  # type: ignore[misc]


class _PresentedWithWeight(_Copied):
    """Mixed into a user's class whose forward takes edge_weight."""

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None, **arguments: Any) -> Any:
        return _called(self, super().forward, x, edge_index, edge_weight, arguments)  # type: ignore[misc]


def present(model: torch.nn.Module, call: ForwardCall, graph: Graph) -> torch.nn.Module:
    """The model itself, made to take what `presentation_of` found; untouched where that is what it takes already.

    The graph's attributes become buffers of it that are not saved; arguments of a call take their place (a sampled
    batch brings its own). Raises InvalidConfig where the presentation cannot be had.
    """
    _unpresent(model)  # a callable that hands out one object again and again
    found = presentation_of(model, call, graph)
    if found.changes_nothing:
        return model
    title = type(model).__name__
    if "forward" in vars(model):
        raise InvalidConfig(
            f"{title} has a forward of its own on the object, which cannot be called in another way; define it in the class."
        )
    for name, value in values_of(found, graph).items():
        if isinstance(value, Tensor):
            model.register_buffer(f"{PREFIX}{name}", value, persistent=False)
    if found.head:
        assert found.width is not None
        model.add_module(HEAD, torch.nn.Linear(found.width, graph.num_classes))
    plain = {name: v for name, v in values_of(found, graph).items() if not isinstance(v, Tensor)}
    vars(model)[f"{PREFIX}call"] = found
    vars(model)[f"{PREFIX}plain"] = {**plain, **found.constants}
    try:
        model.__class__ = _class(type(model), found.takes_weight)
    except TypeError:
        raise InvalidConfig(
            f"{title} cannot be called in another way than forward(x, edge_index); wrap it in an nn.Module that takes these "
            "and returns logits."
        ) from None
    return model


def notes_of(model: torch.nn.Module) -> tuple[Note, ...]:
    """What is to be said of how the model is called."""
    found = getattr(model, f"{PREFIX}call", None)
    return found.notes if isinstance(found, Presentation) else ()


def attributes_of(model: torch.nn.Module) -> dict[str, str]:
    """The graph's attributes that the model's forward is given, by the forward's names."""
    found = getattr(model, f"{PREFIX}call", None)
    return dict(found.attributes) if isinstance(found, Presentation) else {}


def _unpresent(model: torch.nn.Module) -> None:
    if not isinstance(model, _Presented | _PresentedWithWeight):
        return
    model.__class__ = type(model).__mro__[_PLACE_OF_THE_USERS]
    for name in [name for name in (*model._buffers, *model._modules) if name.startswith(PREFIX)]:
        delattr(model, name)
    for name in (f"{PREFIX}call", f"{PREFIX}plain"):
        delattr(model, name)


def completed(call: ForwardCall, out: Any) -> tuple[ForwardCall, tuple[Note, ...]]:
    """The call with what a first output tells: which element is taken, and how wide what a head reads is.

    Raises InvalidConfig where the output named is not there, or is no tensor.
    """
    notes: tuple[Note, ...] = ()
    output = call.output
    if output is None and isinstance(out, tuple | list | Mapping) and len(out):
        output = 0 if not isinstance(out, Mapping) else next(iter(out))
        out = out[output]
        if not isinstance(out, Tensor):
            raise InvalidConfig(
                f"The first element of what the model returns is {type(out).__name__} and no tensor of logits; say which one is "
                "with output=1 (--output 1), or by name of a dict."
            )
        notes = (
            note(
                f"The model returns several values; {_which(output)} is taken as the logits.",
                f"模型返回多个值；取{_which_zh(output)}作为 logits。",
            ),
        )
    width = call.width
    if call.head and width is None and isinstance(out, Tensor) and out.dim() == 2:
        width = out.size(1)
        notes += (
            note(
                f"A linear layer from the model's {width} outputs to the classes was put behind it (head).",
                f"在模型的 {width} 维输出之后加了一个到各类别的线性层（head）。",
            ),
        )
    if output == call.output and width == call.width:
        return call, ()
    return ForwardCall(arguments=call.arguments, output=output, head=call.head, width=width), notes


def first_of(out: Any) -> Any:
    """What is taken for the logits where nothing else is said: the first of several values."""
    if isinstance(out, Mapping) and out:
        return next(iter(out.values()))
    return out[0] if isinstance(out, tuple | list) and out else out


def chosen(out: Any, output: int | str | None) -> Any:
    """The element of an output. Raises InvalidConfig where it is not there."""
    if output is None:
        return out
    try:
        return out[output] if not isinstance(out, Tensor) else _none(out)
    except (KeyError, IndexError, TypeError):
        kind = f"a {type(out).__name__}"
        if isinstance(out, Mapping):
            kind += f" with {', '.join(map(repr, out))}"
        elif isinstance(out, tuple | list):
            kind += f" of {len(out)}"
        raise InvalidConfig(f"output is {output!r}, and the model returns {kind}.") from None


def _none(out: Tensor) -> Tensor:
    """A single tensor has no elements to choose from."""
    raise TypeError


def _called(
    model: Any,
    forward: Callable[..., Any],
    x: Tensor,
    edge_index: Any,
    weight: Tensor | None,
    given: dict[str, Any],
) -> Any:
    found: Presentation = model.fasthop_call
    arguments: dict[str, Any] = dict(model.fasthop_plain)
    for name in found.attributes:
        if name in given:
            arguments[name] = given[name]
        elif name not in arguments:
            arguments[name] = getattr(model, PREFIX + name)
    if found.style == "data":
        out = forward(Inputs(x, edge_index, weight, arguments))
    else:
        if weight is not None:
            arguments["edge_weight"] = weight
        if found.style == "keyword":
            out = forward(x=x, edge_index=edge_index, **arguments)
        else:
            out = forward(x, edge_index, **arguments)
    out = chosen(out, found.output)
    return getattr(model, HEAD)(out) if found.head else out


def _restored(kind: Any, takes_weight: bool) -> Any:
    return kind.__new__(_class(kind, takes_weight))


@cache
def _class(kind: type, takes_weight: bool) -> type:
    mixin = _PresentedWithWeight if takes_weight else _Presented
    return type(kind.__name__, (mixin, kind), {"__module__": kind.__module__, "__doc__": kind.__doc__})


def _which(output: int | str) -> str:
    return "the first" if output == 0 else repr(output)


def _which_zh(output: int | str) -> str:
    return "第一个" if output == 0 else repr(output)
