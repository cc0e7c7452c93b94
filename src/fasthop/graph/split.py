"""Splits: which nodes a model is trained, validated and tested on, drawn from a seed."""

from __future__ import annotations

import re

import numpy as np
import torch
from torch import Tensor

from fasthop.errors import InvalidConfig
from fasthop.graph.fault import fault
from fasthop.graph.label_checks import labelled_nodes
from fasthop.graph.note import Note, note

Masks = tuple[Tensor, Tensor, Tensor]
PLANETOID = (20, 500, 1000)


def drawn_split(split: str, y: Tensor, num_classes: int, seed: int) -> tuple[Masks, Note]:
    """The masks that a split's name stands for, and the sentence that says how they came about.

    split: "random" (`planetoid_split`), "per-class:20/500/1000" for other numbers than its own, or percentages
        "train/val/test" such as "60/20/20".
    y: int64 [N] or multi-label [N, C]; nodes without a label enter no mask.
    Raises InvalidConfig for another name or a seed outside 0 .. 2^32 - 1, InvalidGraph where the graph is
    too small.
    """
    if not 0 <= seed < 2**32:
        raise InvalidConfig(f"seed is {seed}; it must be from 0 to 2^32 - 1.")
    per_class = re.fullmatch(r"per-class:(\d{1,9})/(\d{1,9})/(\d{1,9})", split)
    if split == "random" or per_class:
        numbers = PLANETOID if per_class is None else tuple(int(part) for part in per_class.groups())
        num_train, num_val, num_test = numbers
        if not num_train:
            raise InvalidConfig(f"split is {split!r}; give at least one training node a class.")
        masks = planetoid_split(y, num_classes, seed, (num_train, num_val, num_test))
        return masks, note(
            f"The split was drawn from seed {seed} by Planetoid's protocol: {num_train:,} training nodes "
            f"a class, {num_val:,} validation and {num_test:,} test nodes.",
            f"数据划分按 Planetoid 的方案由随机种子 {seed} 生成：每类 {num_train} 个训练节点，"
            f"{num_val} 个验证节点，{num_test} 个测试节点。",
        )
    match = re.fullmatch(r"(\d{1,3})/(\d{1,3})/(\d{1,3})", split)
    if match is None or sum(int(part) for part in match.groups()) > 100:
        raise InvalidConfig(
            f'split is {split!r}; give "random" (20 nodes a class, 500, 1,000), other numbers such as '
            f'"per-class:20/500/1000", percentages such as "60/20/20", '
            "or the number of a column where the masks hold several splits."
        )
    percentages = (int(match[1]), int(match[2]), int(match[3]))
    return percentage_split(y, num_classes, percentages, seed), note(
        f"The split was drawn from seed {seed}: {split} per cent of the labelled nodes to train, validate "
        f"and test.",
        f"数据划分由随机种子 {seed} 生成：训练、验证、测试节点占有标签节点的百分比为 {split}。",
    )


def planetoid_split(
    y: Tensor, num_classes: int, seed: int, numbers: tuple[int, int, int] = PLANETOID
) -> Masks:
    """20 nodes of each class to train, then 500 and 1,000 of the others (Yang et al. 2016, section 5.1).

    numbers: others in their place. A class that has fewer nodes gives all it has.
    The numbers come from NumPy's legacy generator, whose stream is fixed for ever.
    Raises InvalidGraph where fewer labelled nodes than that are there.
    """
    if y.dim() == 2:
        raise fault(
            "split-multi-label",
            'split="random" takes nodes of each class, and with multi-label y a node has none of its own; give '
            'percentages such as split="60/20/20".',
            'split="random" 按类别取节点，而多标签的 y 没有单一类别；请用百分比，例如 split="60/20/20"。',
        )
    num_train, num_val, num_test = numbers
    labels = y.cpu().numpy()
    order = _shuffled(y, num_classes, seed)
    # The rank of each node among those of its class, in the drawn order: classes may be many.
    by_class = np.argsort(labels[order], kind="stable")
    counts = np.bincount(labels[order], minlength=num_classes)
    rank = np.empty(order.size, np.int64)
    rank[by_class] = np.arange(order.size) - np.repeat(np.cumsum(counts) - counts, counts)
    train, rest = order[rank < num_train], order[rank >= num_train]
    if rest.size < num_val + num_test:
        raise fault(
            "split-too-small",
            f"The split takes {num_train:,} labelled nodes a class and {num_val + num_test:,} more, and "
            f"only {rest.size:,} more are there.",
            f"该划分每类取 {num_train} 个带标签的节点，另取 {num_val + num_test} 个，而只剩 {rest.size} 个。",
            (
                'Give percentages such as split="60/20/20", or smaller numbers with "per-class:20/500/1000".',
                '请用百分比，例如 split="60/20/20"，或用 "per-class:20/500/1000" 给出较小的数。',
            ),
        )
    parts = train, rest[:num_val], rest[num_val : num_val + num_test]
    return _masks(parts, y)


def percentage_split(y: Tensor, num_classes: int, percentages: tuple[int, int, int], seed: int) -> Masks:
    """Shares of the labelled nodes, in percent, drawn without regard to their class."""
    order = _shuffled(y, num_classes, seed)
    ends = [round(order.size * share / 100) for share in np.cumsum(percentages)]
    return _masks((order[: ends[0]], order[ends[0] : ends[1]], order[ends[1] : ends[2]]), y)


def _shuffled(y: Tensor, num_classes: int, seed: int) -> np.ndarray:
    """The labelled nodes in an order drawn from the seed."""
    order = np.random.RandomState(seed).permutation(y.size(0))
    return order[labelled_nodes(y, num_classes).cpu().numpy()[order]]


def _masks(parts: tuple[np.ndarray, np.ndarray, np.ndarray], y: Tensor) -> Masks:
    masks = torch.zeros(3, y.size(0), dtype=torch.bool)
    for mask, part in zip(masks, parts, strict=True):
        mask[torch.from_numpy(part)] = True
    # Three tensors of their own: rows of one storage would be saved and copied three times over.
    train, val, test = (mask.clone().to(y.device) for mask in masks)
    return train, val, test
