"""A trace: what a subject gives over several optimiser steps: outputs, gradients, buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from fasthop.train.task import seed_everything
from fasthop.verify.intercept import dropout_off
from fasthop.verify.subject import Subject

STRIDE = 0.1
"""How far the first step moves the parameters, of their norm. It is much more than training does, so that what is stale
(a cache of parameters or of what they made) is off by a tenth, not by something that passes for rounding."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TracedStep:
    """One step. out: the returned rows. gradients: by parameter; None where nothing reached it."""

    out: Tensor
    gradients: dict[str, Tensor | None]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Trace:
    """All steps of a subject. buffers and prediction (eval mode): after the last step.

    path: the parameters before each step, in the dtype of the grid (empty where it was given). rate: the learning rate.
    """

    steps: tuple[TracedStep, ...]
    buffers: dict[str, Tensor]
    prediction: Tensor | None
    path: tuple[dict[str, Tensor], ...]
    rate: float


def trace(
    subject: Subject,
    *,
    num_steps: int,
    seed: int,
    grid: torch.dtype,
    rate: float | None = None,
    path: Sequence[Mapping[str, Tensor]] | None = None,
    random_seed: int | None = None,
    with_dropout: bool = False,
) -> Trace:
    """Trains the subject for num_steps and returns what it gave.

    The loss of a step is (out * cotangent).sum() with a normal cotangent that seed and step decide: drawn in float64 and
    rounded to `grid`, so that it is the same number on every side. Parameters are rounded to `grid` too, before each step.
    They are moved by SGD on their own gradients with `rate` (None: such that the first step moves them by STRIDE),
    or, where a `path` is given, put where it says: two precisions are then compared at the very same points.

    random_seed: seeds the generators before each step (default: seed). with_dropout: leaves dropout on.
    Changes the parameters; their `.grad` is None afterwards. What the subject raises passes through; TypeError where it
    returns no tensor.
    """
    parameters = {name: p for name, p in subject.parameters.items() if p.requires_grad}
    optimizer: torch.optim.Optimizer | None = None
    steps: list[TracedStep] = []
    visited: list[dict[str, Tensor]] = []
    noise = seed if random_seed is None else random_seed
    with torch.enable_grad(), nullcontext() if with_dropout else dropout_off():
        for step in range(num_steps):
            _place(parameters, grid, None if path is None else path[step])
            if path is None:
                visited.append({name: p.detach().to(grid, copy=True) for name, p in parameters.items()})
            seed_everything(noise + step)
            traced = _step(subject, parameters, grid, cotangent_seed=seed + step)
            steps.append(traced)
            if path is None and step + 1 < num_steps and parameters:
                rate = _rate(parameters) if rate is None else rate
                optimizer = optimizer or torch.optim.SGD(list(parameters.values()), lr=rate)
                optimizer.step()
            for parameter in parameters.values():
                parameter.grad = None
        buffers = {name: buffer.detach().clone() for name, buffer in subject.buffers().items()}
        prediction = None
        if subject.predict is not None:
            with torch.no_grad():
                prediction = subject.predict().detach().clone()
    return Trace(
        steps=tuple(steps), buffers=buffers, prediction=prediction, path=tuple(visited), rate=rate or 0.0
    )


@torch.no_grad()
def _place(parameters: Mapping[str, Tensor], grid: torch.dtype, point: Mapping[str, Tensor] | None) -> None:
    for name, parameter in parameters.items():
        parameter.copy_(parameter.to(grid) if point is None else point[name])


def _step(
    subject: Subject, parameters: Mapping[str, Tensor], grid: torch.dtype, *, cotangent_seed: int
) -> TracedStep:
    for parameter in parameters.values():
        parameter.grad = None
    out = subject.forward()
    if not isinstance(out, Tensor):
        raise TypeError(f"the forward pass returned {type(out).__name__}, and a proof compares one tensor.")
    generator = torch.Generator().manual_seed(cotangent_seed)
    cotangent = torch.randn(out.shape, dtype=torch.float64, generator=generator).to(grid)
    # Taken before the backward pass, which may write over it.
    kept = out.detach().clone()
    if out.requires_grad:
        (subject.backward or Tensor.backward)(out, cotangent.to(out))
    gradients = {
        name: None if p.grad is None else p.grad.detach().to_dense().clone() for name, p in parameters.items()
    }
    return TracedStep(out=kept, gradients=gradients)


def _rate(parameters: Mapping[str, Tensor]) -> float:
    size = _norm(list(parameters.values()))
    gradient = _norm([p.grad for p in parameters.values() if p.grad is not None])
    rate = STRIDE * (size or 1.0) / gradient if gradient > 0 else 0.0
    return rate if rate == rate and rate != float("inf") else 0.0


def _norm(tensors: Sequence[Tensor]) -> float:
    return sum(float(tensor.detach().double().norm()) ** 2 for tensor in tensors) ** 0.5
