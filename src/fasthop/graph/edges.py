"""Edges: in how many forms they may come, and how many nodes they stand between."""

from __future__ import annotations

import contextlib
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from fasthop.graph.check import check_num_nodes
from fasthop.graph.checks import MASKS
from fasthop.graph.fault import Faults, fault
from fasthop.graph.mend import plain_tensor

if TYPE_CHECKING:
    from torch_geometric.data import Data


@dataclass(frozen=True, kw_only=True, slots=True)
class Edges:
    """The edges of a Data as they came: unchecked, with the matrix's size where a matrix came."""

    edge_index: Any
    values: Tensor | None = None
    num_nodes: int | None = None


def edges_of(data: Data, faults: Faults | None = None) -> Edges:
    """The edges from `edge_index` (a tensor or PyG's EdgeIndex), else from `adj_t` (torch.sparse or
    SparseTensor; row = target). Raises InvalidGraph where neither is there or a matrix is not square."""
    edge_index, adj_t = data.get("edge_index"), data.get("adj_t")
    if edge_index is not None:
        if not hasattr(edge_index, "sparse_size"):
            return Edges(edge_index=edge_index)
        rows, columns = edge_index.sparse_size()
        return Edges(edge_index=edge_index, num_nodes=square(rows, columns, "edge_index"))
    if adj_t is None:
        raise fault(
            "no-edges",
            "The data has neither edge_index nor adj_t; a graph without edges has an empty one.",
            "数据既没有 edge_index 也没有 adj_t；没有边的图应有一个空的 edge_index。",
        )
    if hasattr(adj_t, "coo") and hasattr(adj_t, "sparse_sizes"):
        target, source, values = adj_t.coo()
        size = adj_t.sparse_sizes()
    else:
        adj_t = plain_tensor(adj_t, "adj_t")
        if adj_t.layout is torch.strided:
            (faults or Faults()).mendable(
                "adj-dense",
                "adj_t is a dense matrix; give it as adj_t.to_sparse_csr().",
                "adj_t 是稠密矩阵；请改为 adj_t.to_sparse_csr()。",
            )
            if adj_t.dim() != 2:
                raise _not_a_matrix(adj_t)
            adj_t = adj_t.to_sparse_coo()
        if adj_t.dim() != 2 or adj_t.sparse_dim() + adj_t.dense_dim() != 2 or adj_t.dense_dim():
            raise _not_a_matrix(adj_t)
        target, source, values = _coo(adj_t)
        size = tuple(adj_t.shape)
    num_nodes = square(size[0], size[1], "adj_t")
    # PyG writes ones where there was no weight; as weights they change nothing but cost memory.
    if values is not None and values.dim() == 1 and not values.requires_grad and bool((values == 1).all()):
        values = None
    return Edges(edge_index=torch.stack([source, target]), values=values, num_nodes=num_nodes)


def _not_a_matrix(adj_t: Tensor) -> Exception:
    size = list(adj_t.shape)
    return fault(
        "adj-shape",
        f"adj_t has shape {size}; it must be a matrix [N, N] of numbers.",
        f"adj_t 的形状为 {size}；应为 [N, N] 的数值矩阵。",
    )


def num_nodes_of(data: Data, edges: Edges | None = None) -> int:
    """The number of nodes that the data states, by num_nodes, x, a matrix, pos, y or a bool mask.

    Raises InvalidGraph where it states none: PyG's guess from the largest index loses isolated nodes.
    """
    value: Any = data._store._mapping.get("num_nodes")
    if value is not None:
        if isinstance(value, Tensor) and value.numel() == 1:
            value = value.item()
        with contextlib.suppress(TypeError):  # NumPy's integers and the like; what is none is named below
            value = value if isinstance(value, bool) else operator.index(value)
        check_num_nodes(value)
        return int(value)
    x: Any = data.get("x")
    if hasattr(x, "dim") and x.dim() > 0:  # a tensor, or torch_sparse's SparseTensor
        return int(x.size(0))
    edges = edges or edges_of(data)
    if edges.num_nodes is not None:
        return edges.num_nodes
    for key in ("pos", "y", *MASKS):
        value = data.get(key)
        counts_nodes = isinstance(value, Tensor) and value.dim() > 0 and (key == "pos" or value.numel() > 1)
        if counts_nodes and (key not in MASKS or value.dtype is torch.bool):
            return int(value.size(0))
    raise fault(
        "num-nodes-unknown",
        "The number of nodes is not known: the data has no num_nodes, x or y.",
        "节点总数未知：数据没有 num_nodes、x 或 y。",
        (
            "Set data.num_nodes; the largest index in edge_index would leave out isolated nodes.",
            "请设置 data.num_nodes；按 edge_index 的最大编号推断会漏掉孤立节点。",
        ),
    )


def square(rows: int | None, columns: int | None, name: str) -> int | None:
    """The side of a square matrix. Raises InvalidGraph for another: its rows and columns are unlike nodes."""
    if rows is not None and columns is not None and rows != columns:
        raise fault(
            "bipartite",
            f"{name} is a {rows} x {columns} matrix, which means a bipartite graph; fasthop trains on one "
            f"kind of node.",
            f"{name} 是 {rows} x {columns} 的矩阵，即二部图；fasthop 只训练单一类型节点的图。",
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
        raise fault(
            "adj-layout",
            f"adj_t has layout {adj_t.layout}; give it as CSR, CSC or COO.",
            f"adj_t 的布局为 {adj_t.layout}；请用 CSR、CSC 或 COO。",
        )
    # Not coalesced on purpose: that would add parallel edges up.
    row, col = adj_t._indices()
    return row, col, adj_t._values()
