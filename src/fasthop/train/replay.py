"""Replay: the steps since the last checkpoint once more, to find the one that left the finite numbers and look into it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from fasthop.train.batching import Batch
from fasthop.train.divergence import Diverged, Finding, examine
from fasthop.train.setup import Setup
from fasthop.train.state import copied, load_model, model_tensors

UNSEEN = Finding(
    place="a step that could not be repeated",
    cause="the device sums in another order each time; lower the learning rate, or clip the gradients (clip_grad_norm).",
)


def replayed(
    setup: Setup,
    step: Callable[[], Any],
    *,
    back: Callable[[], int],
    between: Callable[[], None],
    what: str,
    until: tuple[int, int],
    safe: int | None,
) -> Diverged:
    """The Diverged that tells what happened.

    back: puts everything to the last checkpoint, or the start, and returns its epoch. step: gives the step to be called.
    between: what happens between two epochs. what: what was noticed; until: (epoch, step) where it was. safe: the epoch of
    the checkpoint that stands, or None. A training is the same every time (bit for bit on a CPU), so that nothing need be
    kept for this while it goes well.
    """
    try:
        epoch, number, finding = _found(setup, step, back, between, until)
    except (
        RuntimeError,
        MemoryError,
        ValueError,
        TypeError,
    ) as error:  # a cause is never worth losing the message
        epoch, number = until
        finding = Finding(
            place="a step that could not be examined", cause=f"({' '.join(str(error).split())[:200]})"
        )
    stands = (
        f"The checkpoint of epoch {safe} is good, and stands."
        if safe is not None
        else "No checkpoint was kept (out is not set)."
    )
    message = (
        f"Training stopped at epoch {epoch}, step {number}: {what}. The first number that is not finite is in {finding.place}. "
        f"Likely cause: {finding.cause} {stands}"
    )
    return Diverged(message, epoch=epoch, step=number, place=finding.place, cause=finding.cause)


def _found(
    setup: Setup,
    step: Callable[[], Any],
    back: Callable[[], int],
    between: Callable[[], None],
    until: tuple[int, int],
) -> tuple[int, int, Finding]:
    epoch = back()
    while epoch < until[0]:
        epoch += 1
        for number, batch in enumerate(setup.batches, 1):
            if (found := _one(setup, step(), batch)) is not None:
                return epoch, number, found
            if (epoch, number) >= until:
                return epoch, number, UNSEEN
        between()
    return *until, UNSEEN


def _one(setup: Setup, step: Any, batch: Batch) -> Finding | None:
    before = copied(model_tensors(setup.original))
    generator = torch.random.get_rng_state()
    skipped = step.num_skipped
    loss: Tensor = step(batch)
    scaler = getattr(step, "scaler", None)
    was_skipped = step.num_skipped > skipped
    # A scaler that still falls is looking for its place: only where it is low is the skipping itself the fault.
    if was_skipped and scaler is not None and float(scaler.get_scale()) >= 1.0:
        return None
    if not was_skipped and math.isfinite(float(loss)) and _all_finite(setup.original):
        return None
    load_model(setup.original, before)
    torch.random.set_rng_state(generator)
    return examine(setup, batch, scale=1.0 if scaler is None else float(scaler.get_scale()))


def _all_finite(model: torch.nn.Module) -> bool:
    return all(bool(torch.isfinite(p.detach()).all()) for p in model.parameters() if p.is_floating_point())
