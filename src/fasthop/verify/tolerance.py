"""What an exact rewrite may be off by, and the leg that comes of holding its deviations against that."""

from __future__ import annotations

import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from fasthop.graph.note import Note, note
from fasthop.verify.deviation import Deviation, deviations, different_bits
from fasthop.verify.trace import Trace
from fasthop.verify.verdict import Leg

FLOAT64 = 1e-9
"""The tolerance in float64. Summing in another order leaves 1e-16 to 1e-14; an error of one part in a million is 1e-6."""

FACTOR = 4.0
"""In run precision a candidate may be this many times as far from float64 as the original is."""

ROUNDINGS_FLOAT64, ROUNDINGS_RUN = 64, 8
"""So many units of rounding (eps) of all gradients together are rounding, whatever a tensor's own size. Gradients that
cancel (a bias's before BatchNorm) were off by up to 3 of them in float64 and 16 in float32 on graphs of 20,000 nodes; in
float32 the original's own distance covers what is above 8."""

JUMP = 0.02
"""The most that a gradient may be off in a single step in run precision. Rounding puts some numbers on the other side of a
kink (ReLU, max), where the gradient jumps: by 1e-4 to 4e-3, in about every step on 20,000 nodes x 64 channels. So a
gradient's best step is held against FACTOR, and every step against this. Float64 has no such luck to allow for."""

KINDS = ("out", "grad", "buffer", "prediction")


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """A deviation held against the most that it may be, both as shares of its scale."""

    deviation: Deviation
    tolerance: float
    reference_error: float | None = None

    @property
    def share(self) -> float:
        """The error over the tolerance: above 1 is too much."""
        if self.deviation.error == 0:
            return 0.0
        return self.deviation.error / self.tolerance if self.tolerance > 0 else math.inf


def float64_leg(found: Sequence[Deviation]) -> tuple[Leg, Note | None]:
    """The leg in float64, and the reason where it failed."""
    rounding = ROUNDINGS_FLOAT64 * torch.finfo(torch.float64).eps
    held = [Held(deviation=d, tolerance=max(FLOAT64, d.share(rounding * d.whole))) for d in found]
    return _leg("float64", torch.float64, held)


def run_leg(
    found: Sequence[Deviation], reference: Sequence[Deviation], dtype: torch.dtype
) -> tuple[Leg, Note | None]:
    """The leg in run precision: both sides' deviations from the original in float64."""
    rounding = ROUNDINGS_RUN * torch.finfo(dtype).eps
    own: dict[tuple[str, str], float] = defaultdict(float)
    for d in reference:
        own[d.kind, d.name] = max(own[d.kind, d.name], d.distance)
    # A gradient of few numbers may come out right by luck; the others show how right it can be.
    level = statistics.median([distance for (kind, _), distance in own.items() if kind == "grad"] or [0.0])
    by_name: dict[tuple[str, str], list[Held]] = defaultdict(list)
    for d in found:
        distance = own[d.kind, d.name]
        allowed = FACTOR * (max(distance, level) if d.kind == "grad" else distance)
        tolerance = d.share(max(allowed, rounding * d.whole))
        held = Held(deviation=d, tolerance=tolerance, reference_error=d.share(distance))
        by_name[d.kind, d.name].append(held)
    chosen: list[Held] = []
    for (kind, _), steps in by_name.items():
        if kind != "grad":
            chosen += steps
            continue
        chosen.append(min(steps, key=lambda held: held.share))
        for step in steps:
            if step.deviation.error > max(step.tolerance, JUMP):
                chosen.append(
                    Held(deviation=step.deviation, tolerance=JUMP, reference_error=step.reference_error)
                )
    return _leg("run precision", dtype, chosen)


def bitwise_leg(reference: Trace, other: Trace, dtype: torch.dtype) -> tuple[Leg, Note | None]:
    """The leg of what claims equal bits, in run precision; the tolerance is 0."""
    held = [Held(deviation=d, tolerance=0.0) for d in deviations(reference, other)]
    leg, reason = _leg("run precision", dtype, held)
    if reason is not None:
        return leg, reason
    for name, one, two in _pairs(reference, other):
        if different_bits(one, two):  # equal as numbers: another dtype, a zero's sign, a NaN's bits
            error = sys.float_info.min
            failed = Leg(
                kind=leg.kind,
                dtype=leg.dtype,
                error=error,
                tolerance=0.0,
                worst=name,
                num_tensors=leg.num_tensors,
                num_steps=leg.num_steps,
            )
            return failed, note(
                f"{name} has equal numbers in other bits (dtype, or the sign of a zero).",
                f"{name} 的数值相同但位不同（数据类型或零的符号）。",
            )
    return leg, None


def _pairs(reference: Trace, other: Trace) -> list[tuple[str, torch.Tensor | None, torch.Tensor | None]]:
    pairs: list[tuple[str, torch.Tensor | None, torch.Tensor | None]] = []
    for one, two in zip(reference.steps, other.steps, strict=True):
        pairs.append(("out", one.out, two.out))
        pairs += [(f"{name}.grad", g, two.gradients.get(name)) for name, g in one.gradients.items()]
    pairs += [(name, buffer, other.buffers.get(name)) for name, buffer in reference.buffers.items()]
    return [*pairs, ("prediction", reference.prediction, other.prediction)]


def _leg(kind: str, dtype: torch.dtype, held: Sequence[Held]) -> tuple[Leg, Note | None]:
    failed = [entry for entry in held if entry.share > 1 or entry.deviation.fault is not None]
    if failed:  # the first step that fails says most: what follows from it is off too
        first = min(entry.deviation.step for entry in failed)
        failed = [entry for entry in failed if entry.deviation.step == first]
        worst = min(failed, key=lambda entry: (KINDS.index(entry.deviation.kind), -entry.share))
    else:
        worst = max(held, key=lambda entry: entry.share)
    deviation = worst.deviation
    leg = Leg(
        kind=kind,
        dtype=str(dtype).removeprefix("torch."),
        error=deviation.error,
        tolerance=worst.tolerance,
        worst=deviation.name,
        num_tensors=len({(entry.deviation.kind, entry.deviation.name) for entry in held}),
        num_steps=max(entry.deviation.step for entry in held),
        reference_error=worst.reference_error,
    )
    return leg, _reason(leg, deviation) if failed else None


def _reason(leg: Leg, deviation: Deviation) -> Note:
    if deviation.fault is not None:
        fault = deviation.fault
        return note(f"in {leg.dtype}, {fault['en']}", f"{leg.dtype} 下，{fault['zh']}")
    step = deviation.step
    limit = f"{leg.tolerance:.1e}" if leg.tolerance > 0 else "0"
    return note(
        f"in {leg.dtype}, {leg.worst} is off by {leg.error:.1e} at step {step} (at most {limit}).",
        f"{leg.dtype} 下，{leg.worst} 在第 {step} 步的误差为 {leg.error:.1e}（最多允许 {limit}）。",
    )
