from __future__ import annotations

import copy

import pytest
import torch
from torch_geometric import nn

from fasthop.graph.csr import CSR
from fasthop.rewrites.exact.constant import Constant
from fasthop.rewrites.exact.hops import Hops
from fasthop.rewrites.exact.known import KnownGraph
from fasthop.rewrites.exact.options import ExactOptions
from fasthop.rewrites.exact.order import NodeOrder
from fasthop.rewrites.layers.covered import COVERED, fast_layer
from tests.rewrites.layers.against_pyg import NUM_FEATURES as F
from tests.rewrites.layers.against_pyg import random_graph

LAYERS = {
    "GCNConv": lambda: nn.GCNConv(F, 3),
    "SAGEConv": lambda: nn.SAGEConv(F, 3, project=True),
    "GINConv": lambda: nn.GINConv(nn.MLP([F, 3, 3], norm=None)),
    "GATConv": lambda: nn.GATConv(F, 3, heads=2),
    "GATv2Conv": lambda: nn.GATv2Conv(F, 3, heads=2),
    "GraphConv": lambda: nn.GraphConv(F, 3),
    "SGConv": lambda: nn.SGConv(F, 3, K=2),
    "APPNP": lambda: nn.APPNP(2, 0.1),
    "TAGConv": lambda: nn.TAGConv(F, 3, K=2),
    "ChebConv": lambda: nn.ChebConv(F, 3, K=3),
    "GCN2Conv": lambda: nn.GCN2Conv(F, 0.1),
    "ClusterGCNConv": lambda: nn.ClusterGCNConv(F, 3),
    "LEConv": lambda: nn.LEConv(F, 3),
}


def test_all_are_here():
    assert list(LAYERS) == [fast.covers.__name__ for fast in COVERED]


@pytest.mark.parametrize("options", [ExactOptions(cache_norm=True), ExactOptions.all()], ids=["norm", "all"])
@pytest.mark.parametrize("kind", ["activations", "half activations", "dense", "non-zeros"])
@pytest.mark.parametrize("name", LAYERS)
def test_it_runs_under_autocast_within_its_precision(name, kind, options):
    torch.manual_seed(0)
    graph = random_graph()
    layer = LAYERS[name]()
    order = NodeOrder.whole(CSR.from_edge_index(graph.edge_index, graph.num_nodes))
    known = KnownGraph(graph.edge_index, None, order, use_spmm=options.csr_spmm)
    fast = copy.deepcopy(fast_layer(layer, options))
    hops = Hops(graph=known, depth=0, num_hops=fast.num_hops, weighted=False)
    x = torch.rand(graph.num_nodes, F) * (torch.rand(graph.num_nodes, F) < 0.12)
    more = (x,) if fast.takes_x_0 else ()
    wanted = layer(x, *more, graph.edge_index).detach()
    value: torch.Tensor | Constant = x.clone().requires_grad_()
    if kind in ("dense", "non-zeros"):
        value = Constant.of(x, by_non_zeros=kind == "non-zeros", keeps_products=True)
    elif kind == "half activations":
        value = x.bfloat16().requires_grad_()
        more = tuple(each.bfloat16() for each in more)
    for _ in range(2):
        with torch.autocast("cpu", torch.bfloat16):
            out = fast(value, hops, *more)
            assert (out.float() - wanted).norm() < 0.02 * wanted.norm()
        if out.requires_grad:
            out.float().square().sum().backward()
    for gradient in [each.grad for each in fast.parameters()]:
        assert gradient is not None
        assert bool(gradient.isfinite().all())
