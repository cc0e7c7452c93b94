"""A fast layer against PyG's own on the whole graph: outputs, and the gradient of every parameter and of x."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fasthop.graph.csr import CSR
from fasthop.rewrites.exact.constant import Constant
from fasthop.rewrites.exact.hops import Hops
from fasthop.rewrites.exact.known import KnownGraph
from fasthop.rewrites.exact.options import ExactOptions
from fasthop.rewrites.exact.order import NodeOrder
from fasthop.rewrites.layers.covered import fast_layer, refusal

NUM_FEATURES = 10
OPTIONS = {
    "cache_norm": ExactOptions(cache_norm=True),
    "csr_spmm": ExactOptions(csr_spmm=True),
    "transform_order": ExactOptions(transform_order=True, sparse_features=True),
    "all": ExactOptions.all(),
}
INPUTS = ("activations", "dense", "kept", "non-zeros", "kept non-zeros", "dropped")


@dataclass(frozen=True, kw_only=True)
class Graph:
    edge_index: Tensor
    edge_weight: Tensor
    num_nodes: int
    seeds: Tensor


def random_graph() -> Graph:
    """Directed, with self-loops (two of them at one node), parallel edges and nodes without edges."""
    generator = torch.Generator().manual_seed(5)
    num_nodes = 26
    edge_index = torch.randint(0, num_nodes - 4, (2, 55), generator=generator)
    edge_index[:, 10] = edge_index[:, 11]
    edge_index[:, 12] = edge_index[:, 11]
    edge_index[1, 20:23] = edge_index[0, 20:23]
    edge_index[:, 24] = edge_index[:, 20]
    seeds = torch.zeros(num_nodes, dtype=torch.bool)
    # One that is a self-loop's, one of parallel edges, two isolated.
    seeds[torch.stack([edge_index[1, 20], edge_index[1, 11], torch.tensor(num_nodes - 1)])] = True
    seeds[num_nodes - 3] = True
    edge_weight = torch.rand(edge_index.size(1), generator=generator, dtype=torch.float64) + 0.1
    return Graph(edge_index=edge_index, edge_weight=edge_weight, num_nodes=num_nodes, seeds=seeds)


def empty_graph() -> Graph:
    """Five nodes and no edge."""
    seeds = torch.tensor([True, False, False, True, False])
    weight = torch.empty(0, dtype=torch.float64)
    return Graph(
        edge_index=torch.empty(2, 0, dtype=torch.int64), edge_weight=weight, num_nodes=5, seeds=seeds
    )


def orders(graph: Graph, num_hops: int, depth: int) -> Iterator[NodeOrder]:
    """All nodes and shells of the seeds, each in the user's order and for locality."""
    csr = CSR.from_edge_index(graph.edge_index, graph.num_nodes)
    for locality in (False, True):
        yield NodeOrder.whole(csr, locality=locality)
        yield NodeOrder.shells(csr, graph.seeds, num_hops + depth, locality=locality)


def value_of(x: Tensor, kind: str) -> Tensor | Constant:
    """The rows as a layer may be handed them."""
    if kind == "activations":
        return x.clone().requires_grad_()
    if kind == "dropped":
        return Constant.of(x, by_non_zeros=True, keeps_products=True).dropout(0.4)
    return Constant.of(x, by_non_zeros="non-zeros" in kind, keeps_products="kept" in kind)


def check(
    layer: Any,
    *,
    graph: Graph | None = None,
    takes_weight: bool = False,
    x_0: bool = False,
    num_features: int = NUM_FEATURES,
    dtype: torch.dtype = torch.float64,
    depth: int = 0,
    tolerance: float = 1e-10,
) -> int:
    """Compares over every order, set of rungs, kind of input and (`takes_weight`) with and without edge weights. Returns
    how many comparisons there were."""
    graph = graph or random_graph()
    layer = layer.to(dtype)
    randomise(layer)
    assert refusal(layer) is None, refusal(layer)
    generator = torch.Generator().manual_seed(1)
    shape = (graph.num_nodes, num_features)
    x = torch.rand(shape, generator=generator).to(dtype)
    x = x * (torch.rand(shape, generator=generator) < 0.12)
    initial = torch.randn(shape, generator=generator).to(dtype) if x_0 else None
    num_compared = 0
    num_hops = fast_layer(layer, ExactOptions()).num_hops
    for order, weighted in itertools.product(
        orders(graph, num_hops, depth), (False, True) if takes_weight else (False,)
    ):
        rows = order.arranged(x, depth + num_hops)
        weights = (graph.edge_weight.to(dtype),) if weighted else ()
        initials = () if initial is None else (order.arranged(initial, depth + num_hops),)
        expected: dict[str, list[Tensor | None]] = {}
        for name, options in OPTIONS.items():
            fast = fast_layer(layer, options)
            weight = graph.edge_weight.to(dtype)
            known = KnownGraph(graph.edge_index, weight, order, use_spmm=options.csr_spmm)
            hops = Hops(graph=known, depth=depth, num_hops=num_hops, weighted=weighted)
            for kind in INPUTS:
                if kind in ("dense", "non-zeros") and name in ("cache_norm", "csr_spmm"):
                    continue  # which read a constant as they read activations, or what was kept
                value = value_of(rows + 0.25 if kind == "activations" else rows, kind)
                if kind == "dropped" and (isinstance(value, Tensor) or value.sparse is None):
                    continue
                if kind == "dropped" or kind not in expected:
                    expected[kind] = _pyg(layer, value, initial, graph, weights, order, order.size(depth))
                for turn in ("", " again") if kind.startswith("kept") else ("",):
                    got = _fast(fast, value, hops, initials)
                    what = f"{name}, {kind}{turn}, order of sizes {order.sizes}, weighted {weighted}"
                    for place, (mine, theirs) in enumerate(zip(got, expected[kind], strict=True)):
                        close(mine, theirs, tolerance, f"value {place}, {what}")
                    num_compared += 1
    return num_compared


def _pyg(
    layer: Any,
    value: Tensor | Constant,
    initial: Tensor | None,
    graph: Graph,
    weights: tuple[Tensor, ...],
    order: NodeOrder,
    num_out: int,
) -> list[Tensor | None]:
    """Output, the parameters' gradients and x's, of PyG's layer on the whole graph, in the order's rows."""
    n_id = torch.arange(graph.num_nodes) if order.n_id is None else order.n_id
    rows = value.dense() if isinstance(value, Constant) else value
    placed = torch.zeros(graph.num_nodes, rows.size(1), dtype=rows.dtype)
    placed[n_id[: rows.size(0)]] = rows.detach()
    placed.requires_grad_(rows.requires_grad)
    initials = () if initial is None else (initial,)
    out = layer(placed, *initials, graph.edge_index, *weights).index_select(0, n_id[:num_out])
    found = _gradients(out, [*layer.parameters(), *([placed] if rows.requires_grad else [])])
    if rows.requires_grad and found[-1] is not None:
        found[-1] = found[-1].index_select(0, n_id[: rows.size(0)])
    return [out.detach(), *found]


def _fast(
    fast: Any, value: Tensor | Constant, hops: Hops, initials: tuple[Tensor, ...]
) -> list[Tensor | None]:
    out = fast(value, hops, *initials)
    leaf = [value] if isinstance(value, Tensor) and value.requires_grad else []
    return [out.detach(), *_gradients(out, [*fast.layer.parameters(), *leaf])]


def _gradients(out: Tensor, inputs: list[Tensor]) -> list[Tensor | None]:
    if not out.requires_grad:
        return [None] * len(inputs)
    cotangent = torch.randn(out.shape, generator=torch.Generator().manual_seed(2)).to(out.dtype)
    return list(torch.autograd.grad((out * cotangent).sum(), inputs, allow_unused=True))


def close(mine: Tensor | None, theirs: Tensor | None, tolerance: float, what: str) -> None:
    """No gradient counts as zeros."""
    if mine is not None and theirs is not None:
        assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype), what
    zero = torch.zeros(())
    difference = (zero if mine is None else mine) - (zero if theirs is None else theirs)
    error = difference.abs().max().item() if difference.numel() else 0.0
    assert error < tolerance, f"{what}: off by {error}"


def randomise(layer: Any) -> None:
    """Biases are zero at first, which would hide a bias that was forgotten."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in layer.parameters():
            if parameter.dim() == 1:
                parameter.copy_(torch.randn(parameter.shape, generator=generator))


def reason(layer: Any) -> str:
    """Why it is refused, in English; both languages are there."""
    note = refusal(layer)
    assert note is not None
    assert note["zh"]
    assert note["en"].endswith(".")
    assert note["zh"].endswith("。")
    return note["en"]
