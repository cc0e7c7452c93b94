"""The checks of a graph's labels: classes, or several labels a node."""

from __future__ import annotations

import torch
from torch import Tensor

from fasthop.graph.check import dtype_name, shape
from fasthop.graph.fault import fault


def check_labels(y: Tensor, num_nodes: int, num_classes: int) -> None:
    """Raises InvalidGraph unless y is an int64 [num_nodes], or multi-label: a float32 [num_nodes, num_classes]
    of 0 and 1, where a row of NaN is a node without labels. Nodes without a class hold any value
    outside 0 .. num_classes - 1; no mask may hold either (`check_masked_labels`)."""
    if not isinstance(num_classes, int) or num_classes < 1:
        raise fault(
            "num-classes",
            f"num_classes is {num_classes!r}; it must be an int of at least 1.",
            f"num_classes 为 {num_classes!r}；应为不小于 1 的整数。",
        )
    if y.dim() == 2 and y.dtype is torch.float32:
        if tuple(y.shape) != (num_nodes, num_classes):
            raise fault(
                "labels-shape",
                f"y has shape {shape(y)}; multi-label y must be [{num_nodes}, {num_classes}]: a 0 or 1 for each "
                "node and label.",
                f"y 的形状为 {shape(y)}；多标签的 y 应为 [{num_nodes}, {num_classes}]：每个节点的每个标签取 0 或 1。",
            )
        check_zero_one(y)
        return
    if y.dtype is not torch.int64 or tuple(y.shape) != (num_nodes,):
        raise fault(
            "labels-form",
            f"y has dtype {dtype_name(y)} and shape {shape(y)}; it must be int64 and [{num_nodes}]: "
            f"a class a node; or float32 and [{num_nodes}, {num_classes}], a 0 or 1 for each label.",
            f"y 的 dtype 为 {dtype_name(y)}，形状为 {shape(y)}；应为 int64、[{num_nodes}]（每个节点一个类别），"
            f"或 float32、[{num_nodes}, {num_classes}]（每个标签取 0 或 1）。",
        )


def check_zero_one(y: Tensor) -> None:
    """Raises InvalidGraph with the first value of y [N, C] that is not 0 or 1, save in rows that are NaN throughout."""
    missing = torch.isnan(y)
    wrong = ~((y == 0) | (y == 1) | missing.all(dim=1, keepdim=True))
    if bool(wrong.any()):
        row, column = (int(i) for i in torch.nonzero(wrong)[0])
        at, value = f"y[{row}, {column}]", f"{float(y[row, column]):g}"
        raise fault(
            "labels-zero-one",
            f"{at} is {value}; with several values a node, each is a label of its own "
            "and must be 0 or 1 (a node without labels has NaN in all of them).",
            f"{at} 为 {value}；每个节点有多个值时，每个值是一个独立的标签，只能取 0 或 1（无标签的节点整行为 NaN）。",
        )


def labelled_nodes(y: Tensor, num_classes: int) -> Tensor:
    """bool [N]: which nodes have a label: a class in 0 .. num_classes - 1, or multi-label without NaN."""
    if y.dim() == 2:
        return ~torch.isnan(y).any(dim=1)
    return (y >= 0) & (y < num_classes)


def check_masked_labels(y: Tensor, mask: Tensor, num_classes: int, name: str) -> None:
    """Raises InvalidGraph where the mask holds nodes without a valid label: how many, which first."""
    unlabelled = mask & ~labelled_nodes(y, num_classes)
    count = int(unlabelled.sum())
    if count:
        first, total = int(torch.nonzero(unlabelled)[0]), int(mask.sum())
        many = y.dim() == 2
        value = "nan" if many else int(y[first])
        known = (
            ("labels are 0 or 1", "标签取 0 或 1")
            if many
            else (
                f"classes run from 0 to {num_classes - 1}",
                f"类别应在 0 到 {num_classes - 1} 之间",
            )
        )
        out = "~y.isnan().any(dim=1)" if many else "(y >= 0)"
        raise fault(
            "masked-unlabelled",
            f"{count:,} of the {total:,} nodes in {name} have no valid label: the first is "
            f"node {first} with y = {value}, and {known[0]}.",
            f"{name} 的 {total} 个节点中有 {count} 个没有有效标签：第一个是节点 {first}，y = {value}，而{known[1]}。",
            (
                f"Take them out of the mask, for example {name} & {out}.",
                f"请将其移出掩码，例如 {name} & {out}。",
            ),
        )


def check_class_names(class_names: tuple[str, ...] | None, num_classes: int) -> None:
    """Raises InvalidGraph unless class_names is None or has a name for each class."""
    if class_names is not None and len(class_names) != num_classes:
        raise fault(
            "class-names",
            f"class_names has {len(class_names):,} names for {num_classes:,} classes; give one for each, or none.",
            f"class_names 有 {len(class_names)} 个名称，而类别有 {num_classes} 个；请一一给出，或不给。",
        )
