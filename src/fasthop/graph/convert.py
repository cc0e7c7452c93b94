"""From PyG's Data to a Graph: part by part, so that a fault in one does not hide those in the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from fasthop.graph.checks import MASKS
from fasthop.graph.edges import Edges, edges_of, num_nodes_of
from fasthop.graph.fault import Faults, fault
from fasthop.graph.graph import Graph
from fasthop.graph.kinds import single_graph
from fasthop.graph.labels import mended_labels, num_classes_of
from fasthop.graph.masks import masks_of, say_overlaps
from fasthop.graph.mend import mended_edge_index, mended_weight, mended_x
from fasthop.graph.parts import Parts

if TYPE_CHECKING:
    from torch_geometric.data import Data


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadOptions:
    """How a Data is read; `Graph.from_data` says what each option means."""

    name: str = "data"
    split: int | str | None = None
    seed: int = 0
    num_classes: int | None = None
    weight_from: str = "edge_weight"
    dtype: torch.dtype | None = torch.float32
    undirected: bool = False


def graph_from_data(data: Any, options: ReadOptions, faults: Faults | None = None) -> Graph:
    """`Graph.from_data`; faults: what a reader of files has said already, to stand before the notes made here."""
    faults = faults or Faults()
    return parts_of_data(data, options, faults).graph(faults)


def parts_of_data(data: Any, options: ReadOptions, faults: Faults) -> Parts:
    """The parts of one graph; with `faults` that collect, those without a fault."""
    parts = Parts(name=options.name)
    one = None
    with faults.part():
        one, known_classes = single_graph(data)
    if one is None:
        return parts
    edges = None
    with faults.part():
        edges = edges_of(one, faults)
    with faults.part():
        parts.num_nodes = num_nodes_of(one, edges or Edges(edge_index=None))
    if parts.num_nodes is None:
        return parts
    num_nodes = parts.num_nodes
    if edges is not None:
        with faults.part():
            parts.edge_index = mended_edge_index(edges.edge_index, num_nodes, faults)
    with faults.part():
        parts.edge_weight = _weight(one, edges, parts.edge_index, options, faults)
    with faults.part():
        parts.x = mended_x(one.get("x"), options.dtype, faults)
    with faults.part():
        y = mended_labels(one.get("y"), num_nodes, faults)
        parts.num_classes = num_classes_of(y, options.num_classes or known_classes, faults)
        parts.y = y
    with faults.part():
        parts.masks = masks_of(
            one, num_nodes, parts.y, parts.num_classes or 0, options.split, options.seed, faults
        )
    say_overlaps(parts.masks, faults)
    parts.node_ids = _node_ids(one.get("node_ids"), num_nodes)
    parts.class_names = _class_names(one.get("class_names"), parts.num_classes)
    used = {"x", "y", "edge_index", "adj_t", "num_nodes", "batch", "ptr", *MASKS}
    used |= {name for name in ("node_ids", "class_names") if getattr(parts, name) is not None}
    if parts.edge_weight is not None and edges is not None and edges.values is None:
        used.add(options.weight_from)
    parts.extras = {key: one[key] for key in one.keys() if key not in used}  # noqa: SIM118
    if options.undirected:
        parts.make_undirected(faults)
    return parts


def _weight(
    data: Data, edges: Edges | None, edge_index: Tensor | None, options: ReadOptions, faults: Faults
) -> Tensor | None:
    name, values = options.weight_from, None if edges is None else edges.values
    if values is None:
        values = data.get(name)
        if values is None and name != "edge_weight":
            raise fault(
                "no-weight",
                f"The data has no {name} to take weights from.",
                f"数据没有 {name}，无法从中读取边权。",
            )
    else:
        name = "the values of adj_t"
    if values is None:
        if data.get("edge_attr") is not None:
            faults.note(
                "edge-attr",
                "edge_attr was kept, but is not used as the edges' weights; weight_from='edge_attr' would do that.",
                "edge_attr 已保留，但不作为边权使用；如需用作边权，请设 weight_from='edge_attr'。",
            )
        return None
    if edge_index is None:  # its own fault is said; without the edges a weight cannot be held against them
        return None
    return mended_weight(values, edge_index.size(1), name, options.dtype, faults)


def _node_ids(value: Any, num_nodes: int) -> np.ndarray | None:
    """The ids of the nodes, where `data.node_ids` is one str or integer for each; anything else stays an extra."""
    dense = isinstance(value, Tensor) and value.dim() == 1 and value.layout is torch.strided
    if dense and value.dtype in (torch.int64, torch.int32):
        value = value.cpu().numpy()
    if not isinstance(value, np.ndarray | list | tuple) or len(value) != num_nodes:
        return None
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "Ui" or value.ndim != 1:
            return None
    elif not (all(type(v) is str for v in value) or all(type(v) is int and abs(v) < 2**63 for v in value)):
        return None
    ids = np.asarray(value)
    return ids if ids.dtype.kind == "U" else ids.astype(np.int64)


def _class_names(value: Any, num_classes: int | None) -> tuple[str, ...] | None:
    """The names of the classes, where `data.class_names` is one str for each; anything else stays an extra."""
    if not isinstance(value, list | tuple) or len(value) != num_classes:
        return None
    return tuple(value) if all(type(name) is str for name in value) else None
