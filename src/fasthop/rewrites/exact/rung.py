"""ExactRung: what the exact rungs share: each adds its option, builds the fast model anew and asks whether it acted."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch

from fasthop.exactness import Exactness
from fasthop.graph.graph import Graph
from fasthop.graph.note import Note, note
from fasthop.rewrites.base import Inapplicable, Rung
from fasthop.rewrites.exact.options import ExactOptions
from fasthop.train.batching import Batch, FullBatch
from fasthop.train.setup import Setup

if TYPE_CHECKING:
    from fasthop.rewrites.exact.build import Built


@dataclass(frozen=True, kw_only=True)
class ExactRung(Rung):
    """A rung that is one option of the fast model. `name` is the option's name."""

    exactness: ClassVar[Exactness] = Exactness.REASSOCIATED

    def check(self, setup: Setup) -> Note | None:
        if not isinstance(setup.batches, FullBatch):
            return note(
                "It works on the full batch; sampled batches are other graphs each time.",
                "它只适用于全批次；采样批次每次都是不同的图。",
            )
        if setup.compiled is not None:
            return note("It comes before compilation.", "它必须在编译之前应用。")
        graph = setup.task.graph
        if setup.exact is None and setup.batches.batch.edges is not graph.edge_index:
            return note(
                "The graph was handed over in another form than edge_index before.",
                "图已被转换为 edge_index 以外的形式。",
            )
        return steps_aside(graph, weighted=setup.batches.batch.edge_weight is not None)

    def apply(self, setup: Setup) -> Setup:
        return apply_together(setup, (self,))

    def refusal(self, built: Built) -> Note:
        """Why the rung did not act, from what the build found; one sentence."""
        return (
            first_left(built)
            or built.untraceable
            or note("Nothing in this model asks for it.", "此模型中没有它可以改进的地方。")
        )


def apply_together(setup: Setup, rungs: tuple[ExactRung, ...]) -> Setup:
    """The setup with these rungs, and those of before, in one fast model.

    Raises Inapplicable with the reason of the last one where it does not act; what another one finds nothing to do
    for is said in the notes.
    """
    reason = rungs[-1].missing(setup.device) or rungs[-1].check(setup)
    if reason is not None:
        raise Inapplicable(reason)
    # Here and not above: recipes without an exact rung must not pay for the kernels, and these pay for them in prepare_s.
    from fasthop.rewrites.exact.build import build_fast_model

    assert isinstance(setup.batches, FullBatch)
    before: Built | None = setup.exact
    options = before.options if before is not None else ExactOptions()
    options = dataclasses.replace(options, **{rung.name: True for rung in rungs})
    graph, batch = setup.task.graph, setup.batches.batch
    assert graph.x is not None
    built = build_fast_model(
        setup.original,
        x=graph.x,
        edge_index=graph.edge_index,
        edge_weight=batch.edge_weight,
        train_mask=graph.train_mask,
        options=options,
    )
    built.observe(graph.x, graph.edge_index, *(() if batch.edge_weight is None else (batch.edge_weight,)))
    idle = [rung for rung in rungs if rung.name not in built.acted]
    if rungs[-1] in idle:
        raise Inapplicable(rungs[-1].refusal(built))
    notes = tuple(
        note(f"{rung.name} found nothing to do: {why['en']}", f"{rung.name} 无事可做：{why['zh']}")
        for rung, why in ((rung, rung.refusal(built)) for rung in idle)
    )
    return dataclasses.replace(
        setup,
        model=built.model,
        exact=built,
        batches=FullBatch(batch_of(graph, batch, built)),
        notes=setup.notes + notes,
    )


def batch_of(graph: Graph, batch: Batch, built: Built) -> Batch:
    """The full batch for a fast model: the user's own tensors, and the labels of the rows that come back."""
    if built.order.is_whole:
        return dataclasses.replace(batch, y=graph.y, rows=graph.train_mask)
    y = graph.y[graph.train_mask]
    return dataclasses.replace(batch, y=y, rows=y.size(0))


def steps_aside(graph: Graph, *, weighted: bool) -> Note | None:
    """Why nothing may be computed in advance from these inputs, or None."""
    assert graph.x is not None
    if weighted and graph.edge_weight is not None and graph.edge_weight.requires_grad:
        return note(
            "The edge weights are being learned, so what is computed from them changes with every step.",
            "边权重需要学习，由它们算出的量每一步都会改变。",
        )
    if weighted and graph.edge_weight is not None and graph.edge_weight.dtype != graph.x.dtype:
        return note(
            f"The edge weights are {graph.edge_weight.dtype} and x is {graph.x.dtype}: PyG's layers then change precision on "
            "the way; convert one of them.",
            f"边权重为 {graph.edge_weight.dtype}，而 x 为 {graph.x.dtype}：PyG 的层会在途中改变精度；请转换其中之一。",
        )
    if graph.x.requires_grad:
        return note(
            "The features x are being learned, so what is computed from them changes with every step.",
            "特征 x 需要学习，由它们算出的量每一步都会改变。",
        )
    if graph.x.device.type != "cpu" and not torch.cuda.is_available():
        return note("The device has no kernels.", "该设备没有可用的内核。")
    return None


def first_left(built: Built) -> Note | None:
    """Why the first layer that is left as it is stays so; None where a layer is covered."""
    if built.covered:
        return None
    if not built.left:
        return note("The model has no message passing layer.", "模型中没有消息传递层。")
    return next(iter(built.left.values()))
