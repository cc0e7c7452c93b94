"""All that must hold of a graph, in order: what Graph asks of itself, and diagnose of each part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from fasthop.graph import check, label_checks

MASKS = ("train_mask", "val_mask", "test_mask")
Check = tuple[str, Callable[[], None]]


def checks_of(parts: Mapping[str, Any]) -> Iterator[Check]:
    """The checks that the parts at hand allow, each with the name of the part that it is about.

    parts: the fields of a Graph by name; a part that is None is left out, and what needs it with it.
    """
    get = parts.get
    masks = {name: parts[name] for name in MASKS if get(name) is not None}
    tensors = ("x", "edge_index", "edge_weight", "y")
    yield "devices", partial(check.check_one_device, **{name: get(name) for name in tensors}, **masks)
    edge_index, num_nodes, num_classes, y = (
        get(name) for name in ("edge_index", "num_nodes", "num_classes", "y")
    )
    if num_nodes is None:
        return
    if edge_index is not None:
        yield "edge_index", partial(check.check_edge_index, edge_index, num_nodes)
    if edge_index is not None and get("edge_weight") is not None:
        yield "edge_weight", lambda: check.check_edge_weight(get("edge_weight"), edge_index.size(1))
    if get("x") is not None:
        yield "x", partial(check.check_x, get("x"), num_nodes)
    if y is not None and num_classes is not None:
        yield "y", partial(label_checks.check_labels, y, num_nodes, num_classes)
    for name, mask in masks.items():
        yield name, partial(check.check_mask, mask, num_nodes, name)
        if y is not None and num_classes is not None:
            yield name, partial(label_checks.check_masked_labels, y, mask, num_classes, name)
    if "train_mask" in masks:
        yield "train_mask", partial(check.check_train_mask, masks["train_mask"])
    yield "node_ids", partial(check.check_node_ids, get("node_ids"), num_nodes)
    if num_classes is not None:
        yield (
            "class_names",
            partial(label_checks.check_class_names, get("class_names"), num_classes),
        )
