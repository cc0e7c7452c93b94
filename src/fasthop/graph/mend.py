"""What may be mended in a user's tensors without a guess; every change leaves a note.

What would need a guess is refused with InvalidGraph, which names the value and the way out.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fasthop.graph import check
from fasthop.graph.fault import Faults, fault

# Above this many edges int32 indices stay int32: as int64 they would cost half a gigabyte more.
INT64_UP_TO = 1 << 26
# Floats above this are not all whole numbers: an index that went through float32 may be another one.
WHOLE_FLOATS = {
    torch.float16: 1 << 11,
    torch.bfloat16: 1 << 8,
    torch.float32: 1 << 24,
    torch.float64: 1 << 53,
}


def mended_edge_index(edge_index: Any, num_nodes: int, faults: Faults | None = None) -> Tensor:
    """[2, E], contiguous, int64 (int32 kept in huge graphs), checked."""
    faults = faults or Faults()
    edge_index = plain_tensor(edge_index, "edge_index")
    if edge_index.layout is not torch.strided:
        raise fault(
            "edge-index-sparse",
            "edge_index is a sparse tensor; give a sparse matrix of the edges as adj_t, its transpose, or edge_index dense.",
            "edge_index 是稀疏张量；稀疏的邻接矩阵请以转置形式作为 adj_t 给出，或给出稠密的 edge_index。",
        )
    if edge_index.dtype in (torch.int16, torch.int8, torch.uint8):
        edge_index = edge_index.to(torch.int64)
    if _holds_indices(edge_index):
        kind = check.dtype_name(edge_index)
        faults.mendable(
            "edge-index-dtype",
            f"edge_index has dtype {kind}; node indices must be int64 or int32 "
            f"(an empty one is torch.empty(2, 0, dtype=torch.int64)).",
            f"edge_index 的 dtype 为 {kind}；节点编号应为 int64 或 int32"
            "（空图可用 torch.empty(2, 0, dtype=torch.int64)）。",
        )
        edge_index = edge_index.to(torch.int64)
    size = tuple(edge_index.shape)
    if len(size) == 2 and size[1] == 2 and size[0] != 2:
        faults.mendable(
            "edge-index-by-rows",
            f"edge_index has shape {check.shape(edge_index)}; it must be [2, E], sources above targets.",
            f"edge_index 的形状为 {check.shape(edge_index)}；应为 [2, E]，第一行是源节点，第二行是目标节点。",
            ("One edge a row? Give edge_index.t().", "若每行一条边，请用 edge_index.t()。"),
        )
        edge_index = edge_index.t()
    check.check_edge_index(edge_index, num_nodes)
    if edge_index.dtype is torch.int32 and edge_index.size(1) <= INT64_UP_TO:
        edge_index = edge_index.to(torch.int64)
    return edge_index.contiguous()


def _holds_indices(edge_index: Tensor) -> bool:
    """Whether a float edge_index holds whole numbers that its dtype tells apart."""
    largest = WHOLE_FLOATS.get(edge_index.dtype)
    if largest is None or edge_index.layout is not torch.strided:
        return False
    return bool(((edge_index == edge_index.round()) & (edge_index.abs() < largest)).all())


def mended_weight(
    weight: Any, num_edges: int, name: str, dtype: torch.dtype | None, faults: Faults
) -> Tensor:
    """[E], floating; [E, 1] is squeezed, and another dtype cast, and both are said."""
    weight = plain_tensor(weight, name)
    if weight.dim() == 2 and weight.size(1) == 1 and weight.size(0) == num_edges:
        weight = weight.squeeze(1)
        faults.mended(
            "weight-column",
            f"{name} of shape [E, 1] was squeezed to [E].",
            f"{name} 的形状由 [E, 1] 压缩为 [E]。",
        )
    if tuple(weight.shape) != (num_edges,):
        size = check.shape(weight)
        raise fault(
            "weight-shape",
            f"{name} has shape {size}; a weight must be [{num_edges}] (or [{num_edges}, 1]), one number an edge.",
            f"{name} 的形状为 {size}；权重应为 [{num_edges}]（或 [{num_edges}, 1]），每条边一个数。",
        )
    if weight.layout is not torch.strided:
        weight = weight.to_dense()
    return _cast(weight, name, dtype, faults)


def mended_x(x: Any, dtype: torch.dtype | None, faults: Faults) -> Tensor | None:
    """[N, F], floating, dense, COO or CSR; another dtype is cast and said."""
    if x is None:
        faults.warn(
            "no-x",
            "The graph has no x: a model needs an embedding of the nodes (looked up by n_id) in its place.",
            "该图没有节点特征 x：模型需要改用按 n_id 查表的节点嵌入。",
        )
        return None
    if isinstance(x, tuple | list):
        kind = type(x).__name__
        raise fault(
            "bipartite-x",
            f"x is a {kind}, which means a bipartite graph; fasthop trains on one kind of node.",
            f"x 是 {kind}，即二部图；fasthop 只训练单一类型节点的图。",
        )
    if hasattr(x, "to_torch_sparse_csr_tensor"):
        x = x.to_torch_sparse_csr_tensor()
    x = plain_tensor(x, "x")
    if x.dim() == 1 and x.layout is torch.strided:
        faults.mendable(
            "x-flat",
            f"x has shape {check.shape(x)}; it must be [num_nodes, F].",
            f"x 的形状为 {check.shape(x)}；应为 [num_nodes, F]。",
            ("Give x.view(-1, 1) for one feature a node.", "若每个节点一个特征，请用 x.view(-1, 1)。"),
        )
        x = x.unsqueeze(1)
    if x.dim() != 2:
        raise fault(
            "x-shape",
            f"x has shape {check.shape(x)}; it must be [num_nodes, F].",
            f"x 的形状为 {check.shape(x)}；应为 [num_nodes, F]。",
        )
    if x.layout is torch.sparse_coo:
        x = x.coalesce() if x.dense_dim() == 0 else x.to_dense()
    elif x.layout not in (torch.strided, torch.sparse_csr):
        x = x.to_sparse_csr()
    if x.is_complex():
        raise fault(
            "x-complex",
            f"x has dtype {x.dtype}; features must be real, such as float32.",
            f"x 的 dtype 为 {x.dtype}；特征应为实数，例如 float32。",
        )
    return _cast(x, "x", dtype, faults)


def plain_tensor(value: Any, name: str) -> Tensor:
    """The value as a plain torch tensor: subclasses such as PyG's EdgeIndex are unwrapped."""
    if isinstance(value, Tensor):
        if value.is_quantized or value.is_nested or value.is_meta:
            kind = (
                ("quantized", "已量化")
                if value.is_quantized
                else ("nested", "嵌套张量")
                if value.is_nested
                else ("on the meta device", "在 meta 设备上")
            )
            raise fault(
                "tensor-kind",
                f"{name} is a tensor that is {kind[0]}; give a plain tensor.",
                f"{name} 是{kind[1]}的张量；请给出普通张量。",
            )
        return check.plain(value)
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        kind = type(value).__name__
        raise fault(
            "not-a-tensor",
            f"{name} is a {kind}; give a torch tensor.",
            f"{name} 的类型为 {kind}；请给出 torch 张量。",
        ) from None


def _cast(tensor: Tensor, name: str, dtype: torch.dtype | None, faults: Faults) -> Tensor:
    target = dtype or (tensor.dtype if tensor.is_floating_point() else torch.float32)
    if tensor.is_complex():
        raise fault(
            "complex",
            f"{name} has dtype {tensor.dtype}; it must be real, such as float32.",
            f"{name} 的 dtype 为 {tensor.dtype}；应为实数，例如 float32。",
        )
    if tensor.dtype is target:
        return tensor
    old, new = (str(d).removeprefix("torch.") for d in (tensor.dtype, target))
    faults.mended("cast", f"{name} was cast from {old} to {new}.", f"{name} 已由 {old} 转换为 {new}。")
    return tensor.to(target)
