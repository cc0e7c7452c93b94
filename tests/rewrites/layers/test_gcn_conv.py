from __future__ import annotations

import pytest
import torch
from torch_geometric.nn import GCNConv

from tests.rewrites.layers.against_pyg import NUM_FEATURES, check, empty_graph, reason

OPTIONS = [
    {},
    {"improved": True},
    {"add_self_loops": False},
    {"normalize": False},
    {"bias": False, "cached": True},
    {"aggr": "mean"},
    {"aggr": "max"},
    {"aggr": "min", "normalize": False},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("num_out", [3, 14])
def test_equals_pyg(options, num_out):
    options = dict(options)
    cached = options.pop("cached", False)
    layer = GCNConv(NUM_FEATURES, num_out, **options)
    assert check(layer, takes_weight=True) > 80
    if cached:  # PyG's own cache would be of the first of the graphs that are compared
        layer.cached = True
        check(layer)


def test_no_edges_deeper_and_float32():
    layer = GCNConv(NUM_FEATURES, 3)
    check(layer, graph=empty_graph(), takes_weight=True)
    check(layer, depth=1)
    check(layer, dtype=torch.float32, tolerance=2e-5)


def test_other_aggregations_are_refused():
    assert reason(GCNConv(4, 4, aggr="median")).startswith("GCNConv aggregates by median")


def test_what_a_rewrite_would_lose_is_refused():
    layer = GCNConv(4, 4)
    handle = layer.register_forward_hook(lambda *_: None)
    assert reason(layer) == "GCNConv has hooks, which the rewritten layer would not call."
    handle.remove()
    torch.nn.utils.parametrizations.weight_norm(layer.lin)
    assert "parametrizations" in reason(layer)
    assert "flow" in reason(GCNConv(4, 4, flow="target_to_source"))
    assert "without a shape" in reason(GCNConv(-1, 4)) or "hooks" in reason(GCNConv(-1, 4))
