"""SciPy's sparse matrices: as edges and as features."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from fasthop.graph.arrays import tensor_of
from fasthop.graph.edges import square
from fasthop.graph.fault import Faults, fault
from fasthop.graph.mend import plain_tensor

# Up to this size features come out dense, which every rung and layer takes; `sparse_features` finds them sparse again.
DENSE_UP_TO_BYTES = 1 << 30


def edges_of_matrix(adj: Any, name: str) -> tuple[Tensor, Tensor | None, int]:
    """The edges (i -> j for the entry [i, j], as PyG's from_scipy_sparse_matrix), their weights and the number of nodes.

    Entries that stand several times in a COO matrix are parallel edges. Weights that are all 1, and booleans,
    are none. Raises InvalidGraph where the matrix is not square.
    """
    if len(adj.shape) != 2:
        raise fault(
            "adj-shape",
            f"{name} has shape {list(adj.shape)}; it must be a matrix [N, N].",
            f"{name} 的形状为 {list(adj.shape)}；应为 [N, N] 的矩阵。",
        )
    num_nodes = square(int(adj.shape[0]), int(adj.shape[1]), name)
    coo = adj.tocoo()
    edge_index = torch.from_numpy(np.stack([coo.row, coo.col]).astype(np.int64))
    data = coo.data
    weight = None
    if data.dtype.kind != "b" and not bool((data == 1).all()):
        weight = tensor_of(data, f"the values of {name}")
    return edge_index, weight, num_nodes or 0


def features_of_matrix(x: Any, faults: Faults) -> Any:
    """A sparse matrix of features as a tensor: dense, or CSR where that would take more than 1 GiB."""
    rows, columns = x.shape
    csr = x.tocsr()
    if csr.dtype.kind not in "biuf":
        return tensor_of(csr.data, "x")  # refuses it in a sentence
    if rows * columns * 4 <= DENSE_UP_TO_BYTES:
        faults.note(
            "x-made-dense",
            f"The sparse x, [{rows}, {columns}] with {csr.nnz:,} values, was made dense.",
            f"稀疏的 x（[{rows}, {columns}]，{csr.nnz} 个值）已转换为稠密张量。",
        )
        return torch.from_numpy(np.ascontiguousarray(csr.astype(np.float32).toarray()))
    csr.sum_duplicates()
    return torch.sparse_csr_tensor(
        torch.from_numpy(csr.indptr.astype(np.int64)),
        torch.from_numpy(csr.indices.astype(np.int64)),
        torch.from_numpy(csr.data.astype(np.float32)),
        (rows, columns),
    )


def data_from_scipy(adj: Any, fields: dict[str, Any], faults: Faults) -> Any:
    """A Data of an adjacency matrix; fields: x (array, tensor or sparse matrix), y, masks and whatever else it has."""
    from torch_geometric.data import Data

    edge_index, weight, num_nodes = edges_of_matrix(adj, "adj")
    data = Data(edge_index=edge_index, num_nodes=num_nodes)
    if weight is not None:
        data.edge_weight = weight
    for name, value in fields.items():
        if value is None:
            continue
        if hasattr(value, "tocsr"):
            data[name] = features_of_matrix(value, faults)
        elif name == "node_ids":
            data[name] = value
        else:
            data[name] = (
                tensor_of(value, name) if isinstance(value, np.ndarray) else plain_tensor(value, name)
            )
    return data
