from __future__ import annotations

import pytest
import torch
from torch_geometric.nn import GCN2Conv

from fasthop.rewrites.layers.covered import BY_CLASS
from tests.rewrites.layers.against_pyg import NUM_FEATURES, check, empty_graph, reason

OPTIONS = [
    {},
    {"theta": 0.5, "layer": 2},
    {"theta": 0.5, "layer": 2, "shared_weights": False},
    {"add_self_loops": False, "shared_weights": False},
    {"normalize": False},
    {"aggr": "mean"},
    {"aggr": "mean", "normalize": False, "shared_weights": False},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_equals_pyg(options):
    assert check(GCN2Conv(NUM_FEATURES, alpha=0.3, **options), takes_weight=True, x_0=True) > 80


def test_no_edges_deeper_and_float32():
    layer = GCN2Conv(NUM_FEATURES, alpha=0.3, theta=0.5, layer=1)
    check(layer, graph=empty_graph(), takes_weight=True, x_0=True)
    check(layer, depth=1, x_0=True)
    check(layer, dtype=torch.float32, tolerance=2e-5, x_0=True)


def test_it_says_that_it_takes_x_0_and_refuses_other_aggregations():
    assert BY_CLASS[GCN2Conv].takes_x_0
    assert reason(GCN2Conv(4, 0.1, aggr="max")) == (
        "GCN2Conv aggregates by max; the fast form knows sum and mean."
    )
    assert reason(GCN2Conv(4, 0.1, aggr="mul")).startswith("GCN2Conv aggregates by mul")
