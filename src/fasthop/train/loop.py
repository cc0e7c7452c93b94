"""The loop: epochs of a step over batches. It has no flags; what differs lies in the step and the batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from fasthop.train.batching import Batch


def run_epoch(step: Callable[[Batch], Tensor], batches: Iterable[Batch]) -> Tensor:
    """One epoch: the step on every batch, in order. Returns the last loss, not yet waited for.

    Every step waits for nothing on a GPU; who times an epoch synchronises after it.
    """
    loss = torch.zeros(())
    for batch in batches:
        loss = step(batch)
    return loss
