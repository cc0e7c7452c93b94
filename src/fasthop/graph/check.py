"""The checks that stand between a user's graph and any work on it.

Each names the value at fault, its place and what to do. Nothing is changed here: what may be
mended is mended in `mend`, which says so.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fasthop.graph.fault import fault

INDEX_DTYPES = (torch.int64, torch.int32)


def shape(tensor: Tensor) -> str:
    """The shape as a user writes it: [2, 5]."""
    return str(list(tensor.shape))


def dtype_name(tensor: Tensor) -> str:
    """The dtype as a user writes it: int64."""
    return str(tensor.dtype).removeprefix("torch.")


def plain(tensor: Tensor) -> Tensor:
    """The tensor without its subclass: PyG's EdgeIndex wraps one, most others are one."""
    if hasattr(tensor, "as_tensor"):
        return tensor.as_tensor()  # pyright: ignore[reportAttributeAccessIssue]
    return tensor if type(tensor) in (Tensor, torch.nn.Parameter) else tensor.as_subclass(Tensor)


def check_num_nodes(num_nodes: object) -> None:
    """Raises InvalidGraph unless num_nodes is an int of at least 0."""
    if not isinstance(num_nodes, int) or isinstance(num_nodes, bool) or num_nodes < 0:
        raise fault(
            "num-nodes",
            f"num_nodes is {num_nodes!r}; it must be the number of nodes, isolated ones counted in.",
            f"num_nodes 为 {num_nodes!r}；应为节点总数，孤立节点也计算在内。",
        )


def check_edge_index(edge_index: Tensor, num_nodes: int, name: str = "edge_index") -> None:
    """Raises InvalidGraph unless it is an int64 or int32 [2, E] with indices in 0 .. num_nodes - 1."""
    check_num_nodes(num_nodes)
    if not isinstance(edge_index, Tensor):
        kind = type(edge_index).__name__
        raise fault(
            "edge-index-kind",
            f"{name} is a {kind}; give an int64 tensor of shape [2, E].",
            f"{name} 的类型为 {kind}；应为形状 [2, E] 的 int64 张量。",
        )
    if edge_index.dtype not in INDEX_DTYPES:
        raise fault(
            "edge-index-dtype",
            f"{name} has dtype {dtype_name(edge_index)}; node indices must be int64 or int32 "
            f"(an empty one is torch.empty(2, 0, dtype=torch.int64)).",
            f"{name} 的 dtype 为 {dtype_name(edge_index)}；节点编号应为 int64 或 int32"
            "（空图可用 torch.empty(2, 0, dtype=torch.int64)）。",
        )
    if edge_index.dim() != 2 or edge_index.size(0) != 2:
        one_a_row = edge_index.dim() == 2 and edge_index.size(1) == 2
        raise fault(
            "edge-index-shape",
            f"{name} has shape {shape(edge_index)}; it must be [2, E], sources above targets.",
            f"{name} 的形状为 {shape(edge_index)}；应为 [2, E]，第一行是源节点，第二行是目标节点。",
            (f"One edge a row? Give {name}.t().", f"若每行一条边，请用 {name}.t()。") if one_a_row else None,
        )
    check_indices(edge_index, num_nodes, name)


def check_indices(index: Tensor, num_nodes: int, name: str) -> None:
    """Raises InvalidGraph with the first index outside 0 .. num_nodes - 1 and its place."""
    if index.numel() == 0:
        return
    low, high = (int(end) for end in torch.aminmax(index))
    if low >= 0 and high < num_nodes:
        return
    wrong = (index < 0) | (index >= num_nodes)
    place = torch.nonzero(wrong)[0]
    value, count = int(index[tuple(place)]), int(wrong.sum())
    why = (
        ("is negative", "为负数")
        if value < 0
        else (
            f"is out of range for {num_nodes:,} nodes",
            f"超出了 {num_nodes} 个节点的范围",
        )
    )
    at = f"{name}[{', '.join(str(int(i)) for i in place)}]"
    raise fault(
        "index-out-of-range",
        f"{at} is {value}, which {why[0]}; indices run from 0 to num_nodes - 1 ({count:,} wrong in all).",
        f"{at} 为 {value}，{why[1]}；编号应在 0 到 num_nodes - 1 之间（共 {count} 处错误）。",
    )


def check_x(x: Tensor | None, num_nodes: int) -> None:
    """Raises InvalidGraph unless x is None or a finite floating [num_nodes, F], dense, COO or CSR."""
    if x is None:
        return
    if x.dim() != 2 or x.size(0) != num_nodes:
        raise fault(
            "x-shape",
            f"x has shape {shape(x)}; it must be [num_nodes, F] with {num_nodes:,} nodes.",
            f"x 的形状为 {shape(x)}；应为 [num_nodes, F]，共 {num_nodes} 个节点。",
        )
    if not x.is_floating_point():
        raise fault(
            "x-dtype",
            f"x has dtype {dtype_name(x)}; features must be floating point, such as float32.",
            f"x 的 dtype 为 {dtype_name(x)}；特征应为浮点数，例如 float32。",
        )
    check_finite(values_of(x), "x" if x.layout is torch.strided else "the values of the sparse x")


def values_of(x: Tensor) -> Tensor:
    """The stored values of a dense or sparse tensor."""
    if x.layout is torch.strided:
        return x.detach()
    # _values, because values() refuses a COO tensor that is not coalesced.
    return x.detach()._values() if x.layout is torch.sparse_coo else x.detach().values()


def check_finite(tensor: Tensor, name: str) -> None:
    """Raises InvalidGraph with the first NaN or infinity and its place."""
    if tensor.numel() == 0 or not tensor.is_floating_point():
        return
    # aminmax hands NaN on, and costs no mask as large as the tensor; x may be gigabytes.
    low, high = torch.aminmax(tensor)
    if torch.isfinite(low) and torch.isfinite(high):
        return
    wrong = ~torch.isfinite(tensor)
    place = torch.nonzero(wrong)[0]
    value, count = float(tensor[tuple(place)]), int(wrong.sum())
    at = f"{name}[{', '.join(str(int(i)) for i in place)}]"
    raise fault(
        "not-finite",
        f"{at} is {value}, which is not a finite number ({count:,} such in all); repair or drop these first.",
        f"{at} 为 {value}，不是有限数（共 {count} 处）；请先修复或删除。",
    )


def check_edge_weight(edge_weight: Tensor | None, num_edges: int) -> None:
    """Raises InvalidGraph unless edge_weight is None or a finite floating [num_edges]."""
    if edge_weight is None:
        return
    if tuple(edge_weight.shape) != (num_edges,):
        raise fault(
            "weight-shape",
            f"edge_weight has shape {shape(edge_weight)}; it must be [{num_edges}], one weight an edge.",
            f"edge_weight 的形状为 {shape(edge_weight)}；应为 [{num_edges}]，每条边一个权重。",
        )
    if not edge_weight.is_floating_point():
        raise fault(
            "weight-dtype",
            f"edge_weight has dtype {dtype_name(edge_weight)}; weights must be floating point.",
            f"edge_weight 的 dtype 为 {dtype_name(edge_weight)}；权重应为浮点数。",
        )
    check_finite(edge_weight.detach(), "edge_weight")


def check_mask(mask: Tensor, num_nodes: int, name: str) -> None:
    """Raises InvalidGraph unless it is a bool [num_nodes]."""
    if mask.dtype is not torch.bool or tuple(mask.shape) != (num_nodes,):
        raise fault(
            "mask-form",
            f"{name} has dtype {dtype_name(mask)} and shape {shape(mask)}; it must be bool and [{num_nodes}].",
            f"{name} 的 dtype 为 {dtype_name(mask)}，形状为 {shape(mask)}；应为 bool，形状 [{num_nodes}]。",
        )


def check_train_mask(train_mask: Tensor) -> None:
    """Raises InvalidGraph where no node is left to train on."""
    if not bool(train_mask.any()):
        raise fault(
            "train-mask-empty",
            "train_mask selects no node, so there is nothing to train on; set at least one entry to True.",
            "train_mask 没有选中任何节点，无法训练；请至少将一项设为 True。",
        )


def check_one_device(**tensors: Tensor | None) -> None:
    """Raises InvalidGraph where the tensors lie on more than one device."""
    places = {name: str(tensor.device) for name, tensor in tensors.items() if tensor is not None}
    if len(set(places.values())) > 1:
        listed = ", ".join(f"{name} on {place}" for name, place in places.items())
        listed_zh = "、".join(f"{name} 在 {place}" for name, place in places.items())
        raise fault(
            "devices",
            f"The graph's tensors lie on different devices ({listed}); move them to one.",
            f"图的张量位于不同设备（{listed_zh}）；请移到同一设备。",
        )


def check_node_ids(node_ids: object, num_nodes: int) -> None:
    """Raises InvalidGraph unless node_ids is None or a NumPy array [num_nodes] of distinct str or int64."""
    import numpy as np

    if node_ids is None:
        return
    if not isinstance(node_ids, np.ndarray) or not (node_ids.dtype.kind == "U" or node_ids.dtype == np.int64):
        kind = getattr(node_ids, "dtype", type(node_ids).__name__)
        raise fault(
            "node-ids-kind",
            f"node_ids is {kind}; it must be a NumPy array of str or int64.",
            f"node_ids 的类型为 {kind}；应为 str 或 int64 的 NumPy 数组。",
        )
    if node_ids.shape != (num_nodes,):
        size = list(node_ids.shape)
        raise fault(
            "node-ids-shape",
            f"node_ids has shape {size}; it must be [{num_nodes}], one id a node.",
            f"node_ids 的形状为 {size}；应为 [{num_nodes}]，每个节点一个编号。",
        )
    values, first, counts = np.unique(node_ids, return_index=True, return_counts=True)
    if values.size != num_nodes:
        at, several = int(first[counts > 1].min()), int((counts > 1).sum())
        value = node_ids[at].item()
        raise fault(
            "node-ids-doubled",
            f"node_ids[{at}] is {value!r}, which other nodes have too ({several:,} such ids in all); ids must be distinct.",
            f"node_ids[{at}] 为 {value!r}，与其他节点重复（共 {several} 个重复的编号）；编号必须互不相同。",
        )
