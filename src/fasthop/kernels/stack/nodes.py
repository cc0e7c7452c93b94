"""Nodes: the operations of a stack joined where one pass can do several.

A node is a sum (a product, an aggregation, a copy; an addend; a bias), then an activation, then dropout, in this order,
each of the last four where the operation before it has no other reader. Heads and dropouts that drop nothing vanish.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor
from torch.nn import Parameter

from fasthop.kernels.sparse_linear.features import SparseFeatures
from fasthop.kernels.stack.ops import (
    Activation,
    Add,
    Aggregate,
    Bias,
    Constant,
    Dropout,
    Head,
    Linear,
    Op,
    parameters,
    sources,
)
from fasthop.kernels.stack.reference import sparse_source


@dataclass(eq=False, slots=True)
class Ref:
    """The first num_rows rows of a node."""

    node: Node
    num_rows: int

    @property
    def is_whole(self) -> bool:
        """Whether that is all of them."""
        return self.num_rows == self.node.num_rows


@dataclass(eq=False, slots=True)
class Node:
    """What one pass or two compute. kind: "constant", "sparse", "linear", "aggregate" or "copy".

    source: what is read; addend: what is added. dropped: (place in the list, p) of the dropout at the end.
    needs_grad: whether a parameter that needs a gradient is before it or in it.
    """

    kind: str
    num_rows: int
    num_channels: int
    source: Ref | None = None
    addend: Ref | None = None
    op: Constant | Linear | Aggregate | None = None
    bias: Parameter | None = None
    activation: Activation | None = None
    dropped: tuple[int, float] | None = None
    needs_grad: bool = False

    @property
    def refs(self) -> tuple[Ref, ...]:
        """What it reads."""
        return tuple(ref for ref in (self.source, self.addend) if ref is not None)

    @property
    def is_plain(self) -> bool:
        """Whether the sum is all there is: its gradient is the output's."""
        return self.activation is None and self.dropped is None


@dataclass(slots=True)
class Nodes:
    """The nodes in order, the output, and the parameters in order of first use."""

    order: list[Node]
    output: Ref
    parameters: list[Parameter] = field(default_factory=list)


def live(ops: Sequence[Op]) -> list[bool]:
    """Which operations the last one depends on."""
    needed = [False] * len(ops)
    needed[-1] = True
    for place in range(len(ops) - 1, -1, -1):
        if needed[place]:
            for source in sources(ops[place]):
                needed[source] = True
    return needed


def join(ops: Sequence[Op], shapes: Sequence[tuple[int, int]], *, dropout: bool) -> Nodes:
    """The nodes of checked operations."""
    return _Joining(ops, shapes, dropout).result()


class _Joining:
    def __init__(self, ops: Sequence[Op], shapes: Sequence[tuple[int, int]], dropout: bool) -> None:
        self.ops, self.shapes, self.dropout = ops, shapes, dropout
        self.needed = live(ops)
        self.num_readers = [0] * len(ops)
        for place, op in enumerate(ops):
            if self.needed[place]:
                for source in sources(op):
                    self.num_readers[source] += 1
        self.refs: list[Ref | None] = [None] * len(ops)
        self.is_closed = [count > 1 for count in self.num_readers]
        self.order: list[Node] = []

    def result(self) -> Nodes:
        used: dict[int, Parameter] = {}
        for place, op in enumerate(self.ops):
            if self.needed[place]:
                for parameter in parameters(op):
                    used.setdefault(id(parameter), parameter)
                self.refs[place] = self._ref(place, op)
        for node in self.order:
            own = node.op.weight.requires_grad if isinstance(node.op, Linear) else False
            own = own or (node.bias is not None and node.bias.requires_grad)
            node.needs_grad = own or any(ref.node.needs_grad for ref in node.refs)
        return Nodes(self.order, self._at(len(self.ops) - 1), list(used.values()))

    def _at(self, place: int) -> Ref:
        ref = self.refs[place]
        assert ref is not None
        return ref

    def _new(self, place: int, kind: str, **parts: object) -> Node:
        rows, channels = self.shapes[place]
        node = Node(kind, rows, channels, **parts)  # pyright: ignore[reportArgumentType]
        self.order.append(node)
        return node

    def _open(self, place: int) -> Node | None:
        """The node of an operation that nobody else reads, as long as more can be joined to it."""
        ref = self._at(place)
        if self.is_closed[place] or not ref.is_whole:
            return None
        return None if ref.node.kind in ("constant", "sparse") or ref.node.dropped else ref.node

    def _ref(self, place: int, op: Op) -> Ref:
        rows = self.shapes[place][0]
        if isinstance(op, Constant):
            kind = "sparse" if isinstance(op.features, SparseFeatures) else "constant"
            return Ref(self._new(place, kind, op=op), rows)
        if isinstance(op, Head):
            self.is_closed[place] = True
            return Ref(self._at(op.source).node, op.num_rows)
        if isinstance(op, Linear):
            return Ref(self._new(place, "linear", source=self._at(op.source), op=op, bias=op.bias), rows)
        if isinstance(op, Aggregate):
            return Ref(self._new(place, "aggregate", source=self._at(op.source), op=op), rows)
        if isinstance(op, Add):
            return Ref(self._sum(place, op), rows)
        if isinstance(op, Dropout):
            return self._dropped(place, op)
        node = self._open(op.source)
        if node is None or node.activation is not None or (isinstance(op, Bias) and node.bias is not None):
            node = self._new(place, "copy", source=self._at(op.source))
        if isinstance(op, Bias):
            node.bias = op.bias
        else:
            node.activation = op
        return Ref(node, rows)

    def _sum(self, place: int, op: Add) -> Node:
        for mine, other in ((op.a, op.b), (op.b, op.a)):
            node = self._open(mine)
            if node is None or node.addend is not None or node.activation is not None or op.a == op.b:
                continue
            # The node that the addend is joined to comes after the addend.
            if self.order.index(self._at(other).node) < self.order.index(node):
                node.addend = self._at(other)
                return node
        return self._new(place, "copy", source=self._at(op.a), addend=self._at(op.b))

    def _dropped(self, place: int, op: Dropout) -> Ref:
        ref = self._at(op.source)
        if op.p == 0 or not self.dropout:
            self.is_closed[place] |= self.is_closed[op.source]
            return ref
        if sparse_source(self.ops, op.source) is not None:
            node = self._new(place, "sparse", source=ref, op=ref.node.op, dropped=(place, op.p))
            return Ref(node, self.shapes[place][0])
        node = self._open(op.source)
        if node is None:
            node = self._new(place, "copy", source=ref)
        node.dropped = (place, op.p)
        return Ref(node, self.shapes[place][0])


def features_of(node: Node) -> Tensor | SparseFeatures:
    """The features that a constant or sparse node stands for."""
    assert isinstance(node.op, Constant)
    return node.op.features
