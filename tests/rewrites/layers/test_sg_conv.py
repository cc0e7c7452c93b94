from __future__ import annotations

import pytest
import torch
from torch_geometric.nn import SGConv

from fasthop.graph.csr import CSR
from fasthop.rewrites.exact.constant import Constant
from fasthop.rewrites.exact.hops import Hops
from fasthop.rewrites.exact.known import KnownGraph
from fasthop.rewrites.exact.options import ExactOptions
from fasthop.rewrites.exact.order import NodeOrder
from fasthop.rewrites.layers.covered import BY_CLASS, fast_layer
from tests.rewrites.layers.against_pyg import NUM_FEATURES, check, empty_graph, random_graph, reason

OPTIONS = [
    {},
    {"K": 2},
    {"K": 3, "add_self_loops": False},
    {"K": 0},
    {"K": 2, "aggr": "mean", "bias": False},
    {"K": 2, "aggr": "max"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("num_out", [3, 14])
def test_equals_pyg(options, num_out):
    assert check(SGConv(NUM_FEATURES, num_out, **options), takes_weight=True) > 80


def test_no_edges_deeper_and_float32():
    layer = SGConv(NUM_FEATURES, 3, K=2)
    check(layer, graph=empty_graph(), takes_weight=True)
    check(layer, depth=1)
    check(layer, dtype=torch.float32, tolerance=2e-5)


def test_all_k_products_of_a_constant_are_kept():
    graph = random_graph()
    order = NodeOrder.whole(CSR.from_edge_index(graph.edge_index, graph.num_nodes))
    known = KnownGraph(graph.edge_index, None, order, use_spmm=True)
    fast = fast_layer(SGConv(NUM_FEATURES, 3, K=3), ExactOptions.all())
    x = Constant.of(torch.rand(graph.num_nodes, NUM_FEATURES), by_non_zeros=False, keeps_products=True)
    hops = Hops(graph=known, depth=0, num_hops=3, weighted=False)
    fast(x, hops)
    kept = x
    for _ in range(3):
        ((_, kept),) = kept._products.values()
    assert kept.num_rows == graph.num_nodes


def test_a_cached_layer_says_that_it_remembers_its_input():
    cls = BY_CLASS[SGConv]
    assert cls.remembers_input(SGConv(4, 4, cached=True))
    assert not cls.remembers_input(SGConv(4, 4))


def test_other_aggregations_are_refused():
    assert reason(SGConv(4, 4, aggr="mul")).startswith("SGConv aggregates by mul")
