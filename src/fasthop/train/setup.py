"""Setup: one value that every rung takes and returns: all that a recipe trains with."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from fasthop.errors import InvalidConfig
from fasthop.graph.graph import Graph
from fasthop.graph.note import Note, note
from fasthop.train.batching import Batch, Batches, FullBatch
from fasthop.train.compiled import CompiledForward
from fasthop.train.generators import kept_generators
from fasthop.train.mode import evaluating
from fasthop.train.objective import check_output_for
from fasthop.train.precision import Precision
from fasthop.train.presented import completed, notes_of
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
        notes = (*graph.notes, *task.notes, *notes_of(model))
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
        out = setup._first_output()
        call, said = completed(task.call, out)
        if call != task.call:
            task = dataclasses.replace(task, call=call)
            model = task.build_model(seed).to(device)
            setup = dataclasses.replace(setup, task=task, original=model, model=model, notes=notes + said)
            out = setup._first_output()
        said = (*check_output(out, graph), *check_output_for(task.loss, out, graph))
        setup = dataclasses.replace(setup, notes=setup.notes + said)
        # The check drew from the generator (dropout) and filled lazy layers: start again from the seed.
        setup.restart(seed)
        return setup

    def forward(self, batch: Batch) -> Tensor:
        """The model's output on a batch."""
        call: Callable[..., Tensor] = self.compiled if self.compiled is not None else self.model
        if batch.edge_weight is not None:
            return call(batch.x, batch.edges, edge_weight=batch.edge_weight, **batch.arguments)
        return call(batch.x, batch.edges, **batch.arguments)

    @torch.no_grad()
    def _first_output(self) -> Any:
        (batch,) = self.batches
        return self.forward(batch)

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
        # Training goes on from the generators as the model's construction left them, as in a user's script.
        if any(torch.nn.parameter.is_lazy(parameter) for parameter in fresh.parameters()):
            graph = self.task.graph
            with_weight = graph.edge_weight is not None and takes_edge_weight(fresh)
            filling = dataclasses.replace(
                self, model=fresh, compiled=None, batches=FullBatch.of(graph, with_weight=with_weight)
            )
            # In eval mode: filling a lazy layer must not move running statistics.
            with kept_generators(), evaluating(fresh):
                filling._first_output()
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
            f"{type(model).__name__}.forward{signature} cannot be called as forward({names}): {error}.{hint} Give the graph "
            "an attribute of that name, say what it is with forward_args={'name': ...} (--forward-arg name=attribute), or wrap "
            "the model in a module whose forward takes these."
        ) from None


def check_output(out: Any, graph: Graph) -> tuple[Note, ...]:
    """What is to be said of a model's output; raises InvalidConfig where it is not logits `[N, C]`, in a sentence."""
    num_nodes, num_classes = graph.num_nodes, graph.num_classes
    if not isinstance(out, Tensor):
        raise InvalidConfig(
            f"The model returns {type(out).__name__}; it must return one tensor of logits [num_nodes, num_classes], or several "
            "values of which output= (--output) names one."
        )
    shape = f"a tensor of shape {tuple(out.shape)}; with {num_nodes} nodes and {num_classes}"
    if out.dim() != 2 or out.size(0) != num_nodes:
        raise InvalidConfig(
            f"The model returns {shape} classes it must return logits of shape ({num_nodes}, {num_classes})."
        )
    if out.size(1) < num_classes or (graph.is_multilabel and out.size(1) != num_classes):
        raise InvalidConfig(
            f"The model returns {shape} classes it must return logits of shape ({num_nodes}, {num_classes}). If these are "
            "embeddings, head=True (--head) puts a linear layer to the classes behind them."
        )
    if out.size(1) > num_classes:
        return (
            note(
                f"The model returns {out.size(1)} outputs a node, and the graph has {num_classes} classes. If these are "
                "embeddings, head=True (--head) puts a linear layer to the classes behind them.",
                f"模型每个节点返回 {out.size(1)} 个输出，而图只有 {num_classes} 个类别。若这些是嵌入，head=True（--head）会在其后加一个线性层。",
            ),
        )
    return ()
