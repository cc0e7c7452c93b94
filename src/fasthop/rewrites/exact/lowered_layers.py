"""How each covered layer is written as operations of a stack: reads as a table at its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fasthop.graph.note import note
from fasthop.kernels.stack import ops
from fasthop.rewrites.exact.constant import Constant
from fasthop.rewrites.exact.fast_layer import FastLayer, aggregation
from fasthop.rewrites.exact.hops import Hops
from fasthop.rewrites.exact.lowering import Lowering, NotAStack, Read, learned
from fasthop.rewrites.exact.matrix import Matrix
from fasthop.rewrites.layers.gcn_conv import FastGCNConv
from fasthop.rewrites.layers.prepared import gcn_matrix, plain_matrix


def lower_layer(into: Lowering, fast: FastLayer, x: Read, hops: Hops) -> int:
    """Writes a layer's operations and returns the place of its output. Raises NotAStack for a layer without any."""
    write = LOWERED.get(type(fast))
    if write is None:
        name = type(fast.layer).__name__
        raise NotAStack(note(f"The compiled step does not have {name}.", f"编译好的训练步不支持 {name}。"))
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
    *,
    own_first: bool,
    reduce: str = "sum",
) -> int:
    """As FastLayer.propagate_linear."""
    if isinstance(x, Constant):
        product = x.product(matrix, reduce)
        if product is not None:
            return into.linear(product, weight)
    num_out, num_in = weight.shape
    value: Any = x if isinstance(x, Constant) else weight
    if fast.transforms_first(value, matrix, num_in, num_out, own=own_first, num_rows=matrix.num_cols):
        return into.dense_place(into.times(matrix, into.linear(x, weight), reduce))
    return into.linear(into.times(matrix, x, reduce), weight)


def _gcn_conv(into: Lowering, fast: FastLayer, x: Read, hops: Hops) -> int:
    layer = fast.layer
    typed = _typed(x, fast)
    matrix = (
        gcn_matrix(hops, typed, improved=layer.improved, add_self_loops=bool(layer.add_self_loops))
        if layer.normalize
        else plain_matrix(hops, typed)
    )
    reduce = _summing(layer)
    out = _linear_sum(into, fast, x, matrix, layer.lin.weight, own_first=True, reduce=reduce)
    return out if layer.bias is None else into.add(ops.Bias(source=out, bias=learned(layer.bias)))


def _summing(layer: Any) -> str:
    reduce = aggregation(layer)
    if reduce not in ("sum", "mean"):
        name = type(layer).__name__
        raise NotAStack(
            note(
                f"The compiled step does not have {name} with {layer.aggr}.",
                f"编译好的训练步不支持聚合为 {layer.aggr} 的 {name}。",
            )
        )
    return reduce


LOWERED: dict[type[FastLayer], Callable[[Lowering, Any, Read, Hops], int]] = {FastGCNConv: _gcn_conv}
