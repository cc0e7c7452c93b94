"""Words: labels and splits that came as text, in files and as attributes of nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fasthop.graph.checks import MASKS
from fasthop.graph.fault import fault

PARTS = {
    "train": 0,
    "training": 0,
    "val": 1,
    "valid": 1,
    "validation": 1,
    "dev": 1,
    "test": 2,
    "testing": 2,
    "": None,
    "none": None,
    "-": None,
}
FLAGS = {"0": False, "1": True, "false": False, "true": True}


def classes_of(labels: Sequence[Any], where: str) -> tuple[Tensor, tuple[str, ...] | None]:
    """The labels of the nodes as y, and the classes' names where they came as words.

    Whole numbers are the classes themselves; words are numbered in alphabetical order; None, NaN and the
    empty word are "no label" (-1). where: what the labels are called in a sentence.
    """
    given = [
        None if label is None or label == "" or (isinstance(label, float) and math.isnan(label)) else label
        for label in labels
    ]
    numbers = [None if label is None else _number(label) for label in given]
    if all((number is None) == (label is None) for number, label in zip(numbers, given, strict=True)):
        whole = [-1 if number is None else number for number in numbers]
        if all(isinstance(number, int) and abs(number) < 2**63 for number in whole):
            return torch.tensor(whole, dtype=torch.int64), None
        return torch.tensor(
            [math.nan if n is None else float(n) if abs(n) < 2**63 else math.inf for n in numbers],
            dtype=torch.float64,
        ), None
    odd = next((i for i, label in enumerate(given) if label is not None and not isinstance(label, str)), None)
    if odd is not None:
        raise fault(
            "labels-mixed",
            f"{where} are neither all numbers nor all words: that of row {odd + 1} is {given[odd]!r}.",
            f"{where}既非全为数值也非全为词：第 {odd + 1} 行为 {given[odd]!r}。",
        )
    names = sorted({str(label) for label in given if label is not None})
    number_of = {name: number for number, name in enumerate(names)}
    y = [-1 if label is None else number_of[str(label)] for label in given]
    return torch.tensor(y, dtype=torch.int64), tuple(names)


def _number(label: Any) -> int | float | None:
    """The number that a label is; None for a word."""
    if isinstance(label, bool):
        return int(label)
    if isinstance(label, int | float):
        return label
    text = str(label)
    if not isinstance(label, str):
        return label.item() if hasattr(label, "item") and isinstance(label.item(), int | float) else None
    if "_" in text or len(text) > 40:
        return None
    try:
        return int(text)
    except ValueError:
        pass
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def masks_of_words(words: Sequence[Any], where: str) -> dict[str, Tensor]:
    """The three masks from a word a node: train, val (valid, validation) or test; none or empty is in no mask."""
    masks = torch.zeros(3, len(words), dtype=torch.bool)
    for row, word in enumerate(words):
        key = "" if word is None else str(word).strip().lower()
        if key not in PARTS:
            raise fault(
                "split-word",
                f"{where} of row {row + 1} is {word!r}; it must be train, val or test, or empty.",
                f"{where}第 {row + 1} 行为 {word!r}；应为 train、val 或 test，或留空。",
            )
        part = PARTS[key]
        if part is not None:
            masks[part, row] = True
    return {name: mask.clone() for name, mask in zip(MASKS, masks, strict=True)}


def mask_of_flags(flags: Sequence[Any], where: str) -> Tensor:
    """A mask from 0 or 1, false or true for each node."""
    mask = torch.zeros(len(flags), dtype=torch.bool)
    for row, flag in enumerate(flags):
        key = str(flag).strip().lower()
        if key not in FLAGS:
            raise fault(
                "mask-word",
                f"{where} of row {row + 1} is {flag!r}; it must be 0 or 1, false or true.",
                f"{where}第 {row + 1} 行为 {flag!r}；应为 0 或 1，false 或 true。",
            )
        mask[row] = FLAGS[key]
    return mask
