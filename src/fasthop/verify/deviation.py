"""How far two traces lie apart, tensor by tensor and step by step; what cannot be compared is a fault with its sentence."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fasthop.graph.note import Note, note
from fasthop.verify.trace import Trace

SMALL = 1e-6
"""A tensor smaller than this share of all of its kind is measured against that share: the true gradient of a bias before
BatchNorm is 0, and what is computed of it is rounding."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Deviation:
    """One tensor of one step.

    kind: "out", "grad", "buffer" or "prediction". distance: norm of the difference, inf with a fault.
    norm: the reference's. whole: the norm of all that step's tensors of the kind together. step counts from 1.
    """

    kind: str
    name: str
    step: int
    distance: float
    norm: float
    whole: float
    fault: Note | None = None

    @property
    def scale(self) -> float:
        """What the distance is measured against."""
        return max(self.norm, SMALL * self.whole)

    @property
    def error(self) -> float:
        """distance / scale; 0 where both are the same, be it 0."""
        return self.share(self.distance)

    def share(self, distance: float) -> float:
        """A distance over the scale."""
        if distance == 0:
            return 0.0
        return distance / self.scale if self.scale > 0 else math.inf


Named = dict[str, Tensor | None]


def deviations(reference: Trace, other: Trace, *, dtype: torch.dtype | None = None) -> list[Deviation]:
    """Every tensor of `other` against the reference's, which is in the same or a higher precision.

    dtype: what the other's outputs must be in; None is any.
    """
    found: list[Deviation] = []
    for step, (one, two) in enumerate(zip(reference.steps, other.steps, strict=True), start=1):
        found += _kind("out", step, {"out": one.out}, {"out": two.out}, dtype)
        found += _kind("grad", step, one.gradients, two.gradients, None)
    last = len(reference.steps)
    # A candidate may keep more buffers than the original has; it may not lack one.
    found += _kind("buffer", last, {**reference.buffers}, {**other.buffers}, None)
    if reference.prediction is not None or other.prediction is not None:
        found += _kind(
            "prediction",
            last,
            {"prediction": reference.prediction},
            {"prediction": other.prediction},
            dtype,
        )
    return found


def different_bits(reference: Tensor | None, other: Tensor | None) -> bool:
    """Whether two tensors differ in dtype, shape or any bit (so that 0.0 and -0.0 do)."""
    if reference is None or other is None:
        return reference is not other
    one, two = _plain(reference), _plain(other)
    if one.dtype != two.dtype or one.shape != two.shape:
        return True
    return not torch.equal(_bits(one), _bits(two))


def _kind(kind: str, step: int, reference: Named, other: Named, dtype: torch.dtype | None) -> list[Deviation]:
    norms = {name: _norm(tensor) for name, tensor in reference.items()}
    whole = math.sqrt(sum(norm**2 for norm in norms.values()))
    found = []
    for name, tensor in reference.items():
        shown = f"{name}.grad" if kind == "grad" else name
        distance, fault = _distance(shown, tensor, other.get(name), dtype, step)
        found.append(
            Deviation(
                kind=kind,
                name=shown,
                step=step,
                distance=distance,
                norm=norms[name],
                whole=whole,
                fault=fault,
            )
        )
    return found


def _distance(
    name: str, one: Tensor | None, two: Tensor | None, dtype: torch.dtype | None, step: int
) -> tuple[float, Note | None]:
    if one is None and two is None:
        return 0.0, None
    if one is None or two is None:
        with_en, with_zh = ("the original", "原模型") if two is None else ("the candidate", "候选模型")
        return math.inf, note(
            f"only {with_en} has {name} (step {step}).", f"只有{with_zh}有 {name}（第 {step} 步）。"
        )
    one, two = _plain(one), _plain(two)
    if one.shape != two.shape:
        return math.inf, note(
            f"{name} has shape {list(two.shape)} where the original's has {list(one.shape)}.",
            f"{name} 的形状是 {list(two.shape)}，而原模型的是 {list(one.shape)}。",
        )
    if dtype is not None and two.dtype != dtype:
        got, asked = str(two.dtype).removeprefix("torch."), str(dtype).removeprefix("torch.")
        return math.inf, note(
            f"{name} is {got} where {asked} was asked for.", f"{name} 是 {got}，而要求的是 {asked}。"
        )
    if not one.is_floating_point():
        if torch.equal(one, two.to(one.dtype)):
            return 0.0, None
        return math.inf, note(
            f"{name} holds other whole numbers than the original's after step {step}.",
            f"第 {step} 步之后，{name} 中的整数与原模型不同。",
        )
    one, two = one.double(), two.double()
    finite = one.isfinite()
    if not bool(finite.all()) or not bool(two.isfinite().all()):
        if not torch.equal(finite, two.isfinite()) or not torch.equal(
            one[~finite].nan_to_num(), two[~finite].nan_to_num()
        ):
            return math.inf, note(
                f"{name} has NaN or infinite values at other places than the original's (step {step}).",
                f"{name} 中 NaN 或无穷值的位置与原模型不同（第 {step} 步）。",
            )
        one, two = one[finite], two[finite]
    return float((one - two).norm()), None


def _norm(tensor: Tensor | None) -> float:
    if tensor is None or not tensor.is_floating_point():
        return 0.0
    values = _plain(tensor).double()
    finite = values.isfinite()
    return float((values if bool(finite.all()) else values[finite]).norm())


def _plain(tensor: Tensor) -> Tensor:
    """The numbers of a tensor: of a sparse one its entries, of a complex one both parts."""
    if tensor.layout == torch.sparse_coo:
        tensor = tensor.coalesce().values()
    elif tensor.layout != torch.strided:
        tensor = tensor.values()
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def _bits(tensor: Tensor) -> Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)
