"""The step: forward, loss, backward and the optimiser on one batch. The loop is handed one of these."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fasthop.train.batching import Batch
from fasthop.train.precision import Precision
from fasthop.train.task import Loss


class Step:
    """One step of training, as a PyG user writes it.

    Calling it with a batch runs zero_grad, forward and loss under the precision's autocast,
    backward and the optimiser, and returns the detached loss (a 0-d tensor, not yet waited for).
    `num_skipped` counts the steps that a GradScaler left out because a gradient was not finite.
    """

    def __init__(
        self,
        forward: Callable[[Batch], Tensor],
        loss: Loss,
        optimizer: torch.optim.Optimizer,
        precision: Precision,
        device: torch.device,
    ) -> None:
        self.forward = forward
        self.loss = loss
        self.optimizer = optimizer
        self.precision = precision
        self.device = device
        self.num_calls = 0
        self._num_updates = 0
        self._scaler = precision.scaler(device)
        if self._scaler is not None:
            # The scaler calls optimizer.step only where every gradient is finite, so counting the
            # calls that reach it counts the skipped ones, without a wait for the device of our own.
            optimizer.register_step_post_hook(self._count_update)

    def __call__(self, batch: Batch) -> Tensor:
        self.num_calls += 1
        self.optimizer.zero_grad()
        with self.precision.autocast(self.device):
            out = self.forward(batch)
            loss = self.loss(batch.select(out), batch.labels())
        if self._scaler is None:
            loss.backward()
            self.optimizer.step()
        else:
            self._scaler.scale(loss).backward()
            self._scaler.step(self.optimizer)
            self._scaler.update()
        return loss.detach()

    @property
    def num_skipped(self) -> int:
        """How many steps the GradScaler skipped; 0 without one."""
        return self.num_calls - self._num_updates if self._scaler is not None else 0

    def _count_update(self, *_: object) -> None:
        self._num_updates += 1
