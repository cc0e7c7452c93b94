from __future__ import annotations

import pytest
import torch
from torch_geometric.nn import ChebConv

from tests.rewrites.layers.against_pyg import NUM_FEATURES, check, empty_graph, reason

OPTIONS = [
    {"K": 1},
    {"K": 2},
    {"K": 3, "normalization": "rw"},
    {"K": 4},
    {"K": 3, "normalization": None, "bias": False},
    {"K": 3, "aggr": "mean"},
    {"K": 3, "aggr": "max"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("num_out", [3, 14])
def test_equals_pyg(options, num_out):
    assert check(ChebConv(NUM_FEATURES, num_out, **options), takes_weight=True) > 80


def test_no_edges_deeper_and_float32():
    layer = ChebConv(NUM_FEATURES, 3, K=3)
    check(layer, graph=empty_graph(), takes_weight=True)
    check(layer, depth=1)
    check(layer, dtype=torch.float32, tolerance=5e-5)


def test_other_aggregations_are_refused():
    assert reason(ChebConv(4, 4, K=2, aggr="mul")).startswith("ChebConv aggregates by mul")
