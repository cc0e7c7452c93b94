from __future__ import annotations

import pytest
import torch
from torch_geometric.nn import APPNP

from tests.rewrites.layers.against_pyg import check, empty_graph, reason

OPTIONS = [
    {},
    {"K": 3, "add_self_loops": False},
    {"K": 2, "normalize": False},
    {"K": 0},
    {"K": 2, "alpha": 1.0},
    {"K": 2, "aggr": "mean"},
    {"K": 2, "aggr": "max"},
    {"K": 2, "aggr": "min", "normalize": False},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_equals_pyg(options):
    assert check(APPNP(**{"K": 1, "alpha": 0.2, **options}), takes_weight=True) > 80


def test_no_edges_deeper_and_float32():
    layer = APPNP(K=2, alpha=0.1)
    check(layer, graph=empty_graph(), takes_weight=True)
    check(layer, depth=1)
    check(layer, dtype=torch.float32, tolerance=2e-5)


def test_refusals():
    assert reason(APPNP(2, 0.1, dropout=0.5)) == (
        "APPNP drops entries of its matrix with probability 0.5, anew in each hop."
    )
    assert reason(APPNP(2, 0.1, aggr="std")).startswith("APPNP aggregates by std")
