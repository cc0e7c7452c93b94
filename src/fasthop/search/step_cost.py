"""The cost of a recipe's training step, counted from the shapes of what it runs, and its floor."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, fx
from torch.nn import Parameter

from fasthop.errors import NotApplicable
from fasthop.kernels.sparse_linear.features import SparseFeatures
from fasthop.kernels.spmm.adjacency import Adjacency
from fasthop.kernels.stack.check import dtype_of, shapes
from fasthop.kernels.stack.nodes import Node, Nodes, Ref, features_of, join
from fasthop.kernels.stack.ops import Aggregate, Linear, Op
from fasthop.machine.peaks import MachinePeaks, last_level_cache_bytes
from fasthop.rewrites.exact.build import Built
from fasthop.rewrites.exact.constant import Constant
from fasthop.rewrites.exact.fast_layer import aggregation
from fasthop.rewrites.exact.hops import head
from fasthop.rewrites.exact.lowering import FUNCTIONS, NotAStack, lower, of_rows, selection
from fasthop.rewrites.exact.program import LayerCallSite, Program
from fasthop.rewrites.layers.gat_conv import FastGATConv
from fasthop.rewrites.layers.prepared import aggregating
from fasthop.rewrites.layers.sage_conv import FastSAGEConv
from fasthop.search.cost import Count, Operand, StepCost, floor_ms
from fasthop.train.setup import Setup


def step_floor(setup: Setup, peaks: MachinePeaks, *, copy_rates: Mapping[int, float] | None = None) -> float:
    """The floor in ms of a training step of an exact recipe's setup, at these peaks; see `floor_ms`.

    Raises NotApplicable where the recipe has no exact rung, or the model something that is not counted.
    """
    return floor_ms(step_cost(setup), peaks, copy_rates=copy_rates)


def step_cost(setup: Setup) -> StepCost:
    """Forward, loss, backward and optimiser of a setup that exact rungs have built. Raises NotApplicable as `step_floor`."""
    if setup.exact is None:
        raise NotApplicable(
            "A floor is counted from the operations of the exact rungs, and this recipe has none."
        )
    return built_cost(setup.exact, setup.task.graph.train_mask, optimizer=setup.task.optimizer.name)


def built_cost(built: Built, train_mask: Tensor, *, optimizer: str = "adam") -> StepCost:
    """As `step_cost`, of a fast model whose loss is the cross-entropy of the rows of train_mask (bool [N])."""
    if built.program is None:
        raise NotApplicable("A floor is counted from a traced program, and this model could not be traced.")
    rows = None
    if built.order.is_whole and not bool(train_mask.all()):
        rows = train_mask.nonzero().view(-1)
    try:
        ops = lower(built.program).ops
    except NotAStack:
        return _Program(built.program, rows, built.order.num_nodes).count(optimizer)
    if rows is not None:
        ops = of_rows(ops, rows, built.order.num_nodes)
    return stack_cost(ops, optimizer=optimizer)


def stack_cost(
    ops: Sequence[Op], *, optimizer: str = "adam", cache_bytes: int | str | None = "measured"
) -> StepCost:
    """Of training a stack whose output's rows all enter the loss.

    cache_bytes: of the last-level cache, None for one that holds everything, "measured" for what the system names.
    """
    nodes = join(ops, shapes(ops), dropout=True)
    count = Count(itemsize=dtype_of(ops, None).itemsize, cache_bytes=_cache(cache_bytes))
    operands: dict[int, Operand] = {}
    for node in nodes.order:
        _forward_and_backward(count, node, operands)
    count.loss(nodes.output.num_rows, nodes.output.node.num_channels)
    count.update(sum(p.numel() for p in nodes.parameters if p.requires_grad), optimizer)
    _keep(count, nodes)
    return count.step


def _cache(cache_bytes: int | str | None) -> int | None:
    return last_level_cache_bytes() if isinstance(cache_bytes, str) else cache_bytes


def _operand(ref: Ref, operands: dict[int, Operand]) -> Operand:
    whole = operands.get(id(ref.node))
    if whole is None:
        whole = operands[id(ref.node)] = Operand(
            rows=ref.node.num_rows,
            channels=ref.node.num_channels,
            needs_grad=ref.node.needs_grad,
            gated=not ref.node.is_plain,
        )
    return whole


def _forward_and_backward(count: Count, node: Node, operands: dict[int, Operand]) -> None:
    if node.source is None:
        return
    x = _operand(node.source, operands)
    if node.kind == "sparse":
        return  # a draw of dropout, made as the entries are read
    if node.kind == "linear":
        assert isinstance(node.op, Linear)
        features = node.source.node
        entries = _entries(features_of(features), node.num_rows) if features.kind == "sparse" else None
        cut = _cut(x, node.source)
        count.linear(cut, node.num_channels, features=entries, trained=node.op.weight.requires_grad)
    elif node.kind == "aggregate":
        assert isinstance(node.op, Aggregate)
        count.aggregate(_cut(x, node.source), node.op.adj)
    else:
        count.elementwise(_cut(x, node.source), addend=node.addend is not None, gated=not node.is_plain)
    x.num_grads += int(x.needs_grad)
    if node.kind != "copy" and (node.addend or node.bias is not None or not node.is_plain):
        count.epilogue(node.num_rows, node.num_channels, addend=node.addend is not None)
    if node.addend is not None:
        other = _operand(node.addend, operands)
        if other.needs_grad and other.gated:
            count.gate(_cut(other, node.addend))
        other.num_grads += int(other.needs_grad)


def _cut(x: Operand, ref: Ref) -> Operand:
    cut = x.head(ref.num_rows)
    cut.num_grads = x.num_grads
    return cut


def _entries(features: Tensor | SparseFeatures, num_rows: int) -> Adjacency:
    assert isinstance(features, SparseFeatures)
    matrix = features.matrix
    if num_rows == matrix.num_rows:
        return matrix
    num_entries = int(matrix.rowptr[num_rows])
    value = None if matrix.value is None else matrix.value[:num_entries]
    return Adjacency(
        rowptr=matrix.rowptr[: num_rows + 1],
        col=matrix.col[:num_entries],
        num_cols=matrix.num_cols,
        value=value,
    )


def _keep(count: Count, nodes: Nodes) -> None:
    seen: set[int] = set()
    for node in nodes.order:
        sparse: Adjacency | None = None
        if isinstance(node.op, Aggregate):
            sparse = node.op.adj
        elif node.kind == "sparse":
            features = features_of(node)
            assert isinstance(features, SparseFeatures)
            sparse = features.matrix
        if sparse is not None and id(sparse.col) not in seen:
            seen.add(id(sparse.col))
            count.keep(0 if sparse.value is None else 2 * sparse.col.numel(), 8.0 * sparse.col.numel())
        if node.kind != "sparse":
            count.keep((2 if node.needs_grad else 1) * node.num_rows * node.num_channels)


class _Program:
    """The count over a traced program that is no stack: attention layers and extrema among what a stack has."""

    def __init__(self, program: Program, rows: Tensor | None, num_nodes: int) -> None:
        self.program, self.rows, self.num_nodes = program, rows, num_nodes
        self.known = Count(cache_bytes=last_level_cache_bytes())
        self.parameters: dict[int, Parameter] = {}
        self.kept: set[int] = set()

    def count(self, optimizer: str) -> StepCost:
        """Walks over the calls in order."""
        count = self.known
        values: dict[fx.Node, Any] = {}
        for node in self.program.call.graph.nodes:
            if node.op == "output":
                out = values[node.args[0]]
                if self.rows is not None:
                    count.aggregate(out, selection(self.rows, self.num_nodes))
                    out = out.head(self.rows.numel())
                count.loss(out.rows, out.channels)
            else:
                values[node] = self._value(node, values)
        count.update(sum(p.numel() for p in self.parameters.values()), optimizer)
        return count.step

    def _value(self, node: fx.Node, values: dict[fx.Node, Any]) -> Any:
        if node.op == "get_attr":
            return operator.attrgetter(str(node.target))(self.program.call)
        args: list[Any] = [values[arg] if isinstance(arg, fx.Node) else arg for arg in node.args]
        x: Any = args[0] if args else None
        if node.op == "call_module":
            module = self.program.call.get_submodule(str(node.target))
            if isinstance(module, LayerCallSite):
                return self._layer(module, x)
            name = type(module).__name__.lower()
        elif node.target is head:
            return x.head(args[1])
        else:
            name = str(FUNCTIONS.get(node.target, getattr(node.target, "__name__", node.target)))
        if isinstance(x, Constant) and name == "dropout":
            return x  # drawn as the entries are read
        if isinstance(x, Operand) and name in PASSES:
            x.gated = True  # it is joined to the pass that made its input
            self.known.epilogue(x.rows, x.channels, addend=False)
            return x
        raise _uncounted(name)

    def _layer(self, site: LayerCallSite, x: Any) -> Operand:
        layer = site.fast.layer
        if isinstance(site.fast, FastGATConv) and layer.lin is not None and layer.res is None:
            sent = self._linear(x, layer.lin.weight)
            adj = site.fast.matrix(site.hops).adjacency
            self._learn(layer.att_src, layer.att_dst, layer.bias)
            self.known.attention(sent, adj, layer.heads)
            num_out = sent.channels if layer.concat else layer.out_channels
            return self._made(adj, num_out)
        reduce = aggregation(layer)
        if isinstance(site.fast, FastSAGEConv) and not layer.project and not layer.normalize:
            matrix, reduce = aggregating(site.hops, x, reduce or "mean", weighted=False)
            own = x.head(matrix.num_rows)
            product = x.product(matrix, reduce) if isinstance(x, Constant) else None
            if product is None:
                operand = _known(x)
                self.known.aggregate(operand, matrix.adjacency, extremum=reduce in ("max", "min"))
                product = self._made(matrix.adjacency, operand.channels, needs_grad=operand.needs_grad)
            out = self._linear(product, layer.lin_l.weight, layer.lin_l.bias)
            if layer.root_weight:
                self._linear(own, layer.lin_r.weight)
                self.known.epilogue(out.rows, out.channels, addend=True)
            return out
        raise _uncounted(type(layer).__name__)

    def _linear(self, x: Any, weight: Parameter, bias: Parameter | None = None) -> Operand:
        self._learn(weight, bias)
        features = None if not isinstance(x, Constant) or x.sparse is None else x.sparse.matrix
        operand = _known(x)
        self.known.linear(operand, weight.size(0), features=features)
        if id(x) not in self.kept:
            self.kept.add(id(x))
            if features is not None:
                self.known.keep(0, 8.0 * features.col.numel())
            elif isinstance(x, Constant):
                self.known.keep(operand.rows * operand.channels)
        self.known.keep(2 * operand.rows * weight.size(0))
        return Operand(rows=operand.rows, channels=weight.size(0), needs_grad=True)

    def _made(self, adj: Adjacency, channels: int, *, needs_grad: bool = True) -> Operand:
        self.known.keep(2 * adj.num_rows * channels, 8.0 * adj.col.numel())
        return Operand(rows=adj.num_rows, channels=channels, needs_grad=needs_grad)

    def _learn(self, *parameters: Any) -> None:
        self.parameters |= {id(p): p for p in parameters if isinstance(p, Parameter) and p.requires_grad}


PASSES = ("relu", "elu", "leaky_relu", "leakyrelu", "tanh", "sigmoid", "dropout", "identity")


def _known(x: Any) -> Operand:
    """A constant as an operand."""
    return Operand(rows=x.num_rows, channels=x.num_features) if isinstance(x, Constant) else x


def _uncounted(name: str) -> NotApplicable:
    return NotApplicable(f"The floor of this step is not known: {name} is not counted.")
