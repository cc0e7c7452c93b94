"""From PyG's Data to a Graph: the one place that knows in how many forms a graph may come."""

from __future__ import annotations

import contextlib
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from fasthop.errors import InvalidGraph
from fasthop.graph.check import check_num_nodes
from fasthop.graph.graph import MASKS, Graph
from fasthop.graph.mend import (
    mended_edge_index,
    mended_labels,
    mended_mask,
    mended_weight,
    mended_x,
    plain_tensor,
)
from fasthop.graph.note import Note, note
from fasthop.graph.split import Masks, drawn_split

if TYPE_CHECKING:
    from torch_geometric.data import Data, Dataset


# Labels that are ids of something would make a model as wide as the largest id, and run out of memory.
MOST_CLASSES_OF_A_SMALL_GRAPH = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class Edges:
    """The edges of a Data as they came: unchecked, with the matrix's size where a matrix came."""

    edge_index: Any
    values: Tensor | None = None
    num_nodes: int | None = None


def graph_from_data(
    data: Data | Dataset,
    *,
    split: int | str | None,
    seed: int,
    name: str,
    num_classes: int | None,
    weight_from: str,
    dtype: torch.dtype | None,
) -> Graph:
    """`Graph.from_data`, which says what each argument means."""
    one, known_classes = single_graph(data)
    notes: list[Note] = []
    edges = edges_of(one)
    num_nodes = num_nodes_of(one, edges)
    edge_index = mended_edge_index(edges.edge_index, num_nodes)
    edge_weight = _weight(one, edges, edge_index.size(1), weight_from, dtype, notes)
    x = mended_x(one.get("x"), dtype, notes)
    y = mended_labels(one.get("y"), num_nodes, notes)
    if y.dim() == 0 or y.size(0) != num_nodes:
        raise InvalidGraph(f"y has shape {list(y.shape)}; it must be [{num_nodes}], a class a node.")
    classes = _num_classes(y, num_classes or known_classes, notes)
    masks = _masks(one, y, classes, split, seed, notes)
    _say_overlaps(masks, notes)
    node_ids = _node_ids(one.get("node_ids"), num_nodes)
    used = {"x", "y", "edge_index", "adj_t", "num_nodes", "batch", "ptr", *MASKS}
    if node_ids is not None:
        used.add("node_ids")
    if edge_weight is not None and edges.values is None:
        used.add(weight_from)
    return Graph(
        x=x,
        edge_index=edge_index,
        edge_weight=edge_weight,
        y=y,
        train_mask=masks[0],
        val_mask=masks[1],
        test_mask=masks[2],
        num_nodes=num_nodes,
        num_classes=classes,
        name=name,
        notes=tuple(notes),
        extras={key: one[key] for key in one.keys() if key not in used},  # noqa: SIM118
        node_ids=node_ids,
    )


def _node_ids(value: Any, num_nodes: int) -> np.ndarray | None:
    """The ids of the nodes, where `data.node_ids` is one str or integer for each; anything else stays an extra."""
    if isinstance(value, Tensor) and value.dim() == 1 and not value.is_floating_point():
        value = value.cpu().numpy()
    if not isinstance(value, np.ndarray | list | tuple) or len(value) != num_nodes:
        return None
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "Uiu" or value.ndim != 1:
            return None
    elif not (all(type(v) is str for v in value) or all(type(v) is int and abs(v) < 2**63 for v in value)):
        return None
    ids = np.asarray(value)
    return ids if ids.dtype.kind == "U" else ids.astype(np.int64)


def single_graph(data: Any) -> tuple[Data, int | None]:
    """The one homogeneous graph that was given, and its number of classes where a dataset knows it.

    Raises InvalidGraph, by name, for what fasthop does not train on.
    """
    from torch_geometric.data import Batch, Data, Dataset, HeteroData

    classes = None
    if isinstance(data, Dataset):
        if len(data) != 1:
            raise InvalidGraph(
                f"The dataset {data} holds {len(data):,} graphs; fasthop trains on one graph. Give "
                f"dataset[i]."
            )
        classes, data = int(data.num_classes), data[0]
    if isinstance(data, HeteroData):
        raise InvalidGraph(
            "This is a HeteroData, with several kinds of nodes or edges; fasthop trains on one kind. "
            "data.to_homogeneous() may help."
        )
    if isinstance(data, list | tuple):
        raise InvalidGraph(
            f"This is a {type(data).__name__} of {len(data):,} graphs; fasthop trains on one graph. Give "
            f"one of them."
        )
    if isinstance(data, Batch) and data.num_graphs != 1:
        raise InvalidGraph(
            f"This is a Batch of {data.num_graphs:,} graphs; fasthop trains on one graph. Give one of them."
        )
    if not isinstance(data, Data):
        raise InvalidGraph(f"This is a {type(data).__name__}; give a torch_geometric.data.Data.")
    for key in ("edge_label_index", "neg_edge_label_index"):
        if key in data:
            raise InvalidGraph(
                f"The data has {key}, which means link prediction; fasthop trains node classification only. "
                f"Delete it (del data.{key}) to train on the nodes."
            )
    for key in ("x_s", "x_t", "hyperedge_index"):
        if key in data:
            kind = "a hypergraph" if key == "hyperedge_index" else "a bipartite graph"
            raise InvalidGraph(
                f"The data has {key}, which means {kind}; fasthop trains on plain graphs only."
            )
    return data, classes


def edges_of(data: Data) -> Edges:
    """The edges from `edge_index` (a tensor or PyG's EdgeIndex), else from `adj_t` (torch.sparse or
    SparseTensor; row = target). Raises InvalidGraph where neither is there or a matrix is not square."""
    edge_index, adj_t = data.get("edge_index"), data.get("adj_t")
    if edge_index is not None:
        if not hasattr(edge_index, "sparse_size"):
            return Edges(edge_index=edge_index)
        rows, columns = edge_index.sparse_size()
        return Edges(edge_index=edge_index, num_nodes=_square(rows, columns, "edge_index"))
    if adj_t is None:
        raise InvalidGraph(
            "The data has neither edge_index nor adj_t; a graph without edges has an empty one."
        )
    if hasattr(adj_t, "coo") and hasattr(adj_t, "sparse_sizes"):
        target, source, values = adj_t.coo()
        size = adj_t.sparse_sizes()
    else:
        adj_t = plain_tensor(adj_t, "adj_t")
        if adj_t.layout is torch.strided:
            raise InvalidGraph("adj_t is a dense matrix; give it as adj_t.to_sparse_csr().")
        target, source, values = _coo(adj_t)
        size = tuple(adj_t.shape)
    num_nodes = _square(size[0], size[1], "adj_t")
    # PyG writes ones where there was no weight; as weights they change nothing but cost memory.
    if values is not None and values.dim() == 1 and not values.requires_grad and bool((values == 1).all()):
        values = None
    return Edges(edge_index=torch.stack([source, target]), values=values, num_nodes=num_nodes)


def num_nodes_of(data: Data, edges: Edges | None = None) -> int:
    """The number of nodes that the data states, never one guessed from the largest index: that would
    lose isolated nodes. Raises InvalidGraph where nothing states it."""
    if data.get("num_nodes") is not None:
        value = data["num_nodes"]
        with contextlib.suppress(TypeError):  # whole numbers in a tensor or array of one are taken too
            value = value if isinstance(value, bool) else operator.index(value)
        check_num_nodes(value)
        return value
    x = data.get("x")
    if x is not None and hasattr(x, "size"):
        return int(x.size(0))
    edges = edges or edges_of(data)
    if edges.num_nodes is not None:
        return edges.num_nodes
    for key in ("pos", "y", *MASKS):
        value = data.get(key)
        counts_nodes = isinstance(value, Tensor) and value.dim() > 0 and (key == "pos" or value.numel() > 1)
        if counts_nodes and (key not in MASKS or value.dtype is torch.bool):
            return int(value.size(0))
    raise InvalidGraph(
        "The number of nodes is not known: the data has no num_nodes, x or y. Set data.num_nodes; the "
        "largest index "
        "in edge_index would leave out isolated nodes."
    )


def _square(rows: int | None, columns: int | None, name: str) -> int | None:
    if rows is not None and columns is not None and rows != columns:
        raise InvalidGraph(
            f"{name} is a {rows} x {columns} matrix, which means a bipartite graph; fasthop trains on one "
            f"kind of node."
        )
    return rows if rows is not None else columns


def _coo(adj_t: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    if adj_t.layout is torch.sparse_csr:
        crow, col = adj_t.crow_indices().long(), adj_t.col_indices().long()
        row = torch.repeat_interleave(torch.arange(adj_t.size(0), device=crow.device), crow.diff())
        return row, col, adj_t.values()
    if adj_t.layout is torch.sparse_csc:
        ccol, row = adj_t.ccol_indices().long(), adj_t.row_indices().long()
        col = torch.repeat_interleave(torch.arange(adj_t.size(1), device=ccol.device), ccol.diff())
        return row, col, adj_t.values()
    if adj_t.layout is not torch.sparse_coo:
        raise InvalidGraph(f"adj_t has layout {adj_t.layout}; give it as CSR, CSC or COO.")
    # Not coalesced on purpose: that would add parallel edges up.
    row, col = adj_t._indices()
    return row, col, adj_t._values()


def _weight(
    data: Data, edges: Edges, num_edges: int, weight_from: str, dtype: torch.dtype | None, notes: list[Note]
) -> Tensor | None:
    if edges.values is not None:
        return mended_weight(edges.values, num_edges, "the values of adj_t", dtype, notes)
    weight = data.get(weight_from)
    if weight is None:
        if weight_from != "edge_weight":
            raise InvalidGraph(f"The data has no {weight_from} to take weights from.")
        if data.get("edge_attr") is not None:
            notes.append(
                note(
                    "edge_attr was kept, but is not used as the edges' weights; weight_from='edge_attr' "
                    "would do that.",
                    "edge_attr 已保留，但不作为边权使用；如需用作边权，请设 weight_from='edge_attr'。",
                )
            )
        return None
    return mended_weight(weight, num_edges, weight_from, dtype, notes)


def _num_classes(y: Tensor, known: int | None, notes: list[Note]) -> int:
    if y.dim() == 2:
        if known not in (None, y.size(1)):
            raise InvalidGraph(
                f"num_classes is {known}, and y has shape {list(y.shape)}: multi-label y has a column for each label."
            )
        return y.size(1)
    classes = known or (int(y.max()) + 1 if y.numel() else 0)
    if classes < 1:
        raise InvalidGraph("No node has a label: every y is negative.")
    if known is None and classes > max(y.numel(), MOST_CLASSES_OF_A_SMALL_GRAPH):
        raise InvalidGraph(
            f"The largest label is {classes - 1:,} in a graph of {y.numel():,} nodes; labels count from 0 to C - 1. "
            "Number them anew with y.unique(return_inverse=True)[1], or give num_classes if there are so many."
        )
    valid = y[(y >= 0) & (y < classes)]
    if valid.numel() and bool((valid == valid[0]).all()):
        notes.append(
            note(
                "All labelled nodes are of one class: accuracy means nothing here.",
                "所有带标签的节点都属于同一类：此处的准确率没有意义。",
            )
        )
    return classes


def _masks(
    data: Data, y: Tensor, num_classes: int, split: int | str | None, seed: int, notes: list[Note]
) -> Masks:
    if isinstance(split, str):
        masks, said = drawn_split(split, y, num_classes, seed)
        notes.append(said)
        return masks
    given = {name: data.get(name) for name in MASKS}
    if given["train_mask"] is None:
        raise InvalidGraph(
            'The data has no train_mask; set one, or draw a split: split="random" (20 nodes a class, 500, '
            "1,000) or "
            'percentages such as split="60/20/20".'
        )
    several = [mask for mask in given.values() if getattr(mask, "ndim", 1) == 2 and mask.shape[1] > 1]
    if split is not None and not several:
        raise InvalidGraph(f"split is {split}, but the masks hold one split only; leave split out.")
    masks = []
    for name, mask in given.items():
        if mask is None:
            masks.append(torch.zeros_like(masks[0]))
            what = {"val_mask": ("validation", "验证"), "test_mask": ("test", "测试")}[name]
            notes.append(
                note(
                    f"The data has no {name}, so {what[0]} accuracy is not measured.",
                    f"数据没有 {name}，因此不测量{what[1]}准确率。",
                )
            )
        else:
            masks.append(mended_mask(mask, y.size(0), name, split, notes))
    return masks[0], masks[1], masks[2]


def _say_overlaps(masks: Masks, notes: list[Note]) -> None:
    for first, second in ((0, 1), (0, 2), (1, 2)):
        shared = int((masks[first] & masks[second]).sum())
        if shared:
            names = f"{MASKS[first]}", f"{MASKS[second]}"
            notes.append(
                note(
                    f"{names[0]} and {names[1]} share {shared:,} nodes, so the accuracy there is flattered.",
                    f"{names[0]} 与 {names[1]} 有 {shared} 个节点重叠，其准确率会偏高。",
                )
            )
