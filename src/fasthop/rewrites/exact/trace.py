"""The forward pass of a model as a graph of calls, with PyG's layers whole: torch.fx, and what it would get wrong refused."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.models.jumping_knowledge import JumpingKnowledge

from fasthop.errors import NotApplicable
from fasthop.graph.note import Note, note
from fasthop.rewrites.exact.attributes import GENERATORS, attributes, holds, state_of
from fasthop.rewrites.exact.fast_layer import HOOKS
from fasthop.train.compiled import first_line

CHANGES = note("its forward changes attributes of the model.", "其 forward 会修改模型自身的属性。")
WHOLE_PACKAGES = ("torch_geometric.nn.norm", "torch_geometric.nn.aggr", "torch_geometric.nn.dense.linear")


class Untraceable(NotApplicable):
    """The forward pass cannot be taken apart; `.reason` says why in each language."""

    def __init__(self, reason: Note) -> None:
        super().__init__(reason["en"])
        self.reason = reason


class Entry(torch.nn.Module):
    """Calls the model as the user's loop does: x, edge_index, and edge_weight where the model is given one."""

    def __init__(self, model: torch.nn.Module, *, weighted: bool) -> None:
        super().__init__()
        self.model = model
        self.weighted = weighted

    def forward(self, x: Any, edge_index: Any, edge_weight: Any) -> Any:
        if self.weighted:
            return self.model(x, edge_index, edge_weight=edge_weight)
        return self.model(x, edge_index)


class Traced(fx.Proxy):
    """A value of the forward pass. fx would read `h += y` as `h = h + y`, which leaves what else is called h as it was."""

    def __iadd__(self, other: Any) -> fx.Proxy:
        return self.tracer.create_proxy("call_function", operator.iadd, (self, other), {})

    def __isub__(self, other: Any) -> fx.Proxy:
        return self.tracer.create_proxy("call_function", operator.isub, (self, other), {})

    def __imul__(self, other: Any) -> fx.Proxy:
        return self.tracer.create_proxy("call_function", operator.imul, (self, other), {})

    def __itruediv__(self, other: Any) -> fx.Proxy:
        return self.tracer.create_proxy("call_function", operator.itruediv, (self, other), {})

    def __ipow__(self, other: Any) -> fx.Proxy:
        return self.tracer.create_proxy("call_function", operator.ipow, (self, other), {})

    def __imatmul__(self, other: Any) -> fx.Proxy:
        return self.tracer.create_proxy("call_function", operator.imatmul, (self, other), {})


class TracedInput(Traced):
    """An argument of the forward pass: a tensor, for those who ask, and no parameter."""

    _is_param = False

    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        return Tensor


class LayerTracer(fx.Tracer):
    """Keeps PyG's layers, its norms and torch's own modules whole, and goes through everything else."""

    def create_arg(self, a: Any) -> Any:
        return a.node if isinstance(a, fx.Proxy) else super().create_arg(a)

    def proxy(self, node: fx.Node) -> fx.Proxy:
        return (TracedInput if node.op == "placeholder" else Traced)(node, self)

    def is_leaf_module(self, m: torch.nn.Module, module_qualified_name: str) -> bool:
        if isinstance(m, MessagePassing | JumpingKnowledge) or type(m).__module__.startswith(WHOLE_PACKAGES):
            return True
        return super().is_leaf_module(m, module_qualified_name)

    def create_node(self, *args: Any, **kwargs: Any) -> fx.Node:
        # A trace does not record these contexts, so what was computed in them would be computed without.
        if not torch.is_grad_enabled():
            raise Untraceable(
                note("its forward switches gradients off for a part.", "其 forward 在某一部分关闭了梯度。")
            )
        if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
            raise Untraceable(
                note("its forward uses autocast of its own.", "其 forward 自行使用了 autocast。")
            )
        return super().create_node(*args, **kwargs)


def trace(model: torch.nn.Module, *, weighted: bool) -> tuple[Entry, fx.Graph]:
    """The calls of the model's forward in its present mode (train or eval), module paths below the Entry returned.

    The model is a copy that nobody else uses; its buffers may be another's, and are left as they were. Raises Untraceable
    where control flow depends on tensors, or where the forward pass draws random numbers or changes its own state beside
    the tensors it computes with.
    """
    _check_modules(model)
    entry = Entry(model, weighted=weighted)
    before, states = state_of_modules(model), random_states()
    buffers = [(buffer, buffer._version, buffer.clone()) for buffer in model.buffers()]
    try:
        with torch.enable_grad():
            graph = LayerTracer().trace(entry)
    except Untraceable:
        raise
    except Exception as error:  # what tracing meets in a user's code is not to be listed
        reason = first_line(error)
        raise Untraceable(
            note(
                f"its forward cannot be traced ({reason}).",
                f"其 forward 无法跟踪（{reason}）。",
            )
        ) from error
    finally:
        drew = not _same(states, random_states())
        restore(states)
        changed = state_of_modules(model) != before
        for buffer, version, value in buffers:
            if buffer._version != version:
                changed = True
                with torch.no_grad():
                    buffer.copy_(value)
    if drew:
        raise Untraceable(
            note(
                "its forward draws random numbers of its own (edges or features dropped by hand).",
                "其 forward 自行抽取随机数（例如手动丢弃边或特征）。",
            )
        )
    if changed:
        raise Untraceable(CHANGES)
    return entry, graph


def _check_modules(model: torch.nn.Module) -> None:
    """Raises Untraceable for what a trace would lose: hooks, which it calls once, and generators, which it draws from once."""
    for part in model.modules():
        name = type(part).__name__
        if not isinstance(part, MessagePassing) and any(getattr(part, kind, None) for kind in HOOKS):
            raise Untraceable(note(f"{name} has hooks.", f"{name} 挂有钩子（hook）。"))
        if any(holds(value, GENERATORS) for value in attributes(part).values()):
            raise Untraceable(
                note(
                    f"{name} holds a generator of random numbers of its own.",
                    f"{name} 带有自己的随机数生成器。",
                )
            )


def state_of_modules(model: torch.nn.Module) -> list[Any]:
    """What a forward pass could change beside the values it returns, of every module."""
    return [
        (
            path,
            {name: state_of(value) for name, value in attributes(module).items()},
            [(name, id(value)) for name, value in [*module._parameters.items(), *module._buffers.items()]],
            [(name, id(value)) for name, value in module._modules.items()],
        )
        for path, module in model.named_modules()
    ]


def random_states() -> tuple[Any, ...]:
    return random.getstate(), np.random.get_state(), torch.random.get_rng_state()


def _same(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    return (
        a[0] == b[0]
        and all(np.array_equal(p, q) for p, q in zip(a[1], b[1], strict=True))
        and torch.equal(a[2], b[2])
    )


def restore(states: tuple[Any, ...]) -> None:
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.random.set_rng_state(states[2])


def module_of(entry: Entry, node: fx.Node) -> torch.nn.Module:
    """The module that a call_module node calls."""
    assert isinstance(node.target, str)
    return entry.get_submodule(node.target)


def name_of(entry: Entry, node: fx.Node) -> str:
    """What a node calls, for a sentence."""
    if node.op == "call_module":
        return type(module_of(entry, node)).__name__
    if isinstance(node.target, str):
        return f".{node.target}()" if node.op == "call_method" else node.target
    target: Callable[..., Any] = node.target
    return getattr(target, "__name__", str(target))
