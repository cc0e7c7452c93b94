"""The forward pass of a stack: each node's passes, in order."""

from __future__ import annotations

import torch
from torch import Tensor

from fasthop.kernels.stack import job
from fasthop.kernels.stack.emit import Emitter, End
from fasthop.kernels.stack.matrices import Matrix, aggregation, features
from fasthop.kernels.stack.nodes import Node, Nodes, Ref, features_of
from fasthop.kernels.stack.ops import Aggregate, Linear
from fasthop.kernels.stack.placement import Placement, is_large
from fasthop.kernels.stack.plan import Plan, Slot, Within, Word


class Matrices:
    """The matrices of a stack in the form that passes read, and their transposes, each made once."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self._made: dict[tuple[int, object], Matrix] = {}
        self._turned: dict[int, Matrix] = {}
        self._kept: list[object] = []

    def of(self, node: Node, num_rows: int) -> Matrix:
        """The matrix of an aggregation, or the first num_rows rows of a sparse node's features."""
        op = node.op
        if isinstance(op, Aggregate):
            key = (id(op.adj), op.reduce)
            if key not in self._made:
                self._made[key] = aggregation(op.adj, op.reduce, self.dtype)
                self._kept.append(op.adj)
        else:
            x = features_of(node)
            assert not isinstance(x, Tensor)
            key = (id(x), num_rows)
            if key not in self._made:
                self._made[key] = features(x, num_rows, self.dtype)
                self._kept.append(x)
        return self._made[key]

    def turned(self, matrix: Matrix) -> Matrix:
        """Its transpose."""
        if id(matrix) not in self._turned:
            self._turned[id(matrix)] = matrix.turned()
        return self._turned[id(matrix)]


class Forward:
    """Emits the forward passes. values: where each node's output lies, a sparse node's values (None for all ones)."""

    def __init__(self, plan: Plan, nodes: Nodes, matrices: Matrices) -> None:
        self.plan, self.nodes, self.matrices = plan, nodes, matrices
        self.emitter = Emitter(plan)
        self.places = Placement(plan, nodes.parameters, self.emitter, nodes.order)
        self.values: dict[int, Word] = {}
        self.keys: dict[int, Within] = {}
        self.keys_pass = -1

    def emit(self, *, out: Slot | None, all_parameters: bool = False) -> None:
        """out: where the output goes; None leaves it in a buffer (`output`)."""
        self.places.bring_in(all_of_them=all_parameters)
        self._emit_keys()
        last = self.nodes.output
        is_direct = (
            out is not None
            and last.is_whole
            and last.node.is_plain
            and last.node.kind not in ("constant", "sparse")
        )
        for node in self.nodes.order:
            self._emit(node, out if is_direct and node is last.node else None)
        if out is not None and not is_direct:
            channels = last.node.num_channels
            self.emitter.again(self.at(last), last.num_rows, out, last.num_rows, channels, End())

    def at(self, ref: Ref) -> Word:
        """Where a node's output lies; its first rows come first."""
        return self.values[id(ref.node)]

    def drop(self, node: Node) -> tuple[Word, float] | None:
        """A node's dropout as passes take it."""
        return None if node.dropped is None else (self.keys[node.dropped[0]], node.dropped[1])

    def _emit_keys(self) -> None:
        places = [node.dropped[0] for node in self.nodes.order if node.dropped is not None]
        if places:
            buffer = self.plan.buffer(len(places), itemsize=8)
            self.keys_pass = self.emitter.keys(torch.tensor(places, dtype=torch.int64), buffer)
            self.keys = {place: Within(buffer, 8 * k) for k, place in enumerate(places)}

    def _emit(self, node: Node, out: Slot | None) -> None:
        if node.kind == "constant":
            x = features_of(node)
            assert isinstance(x, Tensor)
            self.values[id(node)] = x.detach().to(self.plan.dtype).contiguous()
        elif node.kind == "sparse":
            self.values[id(node)] = self._sparse_values(node, None)
        else:
            made: Word = out if out is not None else self.plan.buffer(node.num_rows * node.num_channels)
            self.values[id(node)] = made
            self._emit_dense(node, made)

    def sparse_values(self, ref: Ref) -> Word:
        """The values of a sparse node in the order of its transpose, drawn again."""
        matrix = self.matrices.turned(self.matrices.of(ref.node, ref.num_rows))
        return self._sparse_values(ref.node, matrix)

    def _sparse_values(self, node: Node, turned: Matrix | None) -> Word:
        matrix = turned if turned is not None else self.matrices.of(node, node.num_rows)
        value: Word = matrix.value
        chain: list[Node] = []
        at: Node | None = node
        while at is not None:  # dropouts of dropouts
            chain.append(at)
            at = at.source.node if at.source is not None else None
        for link in chain:
            drop = self.drop(link)
            if drop is not None:
                dropped = self.plan.buffer(matrix.col.numel())
                self.emitter.entries(value, matrix.perm, dropped, matrix.col.numel(), *drop)
                value = dropped
        return value

    def _emit_dense(self, node: Node, out: Word) -> None:
        assert node.source is not None
        source, channels = node.source, node.num_channels
        init = None if node.addend is None else (self.at(node.addend), node.num_rows)
        bias = None if node.bias is None else self.places.slots[id(node.bias)]
        end = End(init=init, bias=bias, activation=node.activation, drop=self.drop(node))
        if isinstance(node.op, Aggregate):
            matrix = self.matrices.of(node, node.num_rows)
            self.emitter.aggregate(matrix, self.at(source), out, channels, end)
        elif isinstance(node.op, Linear):
            self._emit_linear(node, source, out, end)
        else:
            self.emitter.again(self.at(source), node.num_rows, out, node.num_rows, channels, end)

    def _emit_linear(self, node: Node, source: Ref, out: Word, end: End) -> None:
        assert isinstance(node.op, Linear)
        weight, rows, channels = node.op.weight, node.num_rows, node.num_channels
        inner = weight.size(1)
        if source.node.kind == "sparse":
            matrix = self.matrices.of(source.node, source.num_rows)
            value = self.at(source)
            self.emitter.aggregate(matrix, self.places.value(weight), out, channels, end, value)
        elif is_large(self.emitter, node):
            how = {"rows": rows, "cols": channels, "inner": inner}
            self.emitter.product(out, self.at(source), self.places.slots[id(weight)], turned_b=True, **how)
            if not end.is_nothing:
                self.emitter.again(out, rows, out, rows, channels, end)
        else:
            self.emitter.transform(
                self.at(source), self.places.value(weight), out, rows, inner, channels, end
            )


SEED = job.INNER
"""The word of the keys' pass that holds the seed."""
