"""Graphs of other libraries, in Python: NetworkX's and DGL's. Neither is imported here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fasthop.graph.checks import MASKS
from fasthop.graph.class_words import classes_of, mask_of_flags, masks_of_words
from fasthop.graph.fault import Faults, fault
from fasthop.graph.kinds import heterogeneous, is_attribute_name

DGL_X = ("feat", "x", "feature", "features")
DGL_Y = ("label", "y", "labels")


def is_networkx(graph: Any) -> bool:
    """Whether it is a graph of NetworkX."""
    return any(cls.__module__.partition(".")[0] == "networkx" for cls in type(graph).__mro__)


def is_dgl(graph: Any) -> bool:
    """Whether it has the face of a DGLGraph."""
    return all(hasattr(graph, name) for name in ("ndata", "edata", "edges", "ntypes", "canonical_etypes"))


def data_from_networkx(graph: Any, *, x: str | Sequence[str], y: str, weight: str, faults: Faults) -> Any:
    """A PyG Data of a NetworkX graph. Nodes are numbered in the graph's order, as in PyG's from_networkx; an
    undirected graph gives both directions of each edge, a multigraph its parallel edges.

    x: the attribute of the nodes that holds their features, or several, laid side by side. y: that of the labels.
    weight: that of the edges' weights; all edges have it or none. Attributes split, train_mask, val_mask and
    test_mask are read as in tables.
    """
    from torch_geometric.data import Data

    nodes = list(graph.nodes)
    number_of = {node: number for number, node in enumerate(nodes)}
    ends, weights = [], []
    for source, target, attributes in graph.edges(data=True):
        ends.append((number_of[source], number_of[target]))
        weights.append(attributes.get(weight))
        if not graph.is_directed() and source != target:
            ends.append((number_of[target], number_of[source]))
            weights.append(attributes.get(weight))
    data = Data(num_nodes=len(nodes))
    data.edge_index = torch.tensor(ends, dtype=torch.int64).reshape(-1, 2).t().contiguous()
    with faults.part():
        if any(value is not None for value in weights):
            data.edge_weight = _edge_weights(weights, ends, nodes, weight)
    _add_ids(data, nodes, faults)
    with faults.part():
        features = _features(graph, nodes, x)
        if features is not None:
            data.x = features
    with faults.part():
        labels = [graph.nodes[node].get(y) for node in nodes]
        if any(label is not None for label in labels):
            _add_labels(data, labels, y)
    with faults.part():
        _add_masks(data, graph, nodes)
    return data


def _plain(value: Any) -> Any:
    """A tensor, an array or a number of NumPy as Python's own; anything else as it is."""
    if isinstance(value, Tensor):
        return value.detach().to_dense().tolist()
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _edge_weights(values: list[Any], ends: list[tuple[int, int]], nodes: list[Any], name: str) -> Tensor:
    for value, (source, target) in zip(values, ends, strict=True):
        if isinstance(value, bool) or not isinstance(value, int | float | np.number):
            said = "no" if value is None else f"{value!r} as"
            raise fault(
                "nx-weight",
                f"The edge {nodes[source]!r} -> {nodes[target]!r} has {said} {name}, and others have numbers.",
                f"边 {nodes[source]!r} -> {nodes[target]!r} 的 {name} 为 {value!r}，而其他边为数值。",
                (
                    "Give every edge a number, or name another attribute.",
                    "请给每条边一个数值，或指定其他属性。",
                ),
            )
    return torch.tensor([float(value) for value in values], dtype=torch.float32)


def _add_ids(data: Any, nodes: list[Any], faults: Faults) -> None:
    if all(type(node) is int and abs(node) < 2**63 for node in nodes):
        data.node_ids = np.array(nodes, dtype=np.int64)
        return
    text = [str(node) for node in nodes]
    if len(set(text)) == len(text):
        data.node_ids = np.array(text, dtype=np.str_)
        return
    faults.warn(
        "nx-ids",
        "The nodes' names were not kept: written as text, some are equal.",
        "节点名称未保留：写成文本后有重复。",
    )


def _features(graph: Any, nodes: list[Any], x: str | Sequence[str]) -> Tensor | None:
    names = [x] if isinstance(x, str) else list(x)
    if names == ["x"] and not any("x" in graph.nodes[node] for node in nodes):
        return None
    rows: list[list[float]] = []
    for node in nodes:
        row: list[float] = []
        for name in names:
            value = graph.nodes[node].get(name)
            try:
                cells = np.asarray(_plain(value), dtype=np.float64).ravel()
            except (TypeError, ValueError, OverflowError):
                cells = np.array([math.nan])
            if value is None or not np.isfinite(cells).all():
                raise fault(
                    "nx-feature",
                    f"The attribute {name} of node {node!r} is {str(value)[:80]}, which is no finite number or list of them.",
                    f"节点 {node!r} 的属性 {name} 为 {str(value)[:80]}，不是有限数值或其列表。",
                )
            row.extend(cells)
        if rows and len(row) != len(rows[0]):
            raise fault(
                "nx-feature-width",
                f"Node {node!r} has {len(row):,} features, and node {nodes[0]!r} has {len(rows[0]):,}.",
                f"节点 {node!r} 有 {len(row)} 个特征，而节点 {nodes[0]!r} 有 {len(rows[0])} 个。",
            )
        rows.append(row)
    width = len(rows[0]) if rows else 0
    return torch.tensor(rows, dtype=torch.float32).reshape(len(nodes), width)


def _add_labels(data: Any, labels: list[Any], name: str) -> None:
    # Tensors, arrays and NumPy's numbers as Python's own, so that they are told apart in one way.
    plain = [_plain(label) for label in labels]
    first = next(label for label in plain if label is not None)
    if not isinstance(first, list | tuple):
        data.y, names = classes_of(plain, f"The labels in {name}")
        if names is not None:
            data.class_names = list(names)
        return
    width = len(first)
    rows = [[math.nan] * width if label is None else label for label in plain]
    for row, label in enumerate(rows):
        whole = isinstance(label, list | tuple) and len(label) == width
        if not whole or not all(isinstance(value, int | float) for value in label):
            raise fault(
                "nx-labels",
                f"The attribute {name} of node {row} in order is {str(label)[:80]}, which is no list of {width} numbers.",
                f"第 {row} 个节点的属性 {name} 为 {str(label)[:80]}，不是 {width} 个数的列表。",
            )
    data.y = torch.tensor([[float(value) for value in row] for row in rows]).reshape(len(rows), width)


def _add_masks(data: Any, graph: Any, nodes: list[Any]) -> None:
    words = [graph.nodes[node].get("split") for node in nodes]
    if any(word is not None for word in words):
        for mask, value in masks_of_words(words, "The split").items():
            data[mask] = value
        return
    for mask in MASKS:
        flags = [graph.nodes[node].get(mask) for node in nodes]
        if any(flag is not None for flag in flags):
            plain = [False if flag is None else _plain(flag) for flag in flags]
            data[mask] = mask_of_flags(plain, f"The {mask}")


def data_from_dgl(graph: Any, *, x: str | None, y: str | None, weight: str | None, faults: Faults) -> Any:
    """A PyG Data of a homogeneous DGLGraph: its edges in the order of their ids, ndata and edata under their names.

    x, y: the keys in ndata; feat (or x) and label (or y) where they are None. weight: the key in edata of the
    edges' weights, or None. Raises InvalidGraph for several types of nodes or edges, and for a block.
    Tested against a stand-in with DGL's face, for there is no build of DGL beside the torch that fasthop needs.
    """
    from torch_geometric.data import Data

    if len(graph.ntypes) != 1 or len(graph.canonical_etypes) != 1 or getattr(graph, "is_block", False):
        kinds = f"{', '.join(map(str, graph.ntypes))}; {', '.join('-'.join(map(str, e)) for e in graph.canonical_etypes)}"
        raise heterogeneous(f"This is a DGLGraph ({kinds})", f"这是 DGLGraph（{kinds}）")
    source, target = graph.edges(order="eid")
    data = Data(edge_index=torch.stack([source, target]), num_nodes=int(graph.num_nodes()))
    ndata, edata = dict(graph.ndata), dict(graph.edata)
    for name, key, known in (("x", x, DGL_X), ("y", y, DGL_Y)):
        found = key or next((k for k in known if k in ndata), None)
        if found is None:
            continue
        if found not in ndata:
            raise fault(
                "dgl-key",
                f"The graph's ndata has no {found!r}; it has {sorted(ndata)}.",
                f"图的 ndata 没有 {found!r}；其中有 {sorted(ndata)}。",
            )
        data[name] = ndata.pop(found)
    if weight is not None:
        if weight not in edata:
            raise fault(
                "dgl-key",
                f"The graph's edata has no {weight!r}; it has {sorted(edata)}.",
                f"图的 edata 没有 {weight!r}；其中有 {sorted(edata)}。",
            )
        data.edge_weight = edata.pop(weight)
    for key, value in {**edata, **ndata}.items():
        if is_attribute_name(key) and key not in data:
            data[key] = value
    return data
