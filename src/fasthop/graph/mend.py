"""What may be mended in a user's tensors without a guess; every change leaves a note.

What would need a guess is refused with InvalidGraph, which names the value and the way out.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fasthop.errors import InvalidGraph
from fasthop.graph import check
from fasthop.graph.note import Note, note

# Above this many edges int32 indices stay int32: as int64 they would cost half a gigabyte more.
INT64_UP_TO = 1 << 26


def mended_edge_index(edge_index: Any, num_nodes: int) -> Tensor:
    """[2, E], contiguous, int64 (int32 kept in huge graphs), checked."""
    edge_index = plain_tensor(edge_index, "edge_index")
    if edge_index.dtype in (torch.int16, torch.int8, torch.uint8):
        edge_index = edge_index.to(torch.int64)
    check.check_edge_index(edge_index, num_nodes)
    if edge_index.dtype is torch.int32 and edge_index.size(1) <= INT64_UP_TO:
        edge_index = edge_index.to(torch.int64)
    return edge_index.contiguous()


def mended_weight(
    weight: Any, num_edges: int, name: str, dtype: torch.dtype | None, notes: list[Note]
) -> Tensor:
    """[E], floating; [E, 1] is squeezed, and another dtype cast, and both are said."""
    weight = plain_tensor(weight, name)
    if weight.dim() == 2 and weight.size(1) == 1 and weight.size(0) == num_edges:
        weight = weight.squeeze(1)
        notes.append(
            note(f"{name} of shape [E, 1] was squeezed to [E].", f"{name} 的形状由 [E, 1] 压缩为 [E]。")
        )
    if tuple(weight.shape) != (num_edges,):
        raise InvalidGraph(
            f"{name} has shape {check.shape(weight)}; a weight must be [{num_edges}] (or [{num_edges}, "
            f"1]), one number "
            "an edge."
        )
    return _cast(weight, name, dtype, notes)


def mended_x(x: Any, dtype: torch.dtype | None, notes: list[Note]) -> Tensor | None:
    """[N, F], floating, dense, COO or CSR; another dtype is cast and said."""
    if x is None:
        notes.append(
            note(
                "The graph has no x: a model needs an embedding of the nodes (looked up by n_id) in its "
                "place.",
                "该图没有节点特征 x：模型需要改用按 n_id 查表的节点嵌入。",
            )
        )
        return None
    if isinstance(x, tuple | list):
        raise InvalidGraph(
            f"x is a {type(x).__name__}, which means a bipartite graph; fasthop trains on one kind of node."
        )
    if hasattr(x, "to_torch_sparse_csr_tensor"):
        x = x.to_torch_sparse_csr_tensor()
    x = plain_tensor(x, "x")
    if x.layout is torch.sparse_coo:
        x = x.coalesce()
    elif x.layout not in (torch.strided, torch.sparse_csr):
        x = x.to_sparse_csr()
    if x.dim() != 2:
        hint = " Give x.view(-1, 1) for one feature a node." if x.dim() == 1 else ""
        raise InvalidGraph(f"x has shape {check.shape(x)}; it must be [num_nodes, F].{hint}")
    if x.is_complex():
        raise InvalidGraph(f"x has dtype {x.dtype}; features must be real, such as float32.")
    return _cast(x, "x", dtype, notes)


def mended_labels(y: Any, num_nodes: int, notes: list[Note]) -> Tensor:
    """int64 [N], or float32 [N, C] where several labels of 0 and 1 came for each node.

    [N, 1] is squeezed and whole floats are cast (NaN becomes -1, "no label"); both are said, and so is multi-label.
    """
    if y is None:
        raise InvalidGraph("The graph has no labels y; give an int64 tensor with one class a node.")
    y = plain_tensor(y, "y")
    if y.dim() == 2 and y.size(1) == 1 and y.size(0) == num_nodes:
        y = y.squeeze(1)
        notes.append(note("Labels of shape [N, 1] were squeezed to [N].", "标签的形状由 [N, 1] 压缩为 [N]。"))
    if y.is_complex():
        raise InvalidGraph(f"y has dtype {y.dtype}; labels must be int64.")
    if y.dim() == 2 and y.size(0) == num_nodes:
        return _multilabel(y, notes)
    if y.dim() <= 1 and y.numel() == 1 and num_nodes != 1:
        raise InvalidGraph(
            f"y holds one value for {num_nodes:,} nodes, which is a label of the whole graph; fasthop "
            f"trains one class "
            "a node."
        )
    if y.is_floating_point():
        missing = torch.isnan(y)
        whole = torch.where(missing, -1.0, y)
        if bool((whole != whole.round()).any()) or bool(torch.isinf(whole).any()):
            raise InvalidGraph(
                f"y has dtype {y.dtype} and values that are no whole numbers; fasthop trains classes 0 .. "
                f"C - 1, "
                "and regression is not supported."
            )
        y = whole.to(torch.int64)
        notes.append(
            note(
                f"Floating-point labels were cast to int64; {int(missing.sum()):,} NaN count as no label.",
                f"浮点标签已转换为 int64；其中 {int(missing.sum())} 个 NaN 视为无标签。",
            )
        )
    return y.to(torch.int64)


def _multilabel(y: Tensor, notes: list[Note]) -> Tensor:
    """float32 [N, C]. One-hot classes are refused: read as labels they would train another loss, unasked."""
    y = y.to(torch.float32)
    check.check_zero_one(y)
    labelled = ~torch.isnan(y).any(dim=1)
    if not bool(labelled.any()):
        raise InvalidGraph("No node has a label: every y is NaN.")
    if bool((y[labelled].sum(dim=1) == 1).all()):
        raise InvalidGraph(
            f"y has shape {check.shape(y)} with a single 1 in every row, which are one-hot classes; "
            "give y.argmax(dim=1)."
        )
    missing = y.size(0) - int(labelled.sum())
    notes.append(
        note(
            f"y of shape {check.shape(y)} holds 0 and 1: it was read as multi-label, {y.size(1):,} labels for each node; "
            f"{missing:,} nodes have none (NaN).",
            f"形状为 {check.shape(y)} 的 y 由 0 和 1 组成，按多标签读取：每个节点 {y.size(1)} 个标签；"
            f"其中 {missing} 个节点无标签（NaN）。",
        )
    )
    return y


def mended_mask(mask: Any, num_nodes: int, name: str, split: int | None, notes: list[Note]) -> Tensor:
    """bool [N], from bool or 0/1 numbers of length N, a column of [N, S], or a vector of node indices."""
    mask = plain_tensor(mask, name)
    if mask.dim() == 2 and mask.size(0) == num_nodes:
        mask = _column(mask, name, split, notes)
    if mask.dim() != 1:
        raise InvalidGraph(f"{name} has shape {check.shape(mask)}; it must be [{num_nodes}].")
    if mask.dtype in (torch.bool, torch.uint8) and mask.numel() != num_nodes:
        raise InvalidGraph(f"{name} has length {mask.numel()} and the graph has {num_nodes:,} nodes.")
    if mask.dtype is torch.bool:
        return mask
    if mask.is_floating_point() or mask.is_complex():
        raise InvalidGraph(f"{name} has dtype {mask.dtype}; it must be bool, or a vector of node indices.")
    zero_one = mask.numel() == num_nodes and bool(((mask == 0) | (mask == 1)).all())
    if mask.dtype is torch.uint8 and not zero_one:
        raise InvalidGraph(f"{name} is uint8 with values other than 0 and 1; it must be bool.")
    if zero_one and num_nodes > 2:
        if mask.dtype is not torch.uint8:
            notes.append(
                note(
                    f"{name} held 0 and 1 as {str(mask.dtype).removeprefix('torch.')}, one a node; it was "
                    f"read as a "
                    "mask, not as node indices.",
                    f"{name} 为逐节点的 0/1 整数，已按布尔掩码（而非节点编号）读取。",
                )
            )
        return mask.bool()
    if zero_one and mask.dtype is not torch.uint8:
        raise InvalidGraph(
            f"{name} is {mask.tolist()}, which may be a mask or node indices; give {name}.bool() for a mask."
        )
    if zero_one:
        return mask.bool()
    return _from_indices(mask, num_nodes, name)


def plain_tensor(value: Any, name: str) -> Tensor:
    """The value as a plain torch tensor: subclasses such as PyG's EdgeIndex are unwrapped."""
    if isinstance(value, Tensor):
        if value.is_quantized or value.is_nested or value.is_meta:
            kind = (
                "quantized" if value.is_quantized else "nested" if value.is_nested else "on the meta device"
            )
            raise InvalidGraph(f"{name} is a tensor that is {kind}; give a plain tensor.")
        return check.plain(value)
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError):
        raise InvalidGraph(f"{name} is a {type(value).__name__}; give a torch tensor.") from None


def _column(mask: Tensor, name: str, split: int | None, notes: list[Note]) -> Tensor:
    columns = mask.size(1)
    if columns == 1:
        return mask[:, 0]
    if split is None:
        raise InvalidGraph(
            f"{name} has shape {check.shape(mask)}, which is {columns} splits side by side; choose one "
            f"with split=0 "
            f"to split={columns - 1}."
        )
    if not 0 <= split < columns:
        raise InvalidGraph(f"split is {split}, and {name} has {columns} splits: 0 to {columns - 1}.")
    notes.append(
        note(
            f"{name} is split {split} of the {columns} that the data holds.",
            f"{name} 取数据中 {columns} 种划分的第 {split} 种（从 0 计）。",
        )
    )
    return mask[:, split].contiguous()


def _from_indices(index: Tensor, num_nodes: int, name: str) -> Tensor:
    check.check_indices(index, num_nodes, name)
    mask = torch.zeros(num_nodes, dtype=torch.bool, device=index.device)
    mask[index.to(torch.int64)] = True
    twice = index.numel() - int(mask.sum())
    if twice:
        raise InvalidGraph(
            f"{name} holds node indices, and {twice:,} of its {index.numel():,} are repeated; list each "
            f"node once."
        )
    return mask


def _cast(tensor: Tensor, name: str, dtype: torch.dtype | None, notes: list[Note]) -> Tensor:
    target = dtype or (tensor.dtype if tensor.is_floating_point() else torch.float32)
    if tensor.dtype is target:
        return tensor
    old, new = (str(d).removeprefix("torch.") for d in (tensor.dtype, target))
    notes.append(note(f"{name} was cast from {old} to {new}.", f"{name} 已由 {old} 转换为 {new}。"))
    return tensor.to(target)
