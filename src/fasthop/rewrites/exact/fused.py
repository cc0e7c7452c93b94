"""A fast model's program as one compiled call forward and one backward, through autograd like any other."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from fasthop.graph.note import note
from fasthop.kernels.stack.stack import Stack
from fasthop.rewrites.exact.build import Built
from fasthop.rewrites.exact.lowering import NotAStack, lower, of_rows


class FusedForward:
    """The stack of a program; calling it gives the model's output in train mode.

    ends_in_log_softmax: the model returns log-probabilities; the stack ends in the logits.
    """

    def __init__(self, stack: Stack, *, ends_in_log_softmax: bool) -> None:
        self.stack = stack
        self.ends_in_log_softmax = ends_in_log_softmax

    def for_loss(self, built: Built, train_mask: Tensor) -> Stack:
        """The stack whose output is the training nodes' rows: itself, or one that picks them from an output of all."""
        if not built.order.is_whole or bool(train_mask.all()):
            return self.stack
        rows = train_mask.nonzero().view(-1)
        return Stack(of_rows(self.stack.ops, rows, built.order.num_nodes))

    def __call__(self) -> Tensor:
        out = self.stack.run()
        return F.log_softmax(out, dim=-1) if self.ends_in_log_softmax else out


def fuse(built: Built) -> FusedForward:
    """Puts the compiled program into a built fast model, and returns it. Raises NotAStack with the reason."""
    if built.program is None:
        assert built.untraceable is not None
        raise NotAStack(built.untraceable)
    if not built.options.csr_spmm:
        raise NotAStack(note("It stands on csr_spmm.", "它建立在 csr_spmm 之上。"))
    lowered = lower(built.program)
    forward = FusedForward(Stack(lowered.ops), ends_in_log_softmax=lowered.ends_in_log_softmax)
    built.model.__dict__["runner"] = forward
    return forward


def unfuse(built: Built) -> None:
    """Takes it out again: the program runs as traced."""
    assert built.program is not None
    built.model.__dict__["runner"] = built.program.call
