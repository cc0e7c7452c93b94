"""GATConv and GATv2Conv, whose options are the same."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.nn import GATConv, GATv2Conv

from fasthop.graph.csr import CSR
from fasthop.kernels.dropout import without_dropout
from fasthop.rewrites.exact.hops import Hops
from fasthop.rewrites.exact.known import KnownGraph
from fasthop.rewrites.exact.options import ExactOptions
from fasthop.rewrites.exact.order import NodeOrder
from fasthop.rewrites.layers.covered import fast_layer
from tests.rewrites.layers.against_pyg import NUM_FEATURES as F
from tests.rewrites.layers.against_pyg import check, empty_graph, random_graph, reason

LAYERS = [GATConv, GATv2Conv]
OPTIONS = [
    {},
    {"heads": 2},
    {"heads": 2, "residual": True},
    {"heads": 2, "residual": True, "bias": False, "concat": False},
    {"add_self_loops": False},
    {"heads": 2, "bias": False, "negative_slope": 0.6, "concat": False},
    {"in_channels": (F, F), "heads": 2, "residual": True},
]


@pytest.mark.parametrize("make", LAYERS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_equals_pyg(make, options):
    assert check(make(**{"in_channels": F, "out_channels": 3, **options})) > 40


def test_shared_weights():
    check(GATv2Conv(F, 3, heads=2, share_weights=True))
    check(GATv2Conv(F, 3, heads=2, share_weights=True, residual=True, bias=False))


@pytest.mark.parametrize("make", LAYERS)
def test_no_edges_deeper_and_float32(make):
    layer = make(F, 3, heads=2)
    check(layer, graph=empty_graph())
    check(make(F, 3, heads=2, add_self_loops=False), graph=empty_graph())
    check(layer, depth=1)
    check(layer, dtype=torch.float32, tolerance=5e-5)


def sorted_call(layer, options):
    """The fast layer and its arguments on a graph whose edges are in a CSR's order already."""
    graph = random_graph()
    csr = CSR.from_edge_index(graph.edge_index, graph.num_nodes)
    edge_index = graph.edge_index[:, csr.e_id.long()]
    known = KnownGraph(edge_index, None, NodeOrder.whole(csr), use_spmm=options.csr_spmm)
    hops = Hops(graph=known, depth=0, num_hops=1, weighted=False)
    return fast_layer(layer, options), torch.randn(graph.num_nodes, F), edge_index, hops


@pytest.mark.parametrize("make", LAYERS)
def test_dropout_without_spmm_is_torchs_own(make):
    layer = make(F, 3, heads=2, dropout=0.5, add_self_loops=False)
    fast, x, edge_index, hops = sorted_call(layer, ExactOptions(cache_norm=True))
    torch.manual_seed(7)
    wanted = layer(x, edge_index)
    torch.manual_seed(7)
    assert (fast(x, hops) - wanted).abs().max() < 1e-5
    assert (fast.eval()(x, hops) - layer.eval()(x, edge_index)).abs().max() < 1e-5


@pytest.mark.parametrize("make", LAYERS)
def test_dropout_in_the_kernels_follows_the_mode_and_the_switch(make):
    layer = make(F, 3, heads=2, dropout=0.5)
    fast, x, edge_index, hops = sorted_call(layer, ExactOptions.all())
    first = fast(x, hops)
    assert (first - fast(x, hops)).abs().max() > 1e-3
    mean = torch.stack([fast(x, hops) for _ in range(600)]).mean(0)
    plain = make.forward(layer.eval(), x, edge_index)
    assert (mean - plain).abs().mean() < 0.1 * (first - plain).abs().mean()
    layer.train()
    with without_dropout():
        assert (fast(x, hops) - plain).abs().max() < 1e-5
    assert (fast.eval()(x, hops) - plain).abs().max() < 1e-5


@pytest.mark.parametrize("make", LAYERS)
def test_refusals(make):
    name = make.__name__
    assert reason(make(4, 4, edge_dim=3)) == (
        f"{name} scores edge features (edge_dim 3), which the attention kernels do not have."
    )
    assert reason(make(4, 4, aggr="mean")) == f"{name} aggregates by mean; the fast form knows sum."
    assert "aggregates by mul" in reason(make(4, 4, aggr="mul"))
