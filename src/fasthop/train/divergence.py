"""Divergence: where the first number that is not finite comes from, and what the likely cause is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fasthop.errors import TrialFailed
from fasthop.train.batching import Batch, FullBatch
from fasthop.train.setup import Setup

# Parameters beyond these are not those of a training that goes well; Glorot's start below 1.
LARGE_PARAMETER = 1e3
LARGEST_FLOAT16 = 65504.0


class Diverged(TrialFailed):
    """A loss or a parameter is not finite any more.

    epoch, step: both from 1; the step counts within its epoch. place: the module or tensor where the first such number
    appeared, in words. cause: the likely cause, a sentence.
    """

    def __init__(self, message: str, *, epoch: int, step: int, place: str, cause: str) -> None:
        super().__init__(message)
        self.epoch, self.step, self.place, self.cause = epoch, step, place, cause


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """place: where the first number that is not finite appeared, in words; cause: why, a sentence."""

    place: str
    cause: str


def examine(setup: Setup, batch: Batch, *, scale: float = 1.0) -> Finding:
    """Runs forward, loss and backward on a batch with a watch on every module; nothing is updated.

    A model of exact rungs or a fused step is examined as the user wrote it, on the full batch: the mathematics is the same. scale:
    what a GradScaler multiplies the loss by.
    """
    model = setup.model
    if setup.exact is not None or model is setup.original:
        model = setup.original
        if isinstance(setup.batches, FullBatch):
            with_weight = batch.edge_weight is not None
            batch = FullBatch.of(setup.task.graph, with_weight=with_weight).batch
    found = _in_inputs(batch) or _in_parameters(model, "before the step")
    if found is not None:
        return found
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    grads = [(p, p.grad) for p in model.parameters()]
    try:
        for parameter in model.parameters():
            parameter.grad = None
        with _watched(model) as watch:
            return _run(setup, model, batch, watch, scale)
    finally:
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)
        for parameter, grad in grads:
            parameter.grad = grad


def _run(setup: Setup, model: torch.nn.Module, batch: Batch, watch: _Watch, scale: float) -> Finding:
    arguments: dict[str, Any] = dict(getattr(batch, "arguments", {}))
    if batch.edge_weight is not None:
        arguments["edge_weight"] = batch.edge_weight
    precision = setup.precision
    with precision.autocast(setup.device):
        out = model(batch.x, batch.edges, **arguments)
        loss = setup.task.loss(batch.select(out), batch.labels())
    if watch.output is not None:
        return Finding(place=f"the output of {watch.output}", cause=_cause_of_output(setup, model, batch))
    if not bool(torch.isfinite(loss)):
        return Finding(place="the loss", cause=_cause_of_loss(batch.select(out)))
    (loss * scale).backward()
    lr = setup.task.optimizer.lr
    place = f"the gradient of the output of {watch.gradient}" if watch.gradient is not None else None
    if place is None:
        place = next(
            (
                f"the gradient of {name}"
                for name, p in model.named_parameters()
                if p.grad is not None and not bool(torch.isfinite(p.grad).all())
            ),
            None,
        )
    if place is not None and precision.autocast_dtype is torch.float16:
        return Finding(
            place=place, cause=f"float16 overflowed (its largest number is {LARGEST_FLOAT16:,.0f})."
        )
    if place is not None:
        return Finding(
            place=place,
            cause="an operation whose gradient is infinite at 0 (a square root, a norm, a logarithm or a division), or "
            f"gradients that grew too large for the learning rate ({lr:g}).",
        )
    return Finding(
        place="the optimiser's update",
        cause=f"the learning rate ({lr:g}) is too high for these gradients; lower it, or clip them (clip_grad_norm).",
    )


def _cause_of_output(setup: Setup, model: torch.nn.Module, batch: Batch) -> str:
    lr = setup.task.optimizer.lr
    if setup.precision.autocast_dtype is torch.float16:
        return f"float16 overflowed (its largest number is {LARGEST_FLOAT16:,.0f}); take bfloat16, or scale x down."
    weight = batch.edge_weight
    if weight is not None and bool((weight.detach() < 0).any()):
        return (
            "edge_weight has negative values, and the degrees that a layer takes the root of become negative."
        )
    largest = max((float(p.detach().abs().max()) for p in model.parameters() if p.numel()), default=0.0)
    if largest > LARGE_PARAMETER:
        return (
            f"parameters grew to {largest:.2g}: the learning rate ({lr:g}) is too high; lower it, warm up, or clip the "
            "gradients (clip_grad_norm)."
        )
    x = batch.x.detach()
    values = x if x.layout is torch.strided else x.to_sparse_coo().coalesce().values()
    top = float(values.abs().max()) if values.numel() else 0.0
    if top > 1e6:
        return f"x has values up to {top:.2g}; normalise it."
    return "the layer divides by 0, or takes the logarithm or root of what it must not, on this batch."


def _cause_of_loss(out: Tensor) -> str:
    out = out.detach()
    if bool(((out >= 0) & (out <= 1)).all()) and bool((out == 0).any()):
        return "the loss takes the logarithm of 0: the model returns probabilities with zeros; return logits, or clamp them."
    return "the model's outputs are finite and the loss of them is not: a logarithm of 0, or a division by 0, in the loss."


def _in_inputs(batch: Batch) -> Finding | None:
    x = batch.x.detach()
    if x.layout is torch.strided:
        wrong = (~torch.isfinite(x)).nonzero()
        values = x
    else:
        coo = x.to_sparse_coo().coalesce()
        values = coo.values()
        wrong = coo.indices().t()[~torch.isfinite(values)]
    if wrong.numel():
        at = ", ".join(str(int(i)) for i in wrong[0])
        number = float(values[tuple(wrong[0])]) if x.layout is torch.strided else float("nan")
        count = f", and {len(wrong) - 1:,} more" if len(wrong) > 1 else ""
        return Finding(
            place=f"x[{at}], which is {number}{count}",
            cause="the features x have values that are not finite; repair the data (fasthop check finds them).",
        )
    weight = batch.edge_weight
    if weight is not None and not bool(torch.isfinite(weight.detach()).all()):
        at = int((~torch.isfinite(weight.detach())).nonzero()[0][0])
        return Finding(
            place=f"edge_weight[{at}]",
            cause="the edge weights have values that are not finite; repair the data (fasthop check finds them).",
        )
    return None


def _in_parameters(model: torch.nn.Module, when: str) -> Finding | None:
    for name, parameter in model.named_parameters():
        if not bool(torch.isfinite(parameter.detach()).all()):
            return Finding(
                place=f"the parameter {name}, {when}",
                cause="the optimiser had made it so in the step before; lower the learning rate, or clip the gradients "
                "(clip_grad_norm).",
            )
    return None


class _Watch:
    """output: the first module whose output is not finite; gradient: whose output's gradient is not."""

    def __init__(self) -> None:
        self.output: str | None = None
        self.gradient: str | None = None


@contextmanager
def _watched(model: torch.nn.Module) -> Iterator[_Watch]:
    watch = _Watch()
    handles = []

    def hook_of(name: str) -> Any:
        def seen(module: torch.nn.Module, inputs: Any, out: Any) -> None:
            title = f"{name} ({type(module).__name__})" if name else f"the model ({type(module).__name__})"
            for tensor in _tensors(out):
                if watch.output is None and not bool(torch.isfinite(tensor.detach()).all()):
                    watch.output = title
                if tensor.requires_grad:
                    tensor.register_hook(lambda grad: grad_seen(title, grad))

        return seen

    def grad_seen(title: str, grad: Tensor) -> None:
        if watch.gradient is None and not bool(torch.isfinite(grad).all()):
            watch.gradient = title

    try:
        handles += [part.register_forward_hook(hook_of(name)) for name, part in model.named_modules()]
        yield watch
    finally:
        for handle in handles:
            handle.remove()


def _tensors(out: Any) -> list[Tensor]:
    if isinstance(out, Tensor):
        return [out] if out.is_floating_point() and out.layout is torch.strided else []
    if isinstance(out, (tuple, list)):
        return [tensor for entry in out for tensor in _tensors(entry)]
    return []
