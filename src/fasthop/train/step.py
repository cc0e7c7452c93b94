"""The step: forward, loss, backward and the optimiser on one batch. The loop is handed one of these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
            self.before_update()
            self.optimizer.step()
        else:
            self._scaler.scale(loss).backward()
            self.before_update()
            self._scaler.step(self.optimizer)
            self._scaler.update()
        return loss.detach()

    def before_update(self) -> None:
        """Between backward and the optimiser; nothing here."""

    @property
    def scaler(self) -> torch.amp.GradScaler | None:
        """The GradScaler, or None."""
        return self._scaler

    @property
    def num_skipped(self) -> int:
        """How many steps the GradScaler skipped; 0 without one."""
        return self.num_calls - self._num_updates if self._scaler is not None else 0

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What a step carries to the next one, as JSON knows it and as tensors: optimiser, scaler, counts."""
        optimizer = self.optimizer.state_dict()
        tensors: dict[str, Tensor] = {}
        scalars: dict[str, dict[str, Any]] = {}
        for number, entries in optimizer["state"].items():
            scalars[str(number)] = {k: v for k, v in entries.items() if not isinstance(v, Tensor)}
            tensors |= {f"{number}.{k}": v for k, v in entries.items() if isinstance(v, Tensor)}
        state: dict[str, Any] = {"kind": "torch", "scalars": scalars, "groups": optimizer["param_groups"]}
        state |= {"num_calls": self.num_calls, "num_updates": self._num_updates}
        if self._scaler is not None:
            state["scaler"] = self._scaler.state_dict()
        return state, tensors

    def load_state(self, state: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Takes over what `state` gave."""
        entries: dict[int, dict[str, Any]] = {int(k): dict(v) for k, v in state["scalars"].items()}
        for name, tensor in tensors.items():
            number, _, key = name.partition(".")
            entries[int(number)][key] = tensor
        self.optimizer.load_state_dict({"state": entries, "param_groups": state["groups"]})
        self.num_calls, self._num_updates = state["num_calls"], state["num_updates"]
        if self._scaler is not None and state.get("scaler"):
            self._scaler.load_state_dict(state["scaler"])

    def _count_update(self, *_: object) -> None:
        self._num_updates += 1
