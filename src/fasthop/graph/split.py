"""Splits: which nodes a model is trained, validated and tested on, drawn from a seed."""

from __future__ import annotations

import re

import numpy as np
import torch
from torch import Tensor

from fasthop.errors import InvalidConfig, InvalidGraph
from fasthop.graph.check import labelled_nodes
from fasthop.graph.note import Note, note

Masks = tuple[Tensor, Tensor, Tensor]
NUM_TRAIN_PER_CLASS, NUM_VAL, NUM_TEST = 20, 500, 1000


def drawn_split(split: str, y: Tensor, num_classes: int, seed: int) -> tuple[Masks, Note]:
    """The masks that a split's name stands for, and the sentence that says how they came about.

    split: "random" (`planetoid_split`) or percentages "train/val/test" such as "60/20/20".
    y: int64 [N] or multi-label [N, C]; nodes without a label enter no mask.
    Raises InvalidConfig for another name or a seed outside 0 .. 2^32 - 1, InvalidGraph where the graph is
    too small.
    """
    if not 0 <= seed < 2**32:
        raise InvalidConfig(f"seed is {seed}; it must be from 0 to 2^32 - 1.")
    if split == "random":
        masks = planetoid_split(y, num_classes, seed)
        return masks, note(
            f"The split was drawn from seed {seed} by Planetoid's protocol: {NUM_TRAIN_PER_CLASS} "
            f"training nodes "
            f"a class, {NUM_VAL} validation and {NUM_TEST:,} test nodes.",
            f"数据划分按 Planetoid 的方案由随机种子 {seed} 生成：每类 {NUM_TRAIN_PER_CLASS} 个训练节点，"
            f"{NUM_VAL} 个验证节点，{NUM_TEST} 个测试节点。",
        )
    match = re.fullmatch(r"(\d+)/(\d+)/(\d+)", split)
    if match is None or sum(int(part) for part in match.groups()) > 100:
        raise InvalidConfig(
            f'split is {split!r}; give "random" (20 nodes a class, 500, 1,000), percentages such as '
            f'"60/20/20", '
            "or the number of a column where the masks hold several splits."
        )
    percentages = (int(match[1]), int(match[2]), int(match[3]))
    return percentage_split(y, num_classes, percentages, seed), note(
        f"The split was drawn from seed {seed}: {split} per cent of the labelled nodes to train, validate "
        f"and test.",
        f"数据划分由随机种子 {seed} 生成：训练、验证、测试节点占有标签节点的百分比为 {split}。",
    )


def planetoid_split(y: Tensor, num_classes: int, seed: int) -> Masks:
    """20 nodes of each class to train, then 500 and 1,000 of the others (Yang et al. 2016, section 5.1).

    The numbers come from NumPy's legacy generator, whose stream is fixed for ever.
    Raises InvalidGraph where fewer labelled nodes than that are there.
    """
    if y.dim() == 2:
        raise InvalidGraph(
            'split="random" takes nodes of each class, and with multi-label y a node has none of its own; give '
            'percentages such as split="60/20/20".'
        )
    labels = y.cpu().numpy()
    order = _shuffled(y, num_classes, seed)
    rank = np.empty(order.size, np.int64)
    for label in range(num_classes):
        of_class = labels[order] == label
        rank[of_class] = np.arange(np.count_nonzero(of_class))
    train, rest = order[rank < NUM_TRAIN_PER_CLASS], order[rank >= NUM_TRAIN_PER_CLASS]
    if rest.size < NUM_VAL + NUM_TEST:
        raise InvalidGraph(
            f'split="random" takes {NUM_TRAIN_PER_CLASS} labelled nodes a class and '
            f"{NUM_VAL + NUM_TEST:,} more, and "
            f'only {rest.size:,} more are there; give percentages such as split="60/20/20".'
        )
    parts = train, rest[:NUM_VAL], rest[NUM_VAL : NUM_VAL + NUM_TEST]
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
