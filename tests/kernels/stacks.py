"""Random stacks for tests: GCN, GraphSAGE, GIN and SGC chains, MLPs, residuals and shared parameters on odd graphs."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import Parameter

from fasthop.kernels.sparse_linear.features import SparseFeatures
from fasthop.kernels.spmm.adjacency import Adjacency
from fasthop.kernels.stack.ops import Activation, Add, Aggregate, Bias, Constant, Dropout, Head, Linear, Op
from tests.kernels.graphs import by_target

ARCHITECTURES = ("gcn", "sage", "gin", "sgc", "mlp", "residual", "shared", "field", "sparse_field")


class Program:
    """Operations under construction, with their shapes; parameters are drawn from a seed."""

    def __init__(self, edge_index: Tensor, num_nodes: int, dtype: torch.dtype, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.dtype, self.num_nodes = dtype, num_nodes
        self.rowptr, self.col, _ = by_target(edge_index, num_nodes)
        self.ops: list[Op] = []

    def numbers(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.generator, dtype=torch.float64).to(self.dtype)

    def parameter(self, *shape: int) -> Parameter:
        return Parameter(self.numbers(*shape) * shape[-1] ** -0.5)

    def add(self, op: Op) -> int:
        self.ops.append(op)
        return len(self.ops) - 1

    def adj(self, *, weighted: bool, num_rows: int | None = None) -> Adjacency:
        rowptr = self.rowptr if num_rows is None else self.rowptr[: num_rows + 1]
        col = self.col[: int(rowptr[-1])]
        value = self.numbers(col.numel()) if weighted else None
        return Adjacency(rowptr=rowptr, col=col, num_cols=self.num_nodes, value=value)

    def features(self, channels: int, *, sparse: bool) -> int:
        x = self.numbers(self.num_nodes, channels)
        if not sparse:
            return self.add(Constant(features=x))
        x = x * (torch.rand(x.shape, generator=self.generator) < 0.4)
        return self.add(Constant(features=SparseFeatures.from_tensor(x)))

    def linear(self, source: int, channels: int, out: int, *, bias: bool = True) -> int:
        return self.add(
            Linear(
                source=source,
                weight=self.parameter(out, channels),
                bias=self.parameter(out) if bias else None,
            )
        )


def make(
    architecture: str,
    edge_index: Tensor,
    num_nodes: int,
    *,
    widths: tuple[int, int, int],
    dtype: torch.dtype = torch.float64,
    seed: int = 0,
    sparse: bool = False,
    activation: str = "relu",
    p: float = 0.0,
) -> list[Op]:
    """The operations of an architecture; widths: of the features, of the hidden layer and of the output."""
    program = Program(edge_index, num_nodes, dtype, seed)
    given, hidden, out = widths
    h = program.features(given, sparse=sparse and architecture != "sgc")
    if p:
        h = program.add(Dropout(source=h, p=p))

    def active(source: int) -> int:
        source = program.add(Activation(source=source, kind=activation))
        return program.add(Dropout(source=source, p=p)) if p else source

    add, linear = program.add, program.linear
    if architecture == "gcn":
        adj = program.adj(weighted=True)
        for i, o in ((given, hidden), (hidden, out)):
            h = add(Aggregate(source=linear(h, i, o, bias=False), adj=adj))
            h = add(Bias(source=h, bias=program.parameter(o)))
            h = active(h) if o is hidden and i is given else h
    elif architecture == "sage":
        h = linear(h, given, hidden) if sparse else h
        given = hidden if sparse else given
        adj = program.adj(weighted=False)
        for i, o in ((given, hidden), (hidden, out)):
            neighbours = linear(add(Aggregate(source=h, adj=adj, reduce="mean")), i, o)
            h = add(Add(a=neighbours, b=linear(h, i, o, bias=False)))
            h = active(h) if i is given else h
    elif architecture == "gin":
        h = linear(h, given, hidden) if sparse else h
        given = hidden if sparse else given
        adj = program.adj(weighted=False)
        for i, o in ((given, hidden), (hidden, out)):
            h = add(Add(a=add(Aggregate(source=h, adj=adj)), b=h))
            h = linear(active(linear(h, i, hidden)), hidden, o)
    elif architecture == "sgc":
        adj = program.adj(weighted=True)
        h = linear(add(Aggregate(source=add(Aggregate(source=h, adj=adj)), adj=adj)), given, out)
    elif architecture == "mlp":
        h = linear(active(linear(active(linear(h, given, hidden)), hidden, hidden)), hidden, out)
    elif architecture == "residual":
        adj = program.adj(weighted=True)
        h = active(linear(h, given, hidden))
        for _ in range(2):
            branch = active(add(Aggregate(source=linear(h, hidden, hidden), adj=adj)))
            h = add(Add(a=h, b=branch))
        h = linear(add(Add(a=h, b=h)), hidden, out)
    elif architecture == "shared":
        adj = program.adj(weighted=True)
        h = linear(h, given, hidden)
        weight, bias = program.parameter(hidden, hidden), program.parameter(hidden)
        for _ in range(2):
            h = active(add(Aggregate(source=add(Linear(source=h, weight=weight, bias=bias)), adj=adj)))
        h = linear(add(Bias(source=h, bias=bias)), hidden, out)
    elif architecture in ("field", "sparse_field"):
        # Fewer and fewer rows, as in a receptive field; a Head beside each aggregation.
        num_rows = num_nodes
        if architecture == "sparse_field":
            h = program.features(given, sparse=True) if not sparse else h
        else:
            h = linear(h, given, hidden) if sparse else h
            given = hidden if sparse else given
        for i, o in ((given, hidden), (hidden, out)):
            fewer = max(1, num_rows // 2)
            head = linear(add(Head(source=h, num_rows=fewer)), i, o)
            below = linear(h, i, o, bias=False)
            rowptr = program.rowptr[: fewer + 1]
            col = program.col[: int(rowptr[-1])] % num_rows
            adj = Adjacency(rowptr=rowptr, col=col, num_cols=num_rows)
            h = add(Add(a=head, b=add(Aggregate(source=below, adj=adj, reduce="mean"))))
            h = active(h) if i is given else h
            num_rows = fewer
    return program.ops
