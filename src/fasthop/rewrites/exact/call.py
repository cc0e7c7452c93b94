"""How a call of one of PyG's layers is read: which argument is x, which the graph, and whether any other is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fasthop.rewrites.exact.fast_layer import parameters_of

GRAPH_NAMES = ("edge_index", "edge_weight")


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerCall:
    """The arguments of one call, by their place in the layer's forward. x_0 is None where the layer has none."""

    x: Any
    x_0: Any
    edge_index: Any
    edge_weight: Any


def read_call(
    layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, has_x_0: bool
) -> LayerCall | None:
    """The call, or None where it has an argument beside these (edge_attr, size, batch, ...) that is not None."""
    names = parameters_of(type(layer).forward)
    if len(args) > len(names):
        return None
    given = dict(zip(names, args, strict=False)) | kwargs
    x, x_0 = given.pop("x", None), given.pop("x_0", None) if has_x_0 else None
    edge_index, edge_weight = given.pop("edge_index", None), given.pop("edge_weight", None)
    if x is None or edge_index is None or (has_x_0 and x_0 is None):
        return None
    if any(value is not None for value in given.values()):
        return None
    return LayerCall(x=x, x_0=x_0, edge_index=edge_index, edge_weight=edge_weight)
