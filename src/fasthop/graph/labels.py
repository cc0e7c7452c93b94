"""Labels: classes or several labels a node, in the forms that they come in."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fasthop.graph import check
from fasthop.graph.fault import Faults, fault
from fasthop.graph.label_checks import check_zero_one, labelled_nodes
from fasthop.graph.mend import plain_tensor

# Labels that are ids of something would make a model as wide as the largest id, and run out of memory.
MOST_CLASSES_OF_A_SMALL_GRAPH = 1000


def mended_labels(y: Any, num_nodes: int, faults: Faults) -> Tensor:
    """int64 [N], or float32 [N, C] where several labels of 0 and 1 came for each node.

    [N, 1] is squeezed and whole floats are cast (NaN becomes -1, "no label"); both are said, and so is multi-label.
    """
    if y is None:
        raise fault(
            "no-labels",
            "The graph has no labels y; give an int64 tensor with one class a node.",
            "图没有标签 y；请给出 int64 张量，每个节点一个类别。",
        )
    y = plain_tensor(y, "y")
    if y.layout is not torch.strided:
        y = y.to_dense()
    if y.is_complex():
        raise fault(
            "labels-complex",
            f"y has dtype {y.dtype}; labels must be int64.",
            f"y 的 dtype 为 {y.dtype}；标签应为 int64。",
        )
    if y.dim() == 2 and y.size(1) == 1 and y.size(0) == num_nodes:
        y = y.squeeze(1)
        faults.mended(
            "labels-column",
            "Labels of shape [N, 1] were squeezed to [N].",
            "标签的形状由 [N, 1] 压缩为 [N]。",
        )
    if y.dim() == 2 and y.size(0) == num_nodes and y.size(1) > 1:
        return _multilabel(y, faults)
    if y.dim() <= 1 and y.numel() == 1 and num_nodes != 1:
        raise fault(
            "labels-of-graph",
            f"y holds one value for {num_nodes:,} nodes, which is a label of the whole graph; fasthop "
            f"trains one class a node.",
            f"y 只有一个值，而图有 {num_nodes} 个节点，即整张图的标签；fasthop 按节点分类训练。",
        )
    if y.dim() != 1 or y.size(0) != num_nodes:
        raise fault(
            "labels-shape",
            f"y has shape {check.shape(y)}; it must be [{num_nodes}], a class a node.",
            f"y 的形状为 {check.shape(y)}；应为 [{num_nodes}]，每个节点一个类别。",
        )
    return _whole(y, faults) if y.is_floating_point() else y.to(torch.int64)


def _whole(y: Tensor, faults: Faults) -> Tensor:
    missing = torch.isnan(y)
    whole = torch.where(missing, -1.0, y)
    if bool((whole != whole.round()).any()) or bool((whole.abs() >= 2.0**63).any()):
        raise fault(
            "labels-not-whole",
            f"y has dtype {y.dtype} and values that are no whole numbers; fasthop trains classes 0 .. "
            f"C - 1, and regression is not supported.",
            f"y 的 dtype 为 {y.dtype}，且含非整数值；fasthop 训练类别 0 .. C - 1，不支持回归。",
        )
    faults.mended(
        "labels-float",
        f"Floating-point labels were cast to int64; {int(missing.sum()):,} NaN count as no label.",
        f"浮点标签已转换为 int64；其中 {int(missing.sum())} 个 NaN 视为无标签。",
    )
    return whole.to(torch.int64)


def _multilabel(y: Tensor, faults: Faults) -> Tensor:
    """float32 [N, C]. One-hot classes are refused: read as labels they would train another loss, unasked."""
    y = y.to(torch.float32)
    check_zero_one(y)
    labelled = labelled_nodes(y, y.size(1))
    if not bool(labelled.any()):
        raise fault("no-label", "No node has a label: every y is NaN.", "没有节点带标签：y 全为 NaN。")
    if bool((y[labelled].sum(dim=1) == 1).all()):
        raise fault(
            "labels-one-hot",
            f"y has shape {check.shape(y)} with a single 1 in every row, which are one-hot classes; "
            "give y.argmax(dim=1).",
            f"y 的形状为 {check.shape(y)}，每行恰有一个 1，即独热类别；请用 y.argmax(dim=1)。",
        )
    missing = y.size(0) - int(labelled.sum())
    faults.note(
        "multi-label",
        f"y of shape {check.shape(y)} holds 0 and 1: it was read as multi-label, {y.size(1):,} labels for each node; "
        f"{missing:,} nodes have none (NaN).",
        f"形状为 {check.shape(y)} 的 y 由 0 和 1 组成，按多标签读取：每个节点 {y.size(1)} 个标签；"
        f"其中 {missing} 个节点无标签（NaN）。",
    )
    return y


def num_classes_of(y: Tensor, known: int | None, faults: Faults) -> int:
    """The number of classes: `known`, else the largest label + 1; of multi-label y its columns."""
    if y.dim() == 2:
        if known not in (None, y.size(1)):
            raise fault(
                "num-classes-columns",
                f"num_classes is {known}, and y has shape {check.shape(y)}: multi-label y has a column for each label.",
                f"num_classes 为 {known}，而 y 的形状为 {check.shape(y)}：多标签的 y 每个标签一列。",
            )
        return y.size(1)
    classes = known or (int(y.max()) + 1 if y.numel() else 0)
    if classes < 1:
        raise fault("no-label", "No node has a label: every y is negative.", "没有节点带标签：y 全为负数。")
    if known is None and classes > max(y.numel(), MOST_CLASSES_OF_A_SMALL_GRAPH):
        raise fault(
            "labels-are-ids",
            f"The largest label is {classes - 1:,} in a graph of {y.numel():,} nodes; labels count from 0 to C - 1.",
            f"最大的标签为 {classes - 1}，而图只有 {y.numel()} 个节点；标签应从 0 数到 C - 1。",
            (
                "Number them anew with y.unique(return_inverse=True)[1], or give num_classes if there are so many.",
                "请用 y.unique(return_inverse=True)[1] 重新编号；若确有这么多类别，请给出 num_classes。",
            ),
        )
    valid = y[(y >= 0) & (y < classes)]
    if valid.numel() and bool((valid == valid[0]).all()):
        faults.warn(
            "one-class",
            "All labelled nodes are of one class: accuracy means nothing here.",
            "所有带标签的节点都属于同一类：此处的准确率没有意义。",
        )
    return classes
