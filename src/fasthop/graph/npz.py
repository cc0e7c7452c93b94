"""Graphs in .npz files: which arrays make one, in the layouts that benchmarks are published in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fasthop.graph.arrays import Archive, is_numeric, tensor_of
from fasthop.graph.both_directions import edges_without_reverse
from fasthop.graph.check import check_indices
from fasthop.graph.checks import MASKS
from fasthop.graph.class_words import classes_of
from fasthop.graph.compressed import bad_matrix, compressed, matrix_size
from fasthop.graph.edges import square
from fasthop.graph.fault import Faults, fault
from fasthop.graph.kinds import is_attribute_name
from fasthop.graph.matrices import edges_of_matrix, features_of_matrix

X_NAMES = ("x", "features", "feat", "node_features", "node_feat", "attr_matrix")
Y_NAMES = ("y", "labels", "label", "node_labels", "node_label")
WEIGHT_NAMES = ("edge_weight", "edge_weights")
MASK_NAMES = {
    "train_mask": ("train_mask", "train_masks", "train_idx"),
    "val_mask": ("val_mask", "val_masks", "valid_mask", "valid_masks", "val_idx", "valid_idx"),
    "test_mask": ("test_mask", "test_masks", "test_idx"),
}
# The names of a matrix in compressed rows: offsets, columns, values, size.
MATRICES = (
    ("adj_indptr", "adj_indices", "adj_data", "adj_shape"),
    ("adj_matrix.indptr", "adj_matrix.indices", "adj_matrix.data", "adj_matrix.shape"),
    ("indptr", "indices", "data", "shape"),
    ("rowptr", "col", "value", "shape"),
)
FEATURES = (
    ("attr_indptr", "attr_indices", "attr_data", "attr_shape"),
    ("attr_matrix.indptr", "attr_matrix.indices", "attr_matrix.data", "attr_matrix.shape"),
)


def data_from_npz(path: Path, faults: Faults) -> Any:
    """A PyG Data of the arrays in a file. Edges come as `edge_index` [2, E]; as `edges` [E, 2], one row for an
    undirected edge (the layout of the heterophilous benchmark, whose masks are [S, N]); or as an adjacency
    matrix in compressed rows, where the entry [i, j] is an edge i -> j.

    What else is there in numbers becomes an attribute under its name. Nothing is ever unpickled.
    Raises GraphNotFound without the file, InvalidGraph for damage and for other layouts.
    """
    from torch_geometric.data import Data

    archive = Archive(path)
    used: set[str] = set()
    data = Data()
    edges = _edges(archive, data, used, faults)
    if edges is not None:
        data.edge_index = edges
    with faults.part():
        x = _features(archive, used, faults)
        if x is not None:
            data.x = x
    with faults.part():
        name = _first(archive, Y_NAMES)
        if name is not None:
            used.add(name)
            _add_labels(data, archive.read(name), name)
    if "num_nodes" in archive.headers and "num_nodes" not in data._store:
        used.add("num_nodes")
        with faults.part():
            data["num_nodes"] = tensor_of(archive.read("num_nodes"), "num_nodes")
    _add_masks(archive, data, used, faults)
    _add_others(archive, data, used, faults)
    return data


def _first(archive: Archive, names: tuple[str, ...]) -> str | None:
    return next((name for name in names if name in archive.headers), None)


def _edges(archive: Archive, data: Any, used: set[str], faults: Faults) -> Tensor | None:
    names = archive.headers
    if "edge_index" in names:
        used.add("edge_index")
        with faults.part():
            _add_weight(archive, data, used)
            return tensor_of(archive.read("edge_index"), "edge_index")
        return None
    if "edges" in names:
        used.add("edges")
        with faults.part():
            return _undirected(archive, faults)
        return None
    for matrix in MATRICES:
        if matrix[0] in names and matrix[1] in names:
            used |= {name for name in (*matrix, "format") if name in names}
            with faults.part():
                return _matrix_edges(archive, matrix, data, faults)
            return None
    if "row" in names and "col" in names and "shape" in names:
        used |= {"row", "col", "shape", "data", "format"} & set(names)
        with faults.part():
            return _coo_edges(archive, data, faults)
        return None
    raise fault(
        "npz-layout",
        f"{archive.path} holds {sorted(names)[:12]}, and no edges among them.",
        f"{archive.path} 含 {sorted(names)[:12]}，其中没有边。",
        (
            "Edges are edge_index [2, E], edges [E, 2] (each undirected edge once), adj_indptr and adj_indices, "
            "indptr and indices, rowptr and col, or row, col and shape.",
            "边应为 edge_index [2, E]、edges [E, 2]（每条无向边一行）、adj_indptr 与 adj_indices、"
            "indptr 与 indices、rowptr 与 col，或 row、col 与 shape。",
        ),
    )


def _add_weight(archive: Archive, data: Any, used: set[str]) -> None:
    name = _first(archive, WEIGHT_NAMES)
    if name is not None:
        used.add(name)
        data.edge_weight = tensor_of(archive.read(name), name)


def _undirected(archive: Archive, faults: Faults) -> Tensor:
    edges = tensor_of(archive.read("edges"), "edges")
    if edges.dim() != 2 or edges.size(1) != 2 or edges.is_floating_point() or edges.dtype is torch.bool:
        size = list(edges.shape)
        raise fault(
            "edges-form",
            f"edges has dtype {edges.dtype} and shape {size}; it must be integers [E, 2], one edge a row.",
            f"edges 的 dtype 为 {edges.dtype}，形状为 {size}；应为整数 [E, 2]，每行一条边。",
        )
    name = _first(archive, (*X_NAMES, *Y_NAMES))
    shape = archive.headers[name][0] if name is not None else ()
    edge_index = edges.to(torch.int64).t().contiguous()
    if not shape:
        return edge_index
    check_indices(edges, shape[0], "edges")
    lone = edges_without_reverse(edge_index, shape[0])
    faults.note(
        "both-directions",
        f"edges holds each undirected edge once: both directions were made, {edge_index.size(1) + lone.numel():,} in all.",
        f"edges 中每条无向边只存一次：已补全两个方向，共 {edge_index.size(1) + lone.numel()} 条。",
    )
    return torch.cat([edge_index, edge_index[:, lone].flip(0)], dim=1)


def _matrix_edges(archive: Archive, names: tuple[str, ...], data: Any, faults: Faults) -> Tensor:
    return _of_matrix(compressed(archive, names, "adjacency"), data, faults)


def _coo_edges(archive: Archive, data: Any, faults: Faults) -> Tensor:
    import scipy.sparse

    row, col = (tensor_of(archive.read(name), name) for name in ("row", "col"))
    shape = matrix_size(archive.read("shape"), "shape", "adjacency")
    assert shape is not None
    square(*shape, "The adjacency")
    for name, part in (("row", row), ("col", col)):
        if part.dim() != 1 or part.is_floating_point() or part.shape != row.shape:
            raise bad_matrix(f"{name} has dtype {part.dtype} and shape {list(part.shape)}", "adjacency")
        check_indices(part, shape[0], name)
    values = archive.read("data") if "data" in archive.headers else np.ones(row.numel(), np.float32)
    if values.shape != tuple(row.shape) or not is_numeric(values.dtype):
        raise bad_matrix(f"data has dtype {values.dtype} and shape {list(values.shape)}", "adjacency")
    return _of_matrix(scipy.sparse.coo_array((values, (row.numpy(), col.numpy())), shape=shape), data, faults)


def _of_matrix(adj: Any, data: Any, faults: Faults) -> Tensor:
    edge_index, weight, num_nodes = edges_of_matrix(adj, "adj")
    data.num_nodes = num_nodes
    if weight is not None:
        data.edge_weight = weight
    lone = edges_without_reverse(edge_index, num_nodes).numel()
    if lone:
        faults.note(
            "rows-are-sources",
            f"The adjacency is not symmetric ({lone:,} entries lack their mirror): the entry [i, j] was read as an edge "
            "i -> j.",
            f"邻接矩阵不对称（{lone} 个元素缺少对称元素）：元素 [i, j] 按边 i -> j 读取。",
            (
                "Where rows are targets, save the transpose; where edges are undirected, give undirected=True.",
                "若行是目标节点，请保存其转置；若边是无向的，请设 undirected=True。",
            ),
        )
    return edge_index


def _features(archive: Archive, used: set[str], faults: Faults) -> Any:
    for names in FEATURES:
        if names[0] in archive.headers and names[1] in archive.headers:
            used |= set(names) & set(archive.headers)
            return features_of_matrix(compressed(archive, names, "features"), faults)
    name = _first(archive, X_NAMES)
    if name is None:
        return None
    used.add(name)
    return tensor_of(archive.read(name), name)


def _add_labels(data: Any, labels: np.ndarray, name: str) -> None:
    if labels.dtype.kind in "US" and labels.ndim == 1:
        words = [w.decode("utf-8", "replace") if isinstance(w, bytes) else w for w in labels.tolist()]
        data.y, names = classes_of(words, name)
        if names is not None:
            data.class_names = list(names)
        return
    data.y = tensor_of(labels, name)


def _add_masks(archive: Archive, data: Any, used: set[str], faults: Faults) -> None:
    sizes = [value.size(0) for value in (data.get("x"), data.get("y")) if value is not None and value.dim()]
    num_nodes = data._store.get("num_nodes")
    num_nodes = num_nodes if isinstance(num_nodes, int) else next(iter(sizes), None)
    for mask in MASKS:
        name = _first(archive, MASK_NAMES[mask])
        if name is None:
            continue
        used.add(name)
        with faults.part():
            value = tensor_of(archive.read(name), name)
            # Splits stand row by row in this layout, and column by column in PyG's.
            if name.endswith("_masks") and value.dim() == 2 and value.size(1) == num_nodes:
                value = value.t().contiguous()
            data[mask] = value


def _add_others(archive: Archive, data: Any, used: set[str], faults: Faults) -> None:
    """Keeps the other arrays of numbers, and the ids and names; says what could not be kept."""
    left = []
    for name, (shape, dtype) in archive.headers.items():
        if name in used:
            continue
        words = name in ("node_ids", "class_names") and dtype.kind == "U" and len(shape) == 1
        if not words and not (is_numeric(dtype) and is_attribute_name(name)):
            left.append(name)
            continue
        with faults.part():
            array = archive.read(name)
            data[name] = array.tolist() if words else tensor_of(array, name)
    if left:
        faults.note(
            "npz-left",
            f"Not read, for they hold no plain numbers: {', '.join(left[:8])}{' …' if len(left) > 8 else ''}.",
            f"以下数组不是普通数值，未读取：{'、'.join(left[:8])}{' …' if len(left) > 8 else ''}。",
        )
