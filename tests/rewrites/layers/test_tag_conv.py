from __future__ import annotations

import pytest
import torch
from torch_geometric.nn import TAGConv

from tests.rewrites.layers.against_pyg import NUM_FEATURES, check, empty_graph, reason

OPTIONS = [
    {},
    {"K": 1},
    {"K": 2, "normalize": False},
    {"K": 0},
    {"K": 2, "aggr": "mean", "bias": False},
    {"K": 2, "aggr": "max"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("num_out", [3, 14])
def test_equals_pyg(options, num_out):
    assert check(TAGConv(NUM_FEATURES, num_out, **options), takes_weight=True) > 80


def test_no_edges_deeper_and_float32():
    layer = TAGConv(NUM_FEATURES, 3, K=2)
    check(layer, graph=empty_graph(), takes_weight=True)
    check(layer, depth=1)
    check(layer, dtype=torch.float32, tolerance=2e-5)


def test_other_aggregations_are_refused():
    assert reason(TAGConv(4, 4, aggr="var")).startswith("TAGConv aggregates by var")
