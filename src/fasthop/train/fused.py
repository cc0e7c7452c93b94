"""FusedStep: the step of a model that was recognised as a stack, in one compiled call."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from fasthop.kernels.stack.stack import Stack
from fasthop.kernels.stack.training import Optimizer, StackTraining
from fasthop.train.batching import Batch
from fasthop.train.task import OptimizerConfig


class FusedStep:
    """Forward, mean cross-entropy, backward and optimiser of a stack over its own inputs; a Step for the loop.

    stack: its output's rows are those that enter the loss. labels: int64, one for each of them. optimizer: what `Step` would build
    from it, torch's defaults included; its state lies here and starts from nothing. The stack's parameters are updated in
    place, so they are to be the model's own. `p.grad` stays untouched, so clipping, schedulers and hooks do not apply.
    Calling it takes the batch that the loop hands over and does not look at it: the stack holds its inputs. It
    returns the loss before the update, a 0-d tensor. `num_skipped` is 0: no GradScaler is involved.
    Raises InvalidConfig for labels that do not fit, or where nothing can be trained.
    """

    num_skipped = 0

    def __init__(self, stack: Stack, labels: Tensor, optimizer: OptimizerConfig) -> None:
        settings = Optimizer(kind=optimizer.name, lr=optimizer.lr, weight_decay=optimizer.weight_decay)
        self.training = StackTraining(stack, labels=labels, optimizer=settings)
        self.num_calls = 0

    def __call__(self, batch: Batch | None = None) -> Tensor:
        self.num_calls += 1
        return self.training.step()

    def restart(self) -> None:
        """Forgets the optimiser's state, as a fresh optimiser would; the parameters stay."""
        self.training.restart()

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What a step carries to the next one: the optimiser's counts and its moments, in the stack's own order."""
        moments = self.training.state
        tensors = {} if moments is None else {"first": moments[0], "second": moments[1]}
        return {"kind": "fused", "num_calls": self.num_calls, "num_steps": self.training.num_steps}, tensors

    def load_state(self, state: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Takes over what `state` gave."""
        moments = (tensors["first"], tensors["second"]) if tensors else None
        self.training.load_state(state["num_steps"], moments)
        self.num_calls = state["num_calls"]
