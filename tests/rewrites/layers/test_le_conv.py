from __future__ import annotations

import pytest
import torch
from torch_geometric.nn import LEConv

from tests.rewrites.layers.against_pyg import NUM_FEATURES, check, empty_graph, reason


@pytest.mark.parametrize("options", [{}, {"bias": False}, {"aggr": "mean"}], ids=str)
@pytest.mark.parametrize("num_out", [3, 14])
def test_equals_pyg(options, num_out):
    assert check(LEConv(NUM_FEATURES, num_out, **options), takes_weight=True) > 80


def test_no_edges_deeper_and_float32():
    layer = LEConv((NUM_FEATURES, NUM_FEATURES), 3)
    check(layer, graph=empty_graph(), takes_weight=True)
    check(layer, depth=1)
    check(layer, dtype=torch.float32, tolerance=2e-5)


def test_refusals():
    assert reason(LEConv(4, 4, aggr="max")) == ("LEConv aggregates by max; the fast form knows sum and mean.")
    assert reason(LEConv(4, 4, aggr="mul")).startswith("LEConv aggregates by mul")
