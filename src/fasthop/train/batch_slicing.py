"""The attributes of a batch: every node and edge attribute of the data, cut down to the sampled ones."""

from __future__ import annotations

import copy
import dataclasses
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fasthop.kernels.buffers import BufferPool
from fasthop.kernels.gather.dispatch import gather
from fasthop.kernels.sample.subgraph import SampledSubgraph


def sliced(data: Any, subgraph: SampledSubgraph, *, num_nodes: int, num_edges: int, pool: BufferPool) -> Any:
    """A shallow copy of a PyG `Data` that holds the subgraph: edge_index (or adj_t) renumbered, what has one
    entry a node or an edge cut down to n_id or e_id, all else as it is.

    Which attribute is which follows PyG: by its length along `data.__cat_dim__`; where the graph has as
    many nodes as edges, what has "edge" in its name is the edges'.
    """
    if isinstance(data.get("adj_t"), Tensor):
        subgraph = _in_csr_order(subgraph)
    out = copy.copy(data)
    for key, value in list(data._store.items()):
        if key == "num_nodes":
            out.num_nodes = subgraph.n_id.numel()
        elif key == "edge_index":
            out.edge_index = subgraph.edge_index.to(value.device)
        elif key == "adj_t":
            out.adj_t = _adj_t(value, subgraph)
        else:
            dim = _dim(data, key, value)
            if dim is None:
                continue
            length = len(value) if not hasattr(value, "shape") else value.shape[dim]
            if length not in (num_nodes, num_edges):
                continue
            of_edges = length == num_edges and (num_nodes != num_edges or "edge" in key)
            index = subgraph.e_id if of_edges else subgraph.n_id
            out[key] = _selected(value, index, dim, pool, key)
    if "n_id" not in data:
        out.n_id = subgraph.n_id
    if "e_id" not in data:
        out.e_id = subgraph.e_id
    out.num_sampled_nodes = list(subgraph.num_sampled_nodes)
    out.num_sampled_edges = list(subgraph.num_sampled_edges)
    return out


def _dim(data: Any, key: str, value: Any) -> int | None:
    """Along which dimension an attribute may have one entry a node or an edge; None where it cannot have."""
    if isinstance(value, (Tensor, np.ndarray)):
        dim = data.__cat_dim__(key, value)
        return dim if value.ndim > 0 and isinstance(dim, int) else None
    # A TensorFrame is told by its columns, so that the package need not be there.
    return 0 if isinstance(value, (list, tuple)) or hasattr(value, "num_cols") else None


def _selected(value: Any, index: Tensor, dim: int, pool: BufferPool, key: str) -> Any:
    if isinstance(value, Tensor):
        if value.layout is torch.sparse_csr and dim == 0:
            return _csr_rows(value, index)
        return gather(value, index, dim=dim, pool=pool, name=key)
    if isinstance(value, np.ndarray):
        return torch.from_numpy(np.take(value, index.numpy(), axis=dim))
    if isinstance(value, (list, tuple)):
        return type(value)([value[i] for i in index.tolist()])
    return value[index]


def _csr_rows(x: Tensor, index: Tensor) -> Tensor:
    """Rows of a sparse CSR matrix, which torch's index_select does not know."""
    index = index.to(x.device)
    rowptr = x.crow_indices()
    count = rowptr.diff()[index]
    new_rowptr = torch.zeros(index.numel() + 1, dtype=rowptr.dtype, device=x.device)
    torch.cumsum(count, 0, out=new_rowptr[1:])
    place = torch.arange(int(new_rowptr[-1]), device=x.device)
    place += torch.repeat_interleave(rowptr[:-1][index] - new_rowptr[:-1], count)
    size = (index.numel(), *x.shape[1:])
    return _sparse_csr(new_rowptr, x.col_indices()[place], x.values()[place], size)


def _sparse_csr(rowptr: Tensor, col: Tensor, values: Tensor, size: tuple[int, ...]) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(rowptr, col, values, size=size)


def _in_csr_order(subgraph: SampledSubgraph) -> SampledSubgraph:
    """The same edges, ascending by source within each target, as a CSR tensor must have them."""
    source, target = subgraph.edge_index
    order = torch.argsort(target * subgraph.n_id.numel() + source, stable=True)
    return dataclasses.replace(
        subgraph, edge_index=subgraph.edge_index[:, order].contiguous(), e_id=subgraph.e_id[order]
    )


def _adj_t(adj_t: Any, subgraph: SampledSubgraph) -> Any:
    """The subgraph in the form of adj_t: a torch CSR tensor, or torch-sparse's SparseTensor."""
    n = subgraph.n_id.numel()
    source, target = subgraph.edge_index
    if isinstance(adj_t, Tensor):
        values = adj_t.values()[subgraph.e_id.to(adj_t.device)]
        return _sparse_csr(subgraph.rowptr.to(adj_t.device), source.to(adj_t.device), values, (n, n))
    value = adj_t.storage.value()
    if value is not None:
        value = value[subgraph.e_id.to(value.device)]
    device = adj_t.device()
    return type(adj_t)(
        row=target.to(device),
        col=source.to(device),
        value=value,
        sparse_sizes=(n, n),
        is_sorted=False,
        trust_data=True,
    )
