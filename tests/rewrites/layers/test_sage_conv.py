from __future__ import annotations

import pytest
import torch
from torch_geometric.nn import MeanAggregation, SAGEConv

from tests.rewrites.layers.against_pyg import NUM_FEATURES, check, empty_graph, reason

OPTIONS = [
    {},
    {"aggr": "sum"},
    {"aggr": "add", "root_weight": False},
    {"aggr": "max"},
    {"aggr": "min", "normalize": True},
    {"project": True},
    {"project": True, "aggr": "max"},
    {"bias": False, "normalize": True},
    {"in_channels": (NUM_FEATURES, NUM_FEATURES)},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("num_out", [3, 14])
def test_equals_pyg(options, num_out):
    assert check(SAGEConv(**{"in_channels": NUM_FEATURES, "out_channels": num_out, **options})) > 40


@pytest.mark.parametrize("aggr", ["mean", "max", "sum"])
def test_no_edges_deeper_and_float32(aggr):
    layer = SAGEConv(NUM_FEATURES, 3, aggr=aggr)
    check(layer, graph=empty_graph())
    check(layer, depth=1)
    check(layer, dtype=torch.float32, tolerance=2e-5)


@pytest.mark.parametrize("aggr", ["lstm", "median", ["mean", "max"], MeanAggregation(), "mul"], ids=str)
def test_other_aggregations_are_refused(aggr):
    assert reason(SAGEConv(4, 4, aggr=aggr)).startswith("SAGEConv aggregates by ")


def test_an_exchanged_aggregation_is_refused():
    layer = SAGEConv(4, 4, aggr="mean")
    layer.aggr_module = torch.nn.Identity()
    assert "aggregates by" in reason(layer)


def test_an_exchanged_linear_map_is_refused():
    layer = SAGEConv(4, 4)
    layer.lin_l = torch.nn.Sequential(layer.lin_l, torch.nn.ReLU())
    assert reason(layer) == "SAGEConv has a Sequential where PyG has a linear map (lin_l)."


def test_an_exchanged_method_is_refused():
    layer = SAGEConv(4, 4)
    layer.message = lambda x_j: 2 * x_j
    assert "message()" in reason(layer)
