"""Masks: which nodes a model is trained, validated and tested on, in the forms that they come in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from fasthop.graph import check
from fasthop.graph.checks import MASKS
from fasthop.graph.fault import Faults, fault
from fasthop.graph.mend import plain_tensor
from fasthop.graph.split import drawn_split

if TYPE_CHECKING:
    from torch_geometric.data import Data


def masks_of(
    data: Data,
    num_nodes: int,
    y: Tensor | None,
    num_classes: int,
    split: int | str | None,
    seed: int,
    faults: Faults,
) -> dict[str, Tensor]:
    """The three masks by name, bool [N]: the data's own, or drawn where `split` names how; one that has
    a fault is left out when collecting, and one that is not there is empty, and said."""
    if isinstance(split, str):
        if y is None:  # without labels, which is a fault of its own, no split can be drawn
            return {}
        masks, said = drawn_split(split, y, num_classes, seed)
        faults.note("split-drawn", said["en"], said["zh"])
        return dict(zip(MASKS, masks, strict=True))
    given = {name: data.get(name) for name in MASKS}
    if given["train_mask"] is None:
        raise fault(
            "no-train-mask",
            "The data has no train_mask; set one, or draw a split:",
            "数据没有 train_mask；请设置，或生成划分：",
            (
                'split="random" (20 nodes a class, 500, 1,000) or percentages such as split="60/20/20".',
                'split="random"（每类 20 个、500、1000）或百分比，例如 split="60/20/20"。',
            ),
        )
    several = [mask for mask in given.values() if getattr(mask, "ndim", 1) == 2 and mask.shape[1] > 1]
    if split is not None and not several:
        raise fault(
            "split-one-only",
            f"split is {split}, but the masks hold one split only; leave split out.",
            f"split 为 {split}，但掩码只含一种划分；请不要给出 split。",
        )
    found: dict[str, Tensor] = {}
    for name, mask in given.items():
        if mask is None:
            found[name] = torch.zeros(num_nodes, dtype=torch.bool, device=_device(data))
            what = {"val_mask": ("validation", "验证"), "test_mask": ("test", "测试")}[name]
            faults.warn(
                "no-mask",
                f"The data has no {name}, so {what[0]} accuracy is not measured.",
                f"数据没有 {name}，因此不测量{what[1]}准确率。",
            )
            continue
        with faults.part():
            found[name] = mended_mask(mask, num_nodes, name, split, faults)
    return found


def mended_mask(mask: Any, num_nodes: int, name: str, split: int | None, faults: Faults) -> Tensor:
    """bool [N], from bool or 0/1 numbers of length N, a column of [N, S], or a vector of node indices."""
    mask = plain_tensor(mask, name)
    if mask.layout is not torch.strided:
        mask = mask.to_dense()
    if mask.dim() == 2 and mask.size(0) == num_nodes:
        mask = _column(mask, name, split, faults)
    if mask.dim() != 1:
        raise fault(
            "mask-shape",
            f"{name} has shape {check.shape(mask)}; it must be [{num_nodes}].",
            f"{name} 的形状为 {check.shape(mask)}；应为 [{num_nodes}]。",
        )
    if mask.dtype in (torch.bool, torch.uint8) and mask.numel() != num_nodes:
        raise fault(
            "mask-length",
            f"{name} has length {mask.numel()} and the graph has {num_nodes:,} nodes.",
            f"{name} 的长度为 {mask.numel()}，而图有 {num_nodes} 个节点。",
        )
    if mask.dtype is torch.bool:
        return mask
    zero_one = mask.numel() == num_nodes and bool(((mask == 0) | (mask == 1)).all())
    kind = check.dtype_name(mask)
    if mask.is_floating_point() or mask.is_complex():
        said = (
            f"{name} has dtype {mask.dtype}; it must be bool, or a vector of node indices.",
            f"{name} 的 dtype 为 {mask.dtype}；应为 bool，或节点编号向量。",
        )
        if not zero_one or num_nodes == 0:
            raise fault("mask-dtype", *said)
        faults.mendable("mask-float", *said, (f"Give {name}.bool().", f"请用 {name}.bool()。"))
        return mask.bool()
    if mask.dtype is torch.uint8 and not zero_one:
        raise fault(
            "mask-uint8",
            f"{name} is uint8 with values other than 0 and 1; it must be bool.",
            f"{name} 为 uint8，且含 0 和 1 以外的值；应为 bool。",
        )
    if zero_one and num_nodes > 2:
        if mask.dtype is not torch.uint8:
            faults.mended(
                "mask-integer",
                f"{name} held 0 and 1 as {kind}, one a node; it was read as a mask, not as node indices.",
                f"{name} 为逐节点的 0/1 整数，已按布尔掩码（而非节点编号）读取。",
                level="warning",
            )
        return mask.bool()
    if zero_one and mask.dtype is not torch.uint8:
        raise fault(
            "mask-or-indices",
            f"{name} is {mask.tolist()}, which may be a mask or node indices; give {name}.bool() for a mask.",
            f"{name} 为 {mask.tolist()}，可能是掩码，也可能是节点编号；若是掩码请用 {name}.bool()。",
        )
    if zero_one:
        return mask.bool()
    return _from_indices(mask, num_nodes, name, faults)


def _column(mask: Tensor, name: str, split: int | None, faults: Faults) -> Tensor:
    columns = mask.size(1)
    if columns == 1:
        return mask[:, 0]
    if split is None:
        raise fault(
            "split-choice",
            f"{name} has shape {check.shape(mask)}, which is {columns} splits side by side; choose one "
            f"with split=0 to split={columns - 1}.",
            f"{name} 的形状为 {check.shape(mask)}，即并列的 {columns} 种划分；请用 split=0 到 split={columns - 1} 选择。",
        )
    if not 0 <= split < columns:
        raise fault(
            "split-range",
            f"split is {split}, and {name} has {columns} splits: 0 to {columns - 1}.",
            f"split 为 {split}，而 {name} 有 {columns} 种划分：0 到 {columns - 1}。",
        )
    faults.note(
        "split-chosen",
        f"{name} is split {split} of the {columns} that the data holds.",
        f"{name} 取数据中 {columns} 种划分的第 {split} 种（从 0 计）。",
    )
    return mask[:, split].contiguous()


def _from_indices(index: Tensor, num_nodes: int, name: str, faults: Faults) -> Tensor:
    check.check_indices(index, num_nodes, name)
    mask = torch.zeros(num_nodes, dtype=torch.bool, device=index.device)
    mask[index.to(torch.int64)] = True
    twice = index.numel() - int(mask.sum())
    if twice:
        faults.mendable(
            "mask-repeated",
            f"{name} holds node indices, and {twice:,} of its {index.numel():,} are repeated; list each node once.",
            f"{name} 为节点编号，{index.numel()} 个中有 {twice} 个重复；每个节点只应列出一次。",
        )
    return mask


def say_overlaps(masks: dict[str, Tensor], faults: Faults) -> None:
    """A warning for each two masks that share nodes."""
    for at, first in enumerate(MASKS):
        for second in MASKS[at + 1 :]:
            if first in masks and second in masks:
                shared = int((masks[first] & masks[second]).sum())
                if shared:
                    faults.warn(
                        "masks-overlap",
                        f"{first} and {second} share {shared:,} nodes, so the accuracy there is flattered.",
                        f"{first} 与 {second} 有 {shared} 个节点重叠，其准确率会偏高。",
                    )


def _device(data: Data) -> torch.device:
    mask = data.get("train_mask")
    return mask.device if isinstance(mask, Tensor) else torch.device("cpu")
