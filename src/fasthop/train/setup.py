"""Setup: one value that every rung takes and returns: all that a recipe trains with."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from fasthop.errors import InvalidConfig
from fasthop.graph.note import Note, note
from fasthop.train.batching import Batch, Batches, FullBatch
from fasthop.train.compiled import CompiledForward
from fasthop.train.precision import Precision
from fasthop.train.step import Step
from fasthop.train.task import Task, takes_edge_weight

if TYPE_CHECKING:  # the baseline never runs it, and must not pay for the kernels' import
    from fasthop.train.fused import FusedStep


@dataclass(frozen=True, kw_only=True)
class Setup:
    """All that a recipe trains with. Frozen: a rung returns another by `dataclasses.replace`.

    original: the user's own model; it owns the parameters, is what is evaluated and whose state_dict
        is given back. Rungs never change it.
    model: the module that the step calls: `original` itself, or a copy of its structure that shares
        its parameters.
    batches: what an epoch iterates over. precision: what the step computes in.
    compiled: the CompiledForward around `model`, or None.
    exact: what the exact rungs have built so far; theirs alone to read. None before the first of them.
    make_step: makes the step where a rung has one of its own, or None.
    notes: sentences for the reader about what was done.
    """

    task: Task
    device: torch.device
    original: torch.nn.Module
    model: torch.nn.Module
    batches: Batches
    precision: Precision = field(default_factory=Precision)
    compiled: CompiledForward | None = None
    exact: Any = None
    make_step: Callable[[Setup], Step | FusedStep] | None = None
    notes: tuple[Note, ...] = ()

    @classmethod
    def baseline(cls, task: Task, *, seed: int, device: torch.device) -> Setup:
        """PyG full batch, exactly as written, with the parameters of `seed`.

        The graph of the task is on `device` already. Raises InvalidConfig where the model cannot be
        called with it or returns something else than logits for every node.
        """
        graph = task.graph
        if graph.x is None:
            raise InvalidConfig(
                f"The graph {graph.name!r} has no node features x, which the model needs as input."
            )
        model = task.build_model(seed).to(device)
        with_weight = graph.edge_weight is not None and takes_edge_weight(model)
        notes = tuple(graph.notes)
        if graph.edge_weight is not None and not with_weight:
            notes += (
                note(
                    f"The graph has edge weights and {type(model).__name__}.forward takes none: they are not used.",
                    f"图带有边权重，而 {type(model).__name__}.forward 不接受边权重：它们没有被使用。",
                ),
            )
        check_takes(model, with_weight=with_weight)
        batches = FullBatch.of(graph, with_weight=with_weight)
        setup = cls(task=task, device=device, original=model, model=model, batches=batches, notes=notes)
        check_output(setup.forward, batches.batch, graph.num_classes)
        # The check drew from the generator (dropout) and filled lazy layers: start again from the seed.
        setup.restart(seed)
        return setup

    def forward(self, batch: Batch) -> Tensor:
        """The model's output on a batch."""
        call: Callable[..., Tensor] = self.compiled if self.compiled is not None else self.model
        if batch.edge_weight is not None:
            return call(batch.x, batch.edges, edge_weight=batch.edge_weight)
        return call(batch.x, batch.edges)

    def step(self) -> Step | FusedStep:
        """A fresh step, with a fresh optimiser over the model's parameters."""
        if self.make_step is not None:
            return self.make_step(self)
        optimizer = self.task.optimizer.build(self.original.parameters())
        return Step(self.forward, self.task.loss, optimizer, self.precision, self.device)

    def restart(self, seed: int) -> None:
        """Puts parameters, buffers, batches and generators where `seed` starts, in place, so that what
        was compiled or prepared stays valid."""
        self.batches.restart(seed)
        fresh = self.task.build_model(seed).to(self.device)
        # Training goes on from the generator as the model's construction left it, as in a user's script.
        generator_state = torch.random.get_rng_state()
        if any(torch.nn.parameter.is_lazy(parameter) for parameter in fresh.parameters()):
            batch = FullBatch.of(self.task.graph, with_weight=False).batch
            with torch.no_grad():
                fresh(batch.x, batch.edges)
            torch.random.set_rng_state(generator_state)
        self.original.load_state_dict(fresh.state_dict())
        self.original.zero_grad()
        self.original.train()
        self.model.train()


def check_takes(model: torch.nn.Module, *, with_weight: bool) -> None:
    """Raises InvalidConfig where the model's `forward` cannot be called as fasthop calls it."""
    try:
        signature = inspect.signature(model.forward)
    except (TypeError, ValueError):  # compiled or native code that does not tell: the call itself will
        return
    arguments = {"edge_weight": None} if with_weight else {}
    try:
        signature.bind(None, None, **arguments)
    except TypeError as error:
        names = f"x, edge_index{', edge_weight' if with_weight else ''}"
        hint = " The graph has no edge_weight; give it one." if "edge_weight" in str(error) else ""
        raise InvalidConfig(
            f"{type(model).__name__}.forward{signature} cannot be called as forward({names}): {error}.{hint} Wrap the "
            "model in a module whose forward takes these."
        ) from None


def check_output(forward: Callable[[Batch], Tensor], batch: Batch, num_classes: int) -> None:
    """Raises InvalidConfig where the model's output is not logits `[N, C]`, in a sentence."""
    with torch.no_grad():
        out = forward(batch)
    if not isinstance(out, Tensor):
        raise InvalidConfig(
            f"The model returns {type(out).__name__}; it must return one tensor of logits [num_nodes, num_classes]."
        )
    num_nodes = batch.x.size(0)
    if out.dim() != 2 or out.size(0) != num_nodes or out.size(1) < num_classes:
        raise InvalidConfig(
            f"The model returns a tensor of shape {tuple(out.shape)}; with {num_nodes} nodes and {num_classes} "
            f"classes it must return logits of shape ({num_nodes}, {num_classes})."
        )
