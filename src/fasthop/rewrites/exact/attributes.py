"""What a module carries beside its parameters, buffers and parts: plain attributes, and whether any of them has changed."""

from __future__ import annotations

import copy
import random
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

REGISTRIES = frozenset(vars(torch.nn.Module()))
"""What every module has of its own: flags, hooks, and the registries of parameters, buffers and parts."""

GENERATORS = (random.Random, np.random.Generator, np.random.RandomState, torch.Generator)
PLAIN = (bool, int, float, complex, str, bytes, type(None))
DEPTH = 3
"""How deep attributes within attributes are looked at: options in a dict in a config object."""


def attributes(module: torch.nn.Module) -> dict[str, Any]:
    """A module's attributes by name; what PyG's layers keep of a graph is not counted among them."""
    return {
        name: value
        for name, value in vars(module).items()
        if name not in REGISTRIES and not name.startswith("_cached")
    }


def state_of(value: Any, depth: int = DEPTH) -> Any:
    """What `value` holds now, to be compared with what it holds later: plain values and containers by what is in them,
    tensors by object and version, everything else by object."""
    if isinstance(value, PLAIN):
        return type(value), value
    if isinstance(value, Tensor):
        return id(value), -1 if value.is_inference() else value._version
    inner = ()
    if depth > 0:
        inner = tuple((name, state_of(part, depth - 1)) for name, part in parts_of(value))
    return id(value), inner


def parts_of(value: Any) -> Iterator[tuple[Any, Any]]:
    """What a container or a plain object holds; nothing for modules, tensors, functions and classes."""
    if isinstance(value, dict):
        yield from list(value.items())
    elif isinstance(value, list | tuple | deque):
        yield from enumerate(list(value))
    elif isinstance(value, set | frozenset):
        yield from ((None, part) for part in list(value))
    elif not isinstance(value, torch.nn.Module | Tensor | type | Callable) and hasattr(value, "__dict__"):
        yield from list(vars(value).items())


def holds(value: Any, kinds: tuple[type, ...], depth: int = DEPTH) -> bool:
    """Whether a value is, or holds, one of these kinds; a bound method holds what it is bound to."""
    if isinstance(value, kinds):
        return True
    bound = getattr(value, "__self__", None)
    if bound is not None and isinstance(bound, kinds):
        return True
    return depth > 0 and any(holds(part, kinds, depth - 1) for _, part in parts_of(value))


def is_the_users(module: torch.nn.Module) -> bool:
    """Whether a module's class is none of torch's or PyG's, whose own attributes stay as they are unless set by hand."""
    return not type(module).__module__.startswith(("torch.", "torch_geometric."))


@contextmanager
def kept_attributes(model: torch.nn.Module) -> Iterator[None]:
    """Leaves the attributes of all modules as they were, with what lists, dicts and sets among them held, and the state of
    generators."""
    kept = [(vars(module), attributes(module)) for module in model.modules() if is_the_users(module)]
    values = {id(value): value for _, found in kept for value in found.values()}.values()
    held = [(value, copy.copy(value)) for value in values if isinstance(value, list | dict | set | deque)]
    states = [(value, _generator_state(value)) for value in values if isinstance(value, GENERATORS)]
    try:
        yield
    finally:
        for own, found in kept:
            for name in [name for name in own if name not in REGISTRIES and name not in found]:
                if not name.startswith("_cached"):
                    del own[name]
            own.update(found)
        for value, before in held:
            value.clear()
            value.extend(before) if isinstance(value, list | deque) else value.update(before)
        for generator, state in states:
            _set_generator_state(generator, state)


def _generator_state(generator: Any) -> Any:
    if isinstance(generator, torch.Generator | np.random.RandomState):
        return generator.get_state()
    if isinstance(generator, np.random.Generator):
        return copy.deepcopy(generator.bit_generator.state)
    return generator.getstate()


def _set_generator_state(generator: Any, state: Any) -> None:
    if isinstance(generator, torch.Generator | np.random.RandomState):
        generator.set_state(state)
    elif isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    else:
        generator.setstate(state)
