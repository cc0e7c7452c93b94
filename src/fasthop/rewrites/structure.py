"""A copy of a model's structure that shares its parameters: what rungs rewrite in place of the user's own."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch_geometric.nn import MessagePassing

from fasthop.rewrites.exact.attributes import REGISTRIES, attributes, holds

# What PyG's layers keep of the graph they saw last when made with cached=True. A copy that carried it
# along would silently normalise by another graph.
CACHES = ("_cached_edge_index", "_cached_adj_t", "_cached_x")


def copy_sharing(model: torch.nn.Module, *, share_attributes: bool = False) -> torch.nn.Module:
    """A deep copy of the modules whose parameters, buffers and other tensors are the very tensors of `model`.

    Caches of the graph that PyG's layers carry are emptied in the copy. share_attributes: hooks, registries of buffers and
    whatever attribute holds no module are the very objects, too, so that what a forward pass of the copy does to them is done
    to the model.
    """
    shared: list[object] = [*model.parameters(), *model.buffers()]
    for part in model.modules():
        own = vars(part)
        shared += [value for value in own.values() if isinstance(value, torch.Tensor)]
        if share_attributes:
            shared += [value for value in attributes(part).values() if not holds(value, (torch.nn.Module,))]
            shared += [own[name] for name in REGISTRIES & own.keys() if name not in ("_modules", "training")]
    twin = copy.deepcopy(model, {id(value): value for value in shared})
    for part in twin.modules():
        for name in CACHES:
            if getattr(part, name, None) is not None:
                setattr(part, name, None)
    return twin


def replace_modules(
    model: torch.nn.Module, build: Callable[[str, MessagePassing], torch.nn.Module | None]
) -> torch.nn.Module:
    """Puts `build(path, layer)` in the place of each MessagePassing layer for which it is not None.

    A layer that stands in several places (shared layers) is built once. Returns the model, or the
    replacement where the model is such a layer itself.
    """
    built: dict[int, torch.nn.Module | None] = {}

    def replacement(path: str, layer: MessagePassing) -> torch.nn.Module | None:
        if id(layer) not in built:
            built[id(layer)] = build(path, layer)
        return built[id(layer)]

    if isinstance(model, MessagePassing):
        return replacement("", model) or model
    for path, parent in list(model.named_modules()):
        for name, child in list(parent._modules.items()):
            if isinstance(child, MessagePassing):
                new = replacement(f"{path}.{name}".lstrip("."), child)
                if new is not None:
                    setattr(parent, name, new)
    return model


def message_passing_layers(model: torch.nn.Module) -> dict[str, MessagePassing]:
    """The model's PyG layers by their path, each once; layers inside a layer are left out."""
    found: dict[str, MessagePassing] = {}
    for path, part in model.named_modules():
        inner = any(path.startswith(f"{outer}.") or outer == "" for outer in found)
        if isinstance(part, MessagePassing) and not inner:
            found[path] = part
    return found
