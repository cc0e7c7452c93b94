"""Accelerated: what `accelerate` gives back: the fast model and its data, the verdicts, and the fastest way to train."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fasthop.errors import InvalidConfig
from fasthop.graph.graph import Graph
from fasthop.graph.note import Note
from fasthop.rewrites.exact.build import Built
from fasthop.rewrites.exact.fast_model import FastModel
from fasthop.rewrites.exact.fused import FusedForward
from fasthop.rewrites.exact.rung import batch_of
from fasthop.search.fast_data import FastData
from fasthop.search.pace import Pace
from fasthop.train.batching import FullBatch
from fasthop.train.evaluate import Accuracies, accuracies_of
from fasthop.train.fused import FusedStep
from fasthop.train.loop import run_epoch
from fasthop.train.metric import metric_of
from fasthop.train.mode import evaluating
from fasthop.train.objective import loss_of
from fasthop.train.precision import Precision
from fasthop.train.presented import first_of
from fasthop.train.step import Step
from fasthop.train.task import OPTIMIZERS, Loss, OptimizerConfig
from fasthop.verify.verdict import Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class Trained:
    """What a call of `train` did. losses: of each epoch. fused: whether the compiled step ran, and why not where it did not."""

    losses: tuple[float, ...]
    fused: bool
    why_not_fused: str | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Accelerated:
    """A fast form of the user's model for the user's data.

    model: what the training loop calls; its parameters are the user's own. data: what it is called with, and the labels
    of the rows that come back in train mode. used: the rungs in it. verdicts: what was proven of each, by name. skipped: why each
    other rung is not in it. pace: a step of both, measured by turns, or None. cost_s: what it all took.
    """

    model: FastModel
    data: FastData
    used: tuple[str, ...]
    verdicts: Mapping[str, Verdict]
    skipped: Mapping[str, Note]
    pace: Pace | None
    cost_s: float
    proven: bool
    built: Built
    graph: Graph
    stack: FusedForward | None

    @property
    def break_even_epochs(self) -> float | None:
        """Training steps after which the cost is earned back; None where the fast model is not the faster one."""
        return None if self.pace is None else self.pace.break_even_epochs(self.cost_s)

    def train(
        self,
        *,
        epochs: int,
        optimizer: str | OptimizerConfig | torch.optim.Optimizer = "adam",
        lr: float = 0.01,
        weight_decay: float = 5e-4,
        loss: str | Loss | None = None,
    ) -> Trained:
        """Trains the user's parameters full batch for `epochs` by the fastest path, one step an epoch. Of several values that the
        model returns the first is the logits.

        optimizer: "adam", "adamw" or "sgd" with lr and weight_decay, an OptimizerConfig, or an optimiser over the parameters
        that already exists: then that one steps, with its state, and the compiled step stays out of the way. loss:
        "cross_entropy", "nll", "bce", or a callable (logits [n, C], labels) to a scalar; None goes by the labels. After Ctrl-C the parameters are those of the last whole step.
        Raises InvalidConfig for what is none of these.
        """
        if not isinstance(epochs, int) or isinstance(epochs, bool) or epochs < 0:
            raise InvalidConfig(f"epochs is {epochs!r}; it is a whole number of at least 0.")
        if isinstance(optimizer, str):
            optimizer = OptimizerConfig(name=optimizer, lr=lr, weight_decay=weight_decay)
        if not isinstance(optimizer, OptimizerConfig | torch.optim.Optimizer):
            raise InvalidConfig(
                f"optimizer is {type(optimizer).__name__}; it is one of {', '.join(OPTIMIZERS)}, an OptimizerConfig "
                "or a torch optimiser."
            )
        step, why_not = self._step(optimizer, loss_of(loss, self.graph, None, 0.0)[0])
        was_training = self.model.training
        self.model.train()
        batches = self._batches()
        try:
            losses = [float(run_epoch(step, batches)) for _ in range(epochs)]
        finally:
            self.model.train(was_training)
        return Trained(losses=tuple(losses), fused=why_not is None, why_not_fused=why_not)

    @torch.no_grad()
    def evaluate(self, metric: str | Callable[[Tensor, Tensor], float] | None = None) -> Accuracies:
        """A metric on each mask in percent, all neighbours taken, in eval mode; NaN for an empty mask.

        metric: "accuracy" (of the nodes that are classified right), "macro_f1", "roc_auc", "average_precision", or a callable
        (logits, labels) to a number; None is accuracy, and roc_auc where nodes have several labels."""
        with evaluating(self.model):
            out = first_of(self.model(*self.data.inputs))
        return accuracies_of(out, self.graph, metric_of(metric, self.graph))

    def _batches(self) -> FullBatch:
        full = FullBatch.of(self.graph, with_weight=self.data.edge_weight is not None)
        return FullBatch(batch_of(self.graph, full.batch, self.built))

    def _step(
        self, optimizer: OptimizerConfig | torch.optim.Optimizer, loss: Loss
    ) -> tuple[Step | FusedStep, str | None]:
        why_not = self._not_fused(optimizer, loss)
        if why_not is None and self.stack is not None and isinstance(optimizer, OptimizerConfig):
            labels = self._batches().batch.labels()
            stack = self.stack.for_loss(self.built, self.graph.train_mask)
            return FusedStep(stack, labels=labels, optimizer=optimizer), None
        device = self.graph.edge_index.device
        built = (
            optimizer.build(self.model.parameters()) if isinstance(optimizer, OptimizerConfig) else optimizer
        )
        takes_weight = self.data.edge_weight is not None

        def forward(batch: Any) -> torch.Tensor:
            weight = (batch.edge_weight,) if takes_weight else ()
            return first_of(self.model(batch.x, batch.edges, *weight))

        return Step(forward, loss, built, Precision(), device), why_not

    def _not_fused(self, optimizer: OptimizerConfig | torch.optim.Optimizer, loss: Loss) -> str | None:
        if self.stack is None:
            reason = self.skipped.get("fused_step")
            return reason["en"] if reason is not None else "The rung fused_step is not in use."
        if isinstance(optimizer, torch.optim.Optimizer):
            return "An optimiser that exists has state of its own, which the compiled step would not move."
        if (
            loss not in (F.cross_entropy, F.nll_loss)
            or (loss is F.nll_loss) != self.stack.ends_in_log_softmax
        ):
            return "The compiled step has the cross-entropy only."
        if self.model.stale:
            return "The model was changed since it was accelerated."
        return None

    def __str__(self) -> str:
        from fasthop.search.account import account

        return account(self)
