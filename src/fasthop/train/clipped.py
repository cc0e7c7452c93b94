"""ClippedStep: a Step that bounds the norm of the gradients."""

from __future__ import annotations

from typing import Any

import torch

from fasthop.train.setup import Setup
from fasthop.train.step import Step


class ClippedStep(Step):
    """A `Step` whose gradients are scaled down together where their norm is above `clip_grad_norm` (Pascanu, Mikolov and
    Bengio 2013), after a GradScaler's factor is taken off. Not finite norms are left to whoever watches the loss."""

    def __init__(self, *arguments: Any, clip_grad_norm: float) -> None:
        super().__init__(*arguments)
        self.clip_grad_norm = clip_grad_norm
        self._parameters = [p for group in self.optimizer.param_groups for p in group["params"]]

    def before_update(self) -> None:
        """Clips."""
        if self._scaler is not None:
            self._scaler.unscale_(self.optimizer)
        torch.nn.utils.clip_grad_norm_(self._parameters, self.clip_grad_norm)


def clipped_step(setup: Setup, clip_grad_norm: float) -> ClippedStep:
    """A fresh clipped step of a setup that has no step of its own."""
    optimizer = setup.task.optimizer.build(setup.original.parameters())
    return ClippedStep(
        setup.forward,
        setup.task.loss,
        optimizer,
        setup.precision,
        setup.device,
        clip_grad_norm=clip_grad_norm,
    )
