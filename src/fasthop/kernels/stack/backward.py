"""The backward pass of a stack: the gradient of each node from those of its readers, and the parameters' gradients.

Nothing is computed for what no parameter is before. A node's gradient is the sum of what its readers contribute; the last
contribution's pass adds the earlier ones, applies the node's dropout and activation, and sums the rows for the bias.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

from fasthop.kernels.stack.emit import End, Sums
from fasthop.kernels.stack.forward import Forward
from fasthop.kernels.stack.nodes import Node, Ref
from fasthop.kernels.stack.ops import Aggregate, Linear
from fasthop.kernels.stack.plan import Word


@dataclass(frozen=True, slots=True)
class Contribution:
    """A part of a node's gradient, for its first num_rows rows: where it lies already, or the pass that makes it."""

    num_rows: int
    where: Word
    make: Callable[[Word, End], Sums] | None = None


class Backward:
    """Emits the backward passes after a Forward's."""

    def __init__(self, forward: Forward) -> None:
        self.forward, self.emitter, self.places = forward, forward.emitter, forward.places
        self._parts: dict[int, list[Contribution]] = {}
        self._output_sums: Sums = None

    def emit(self, grad: Word, sums: Sums = None) -> None:
        """grad: the gradient of the output, where it lies; sums: the sums over its rows where they are known."""
        self._output_sums = sums
        output = self.forward.nodes.output
        self._parts[id(output.node)] = [Contribution(output.num_rows, grad)]
        for node in reversed(self.forward.nodes.order):
            if node.needs_grad:
                self._emit(node)

    def _emit(self, node: Node) -> None:
        grad = self._collect(node)
        if isinstance(node.op, Linear) and node.op.weight.requires_grad:
            self._emit_weight(node, grad)
        if node.source is not None and node.source.node.needs_grad:
            make = self._through(node, grad)
            self._contribute(node.source, Contribution(node.source.num_rows, None if make else grad, make))
        if node.addend is not None and node.addend.node.needs_grad:
            self._contribute(node.addend, Contribution(node.addend.num_rows, grad))

    def _contribute(self, ref: Ref, part: Contribution) -> None:
        self._parts.setdefault(id(ref.node), []).append(part)

    def _collect(self, node: Node) -> Word:
        """The gradient of a node's sum; the bias's gradient on the way."""
        rows, channels = node.num_rows, node.num_channels
        wants_sums = node.bias is not None and node.bias.requires_grad
        gate = None
        if node.activation is not None:
            gate = (node.activation, self.forward.values[id(node)])
        last_end = End(drop=self.forward.drop(node), gate=gate, wants_sums=wants_sums)
        parts = self._parts.pop(id(node))
        # Those that exist first, the longest of them first; then those that are made, the longest last.
        parts.sort(key=lambda part: (part.make is not None, part.num_rows if part.make else -part.num_rows))
        first, *others = parts
        if not others and first.make is None and first.num_rows == rows and node.is_plain:
            if wants_sums:
                is_output = node is self.forward.nodes.output.node
                sums = self._output_sums if is_output else None
                sums = sums or self.emitter.again(first.where, rows, None, rows, channels, last_end)
                self._emit_bias(node, sums)
            return first.where
        where: Word = None
        num_rows = 0
        sums: Sums = None
        is_done = False
        for place, part in enumerate(parts):
            if place == 0 and part.make is None:
                where, num_rows = part.where, part.num_rows
                continue
            is_longest = part.num_rows >= num_rows
            is_last = place == len(parts) - 1 and max(part.num_rows, num_rows) == rows
            end = last_end if is_last else End()
            longest = max(part.num_rows, num_rows)
            out = self.emitter.plan.buffer(longest * channels)
            if part.make is not None and is_longest:
                init = (where, num_rows) if place else None
                sums = part.make(out, dataclasses.replace(end, init=init))
            else:
                other = part.where
                if part.make is not None:
                    other = self.emitter.plan.buffer(part.num_rows * channels)
                    part.make(other, End())
                end = dataclasses.replace(end, init=(other, part.num_rows))
                sums = self.emitter.again(where, num_rows, out, longest, channels, end)
            where, num_rows, is_done = out, longest, is_last
        if not is_done and not (last_end.is_nothing and num_rows == rows):
            out = self.emitter.plan.buffer(rows * channels)
            sums = self.emitter.again(where, num_rows, out, rows, channels, last_end)
            where = out
        self._emit_bias(node, sums)
        return where

    def _emit_bias(self, node: Node, sums: Sums) -> None:
        if sums is not None:
            assert node.bias is not None
            again = self.places.accumulates(node.bias)
            self.emitter.parts(*sums, self.places.grad(node.bias), node.num_channels, again)

    def _emit_weight(self, node: Node, grad: Word) -> None:
        assert isinstance(node.op, Linear)
        assert node.source is not None
        weight, source = node.op.weight, node.source
        out, again = self.places.grad(weight), self.places.accumulates(weight)
        channels, inner = weight.shape
        if source.node.kind == "sparse":
            matrix = self.forward.matrices.turned(self.forward.matrices.of(source.node, source.num_rows))
            end = End(init=(out, inner)) if again else End()
            self.emitter.aggregate(matrix, grad, out, channels, end, self.forward.sparse_values(source))
            return
        x, rows = self.forward.at(source), node.num_rows
        is_turned = id(weight) in self.places.turned
        a, b = (x, grad) if is_turned else (grad, x)
        size = (inner, channels) if is_turned else (channels, inner)
        if self.emitter.is_large_sum(rows, *size):
            how = {"rows": size[0], "cols": size[1], "inner": rows}
            self.emitter.product(out, a, b, turned_a=True, accumulate=again, **how)
        else:
            self.emitter.outer(a, b, out, rows, *size, again)

    def _through(self, node: Node, grad: Word) -> Callable[[Word, End], Sums] | None:
        """The pass that takes a node's gradient to its source; None where it is the same."""
        if isinstance(node.op, Aggregate):
            matrix = self.forward.matrices.turned(self.forward.matrices.of(node, node.num_rows))
            return lambda out, end: self.emitter.aggregate(matrix, grad, out, node.num_channels, end)
        if isinstance(node.op, Linear):
            return lambda out, end: self._through_linear(node, grad, out, end)
        return None

    def _through_linear(self, node: Node, grad: Word, out: Word, end: End) -> Sums:
        assert isinstance(node.op, Linear)
        weight = self.places.slots[id(node.op.weight)]
        rows, (inner, channels) = node.num_rows, node.op.weight.shape
        if not self.emitter.is_large(rows, inner, channels):
            return self.emitter.transform(grad, weight, out, rows, inner, channels, end)
        self.emitter.product(out, grad, weight, rows=rows, cols=channels, inner=inner)
        return None if end.is_nothing else self.emitter.again(out, rows, out, rows, channels, end)
