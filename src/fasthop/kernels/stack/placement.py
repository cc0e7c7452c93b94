"""Where the parameters of a stack and their gradients lie in its plan: one flat run, those that are trained first."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from torch.nn import Parameter

from fasthop.kernels.stack.emit import Emitter
from fasthop.kernels.stack.nodes import Node
from fasthop.kernels.stack.ops import Linear
from fasthop.kernels.stack.plan import Buffer, Plan, Slot, Within

PER_LINE = 16  # every parameter starts at a cache line, and the run is a whole number of registers


class Placement:
    """Each parameter's place in the run.

    A weight that a small product or a sparse one reads lies turned, [in, out], so that one row of it is one row of
    registers. slots: the addresses of the parameters themselves; grad_slots: where gradients are handed out.
    """

    def __init__(
        self, plan: Plan, parameters: Sequence[Parameter], emitter: Emitter, order: Sequence[Node]
    ) -> None:
        self._plan, self._emitter = plan, emitter
        trained = [p for p in parameters if p.requires_grad]
        self.parameters = trained + [p for p in parameters if not p.requires_grad]
        self.num_trained = len(trained)
        room = [-(-p.numel() // PER_LINE) * PER_LINE for p in self.parameters]
        starts = accumulate(room, initial=0)
        self._starts = {id(p): start for p, start in zip(self.parameters, starts, strict=False)}
        self.trained_size = sum(room[: self.num_trained])
        self.values = plan.buffer(sum(room), is_kept=True)
        self.grads = plan.buffer(self.trained_size, is_kept=True)
        self.slots = {id(parameter): Slot() for parameter in self.parameters}
        self.grad_slots = {id(parameter): Slot() for parameter in self.parameters[: self.num_trained]}
        self.turned = {
            id(node.op.weight)
            for node in order
            if isinstance(node.op, Linear) and not is_large(emitter, node)
        }
        self.written: set[int] = set()

    def value(self, parameter: Parameter) -> Within:
        """Its values in the run, turned or not."""
        return self._within(parameter, self.values)

    def grad(self, parameter: Parameter) -> Within:
        """Its gradient's place in the run, laid out as its values."""
        return self._within(parameter, self.grads)

    def accumulates(self, parameter: Parameter) -> bool:
        """Whether a gradient to it has been written already; from now on one has."""
        before = id(parameter) in self.written
        self.written.add(id(parameter))
        return before

    def bring_in(self, *, all_of_them: bool) -> None:
        """Copies parameters into the run: all, or those alone that lie turned in it."""
        for parameter in self.parameters:
            if all_of_them or id(parameter) in self.turned:
                self._copy(parameter, self.slots[id(parameter)], self.value(parameter), inwards=True)

    def take_out(self) -> None:
        """Copies the trained parameters back to where they came from."""
        for parameter in self.parameters[: self.num_trained]:
            self._copy(parameter, self.value(parameter), self.slots[id(parameter)], inwards=False)

    def hand_out(self) -> None:
        """Copies the gradients to where their slots say."""
        for parameter in self.parameters[: self.num_trained]:
            self._copy(parameter, self.grad(parameter), self.grad_slots[id(parameter)], inwards=False)

    def _copy(self, parameter: Parameter, a: Slot | Within, out: Slot | Within, *, inwards: bool) -> None:
        rows, cols = (1, parameter.numel())
        if id(parameter) in self.turned:
            rows, cols = parameter.shape if inwards else reversed(parameter.shape)
        self._emitter.turn(a, out, rows, cols)

    def _within(self, parameter: Parameter, buffer: Buffer) -> Within:
        return Within(buffer, self._starts[id(parameter)] * self._plan.dtype.itemsize)


def is_large(emitter: Emitter, node: Node) -> bool:
    """Whether a linear node's product is BLAS's."""
    assert isinstance(node.op, Linear)
    assert node.source is not None
    if node.source.node.kind == "sparse":
        return False
    channels, inner = node.op.weight.shape
    return emitter.is_large(node.num_rows, inner, channels)
