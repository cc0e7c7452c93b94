from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch_geometric.nn import GraphConv

from tests.rewrites.layers.against_pyg import NUM_FEATURES, check, empty_graph, random_graph, reason


@pytest.mark.parametrize("aggr", ["add", "mean", "max", "min"])
@pytest.mark.parametrize("num_out", [3, 14])
def test_equals_pyg(aggr, num_out):
    assert check(GraphConv(NUM_FEATURES, num_out, aggr=aggr), takes_weight=True) > 80


@pytest.mark.parametrize("aggr", ["mean", "max"])
def test_no_edges_deeper_without_bias_and_float32(aggr):
    layer = GraphConv((NUM_FEATURES, NUM_FEATURES), 3, aggr=aggr, bias=False)
    check(layer, graph=empty_graph(), takes_weight=True)
    check(layer, depth=1)
    check(layer, dtype=torch.float32, tolerance=2e-5)


def test_a_column_of_weights_is_a_vector_of_them():
    graph = random_graph()
    check(
        GraphConv(NUM_FEATURES, 3),
        takes_weight=True,
        graph=replace(graph, edge_weight=graph.edge_weight[:, None]),
    )


def test_other_aggregations_are_refused():
    assert reason(GraphConv(4, 4, aggr="softmax")).startswith("GraphConv aggregates by softmax")
