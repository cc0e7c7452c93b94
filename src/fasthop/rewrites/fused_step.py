"""The rung `fused_step`: forward, loss, backward and optimiser of a recognised stack in one compiled call."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch.nn.functional as F

from fasthop.exactness import Exactness
from fasthop.graph.note import Note, note
from fasthop.rewrites.base import Inapplicable, Rung, Words
from fasthop.train.batching import FullBatch
from fasthop.train.objective import Objective, loss_name
from fasthop.train.setup import Setup
from fasthop.train.task import Loss

if TYPE_CHECKING:
    from fasthop.rewrites.exact.build import Built
    from fasthop.rewrites.exact.fused import FusedForward
    from fasthop.train.fused import FusedStep


NOT_LOG_SOFTMAX = note(
    "The loss is nll and the model does not end in a log_softmax that the compiled step knows.",
    "损失是 nll，而模型的结尾不是编译好的训练步所认识的 log_softmax。",
)


@dataclass(frozen=True, kw_only=True)
class FusedStepRung(Rung):
    """Layers, activations, dropout, cross-entropy and Adam, AdamW or SGD, run from a list of compiled passes with
    buffers that are planned once."""

    name = "fused_step"
    exactness = Exactness.REASSOCIATED
    words = {  # noqa: RUF012
        "en": Words(
            title="One compiled step",
            does="Forward, loss, backward and optimiser run as one list of compiled passes over buffers that are laid out once.",
            why="On a small graph most of a step is the framework's work around some fifty small operations.",
            costs="Gradients are not left on the parameters, so it does not stand where hooks, gradient clipping or schedulers "
            "are in use. Dropout draws other numbers from the same distribution.",
        ),
        "zh": Words(
            title="整步编译",
            does="前向、损失、反向与优化器作为一串已编译的操作，在一次规划好的缓冲区上依次运行。",
            why="小图上一步的大部分时间花在框架调度约五十个小算子上。",
            costs="参数上不留下梯度，因此使用钩子、梯度裁剪或学习率调度时不适用。dropout 抽取的随机数不同，但分布相同。",
        ),
    }

    def check(self, setup: Setup) -> Note | None:
        if setup.exact is None:
            return note(
                "It is built of the exact rungs; put them before it.",
                "它建立在精确优化之上；请把它们放在前面。",
            )
        if setup.compiled is not None or not isinstance(setup.batches, FullBatch):
            return note("It is a step of its own over the full batch.", "它自成一个全批次训练步。")
        if setup.precision.autocast_dtype is not None:
            return note("It computes in the parameters' precision.", "它按参数的精度计算。")
        return other_loss(setup.task.loss)

    def apply(self, setup: Setup) -> Setup:
        from fasthop.rewrites.exact.fused import fuse, unfuse
        from fasthop.rewrites.exact.lowering import NotAStack

        built: Built = setup.exact
        try:
            forward = fuse(built)
        except NotAStack as why:
            raise Inapplicable(why.reason) from why
        if setup.task.loss is F.nll_loss and not forward.ends_in_log_softmax:
            unfuse(built)
            raise Inapplicable(NOT_LOG_SOFTMAX)
        return dataclasses.replace(setup, make_step=lambda now: fused_step(now, forward))


def other_loss(loss: Loss) -> Note | None:
    """Why the compiled step does not have this loss, or None: it has torch's cross_entropy, and nll_loss, which is the same
    where the model ends in log_softmax."""
    if loss in (F.cross_entropy, F.nll_loss):
        return None
    if isinstance(loss, Objective) and loss.name != "bce":
        return note(
            "The compiled step has the cross-entropy without class weights and label smoothing only.",
            "编译好的训练步只支持不带类别权重和标签平滑的交叉熵。",
        )
    name = loss_name(loss)
    return note(
        f"The compiled step has the cross-entropy only, and the loss is {name}.",
        f"编译好的训练步只支持交叉熵，而损失是 {name}。",
    )


def fused_step(setup: Setup, forward: FusedForward) -> FusedStep:
    """A fresh compiled step for a setup, with a fresh optimiser."""
    from fasthop.train.fused import FusedStep

    assert isinstance(setup.batches, FullBatch)
    stack = forward.for_loss(setup.exact, setup.task.graph.train_mask)
    return FusedStep(stack, labels=setup.batches.batch.labels(), optimizer=setup.task.optimizer)
