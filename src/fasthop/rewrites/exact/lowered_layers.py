"""How each covered layer is written as operations of a stack: reads as a table at its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch_geometric.nn import MLP

from fasthop.graph.note import Note, note
from fasthop.kernels.stack import ops
from fasthop.rewrites.exact.constant import Constant
from fasthop.rewrites.exact.fast_layer import FastLayer, aggregation, hidden_state
from fasthop.rewrites.exact.hops import Hops
from fasthop.rewrites.exact.lowering import Lowering, NotAStack, Read, learned
from fasthop.rewrites.exact.matrix import Matrix
from fasthop.rewrites.layers.gcn_conv import FastGCNConv
from fasthop.rewrites.layers.gin_conv import FastGINConv, split
from fasthop.rewrites.layers.graph_conv import FastGraphConv
from fasthop.rewrites.layers.prepared import aggregating, gcn_matrix, plain_matrix, rooted_matrix
from fasthop.rewrites.layers.sage_conv import FastSAGEConv
from fasthop.rewrites.layers.sg_conv import FastSGConv


def lower_layer(into: Lowering, fast: FastLayer, x: Read, hops: Hops) -> int:
    """Writes a layer's operations and returns the place of its output. Raises NotAStack for a layer without any."""
    write = LOWERED.get(type(fast))
    if write is None:
        raise NotAStack(_no(type(fast.layer).__name__))
    return write(into, fast, x, hops)


def _typed(x: Read, fast: FastLayer) -> Any:
    """What gcn_matrix reads a dtype from."""
    return x if isinstance(x, Constant) else next(fast.layer.parameters())


def _linear_sum(
    into: Lowering,
    fast: FastLayer,
    x: Read,
    matrix: Matrix,
    weight: Any,
    bias: Any = None,
    *,
    own_first: bool,
    reduce: str = "sum",
) -> int:
    """As FastLayer.propagate_linear."""
    if isinstance(x, Constant):
        product = x.product(matrix, reduce)
        if product is not None:
            return into.linear(product, weight, bias)
    num_out, num_in = weight.shape
    value: Any = x if isinstance(x, Constant) else weight
    if not fast.transforms_first(value, matrix, num_in, num_out, own=own_first, num_rows=matrix.num_cols):
        return into.linear(into.times(matrix, x, reduce), weight, bias)
    out = into.dense_place(into.times(matrix, into.linear(x, weight), reduce))
    return _with_bias(into, out, bias)


def _with_bias(into: Lowering, out: int, bias: Any) -> int:
    return out if bias is None else into.add(ops.Bias(source=out, bias=learned(bias)))


def _rooted(
    into: Lowering,
    fast: FastLayer,
    x: Read,
    matrix: Matrix,
    neighbours: Any,
    root: Any,
    reduce: str,
    own: Read,
) -> int:
    """As layers/rooted.py: the neighbours through one map, the node itself through another."""
    out = _linear_sum(
        into, fast, x, matrix, neighbours.weight, neighbours.bias, own_first=False, reduce=reduce
    )
    if root is None:
        return out
    rows = into.head(own, matrix.num_rows)
    return into.add(ops.Add(a=out, b=into.linear(rows, root.weight, root.bias)))


def _gcn_conv(into: Lowering, fast: FastLayer, x: Read, hops: Hops) -> int:
    layer = fast.layer
    typed = _typed(x, fast)
    matrix = (
        gcn_matrix(hops, typed, improved=layer.improved, add_self_loops=bool(layer.add_self_loops))
        if layer.normalize
        else plain_matrix(hops, typed)
    )
    reduce = _summing(layer)
    return _linear_sum(into, fast, x, matrix, layer.lin.weight, layer.bias, own_first=True, reduce=reduce)


def _sage_conv(into: Lowering, fast: FastLayer, x: Read, hops: Hops) -> int:
    layer = fast.layer
    if layer.normalize:
        raise NotAStack(_no("SAGEConv(normalize=True)"))
    matrix, reduce = aggregating(hops, _typed(x, fast), _summing(layer), weighted=False)
    sent: Read = x
    if layer.project:
        sent = into.activation(into.linear(x, layer.lin.weight, layer.lin.bias), "relu")
    root = layer.lin_r if layer.root_weight else None
    return _rooted(into, fast, sent, matrix, layer.lin_l, root, reduce, x)


def _graph_conv(into: Lowering, fast: FastLayer, x: Read, hops: Hops) -> int:
    layer = fast.layer
    matrix, reduce = aggregating(hops, _typed(x, fast), _summing(layer), weighted=True)
    return _rooted(into, fast, x, matrix, layer.lin_rel, layer.lin_root, reduce, x)


def _gin_conv(into: Lowering, fast: FastLayer, x: Read, hops: Hops) -> int:
    layer = fast.layer
    if layer.eps.requires_grad:
        raise NotAStack(_no("GINConv(train_eps=True)"))
    matrix = rooted_matrix(hops, _typed(x, fast), _summing(layer), float(1 + layer.eps))
    first, (rest,) = split(layer.nn)
    if first is None:
        return into.dense_place(into.module(into.times(matrix, x), layer.nn))
    if isinstance(layer.nn, MLP):
        raise NotAStack(_no("MLP"))
    reason = hidden_state(layer.nn)
    if reason is not None:
        raise NotAStack(reason)
    out = _linear_sum(into, fast, x, matrix, first.weight, first.bias, own_first=False)
    return into.dense_place(into.module(out, rest))


def _sg_conv(into: Lowering, fast: FastLayer, x: Read, hops: Hops) -> int:
    layer = fast.layer
    reduce = _summing(layer)
    typed = _typed(x, fast)
    matrices = [
        gcn_matrix(hops, typed, add_self_loops=layer.add_self_loops, hop=hop) for hop in range(layer.K)
    ]
    while matrices and isinstance(x, Constant):
        product = x.product(matrices[0], reduce)
        if product is None:
            break
        x = product
        del matrices[0]
    weight, bias = layer.lin.weight, layer.lin.bias
    if not matrices:
        return into.linear(x, weight, bias)
    num_out, num_in = weight.shape
    value: Any = x if isinstance(x, Constant) else weight
    first = matrices[0]
    if fast.transforms_first(value, first, num_in, num_out, own=False, num_rows=first.num_cols):
        x = into.linear(x, weight)
        for matrix in matrices:
            x = into.times(matrix, x, reduce)
        return _with_bias(into, into.dense_place(x), bias)
    for matrix in matrices:
        x = into.times(matrix, x, reduce)
    return into.linear(x, weight, bias)


def _summing(layer: Any) -> str:
    reduce = aggregation(layer)
    if reduce not in ("sum", "mean"):
        raise NotAStack(_no(f"{type(layer).__name__}(aggr={layer.aggr!r})"))
    return reduce


def _no(name: str) -> Note:
    return note(f"The compiled step does not have {name}.", f"编译好的训练步不支持 {name}。")


LOWERED: dict[type[FastLayer], Callable[[Lowering, Any, Read, Hops], int]] = {
    FastGCNConv: _gcn_conv,
    FastSAGEConv: _sage_conv,
    FastGraphConv: _graph_conv,
    FastGINConv: _gin_conv,
    FastSGConv: _sg_conv,
}
