from __future__ import annotations

import pytest
import torch
from torch_geometric.nn import ClusterGCNConv

from tests.rewrites.layers.against_pyg import NUM_FEATURES, check, empty_graph, random_graph, reason

OPTIONS = [{}, {"diag_lambda": 0.7}, {"bias": False, "diag_lambda": 1.0}, {"aggr": "mean"}, {"aggr": "max"}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("num_out", [3, 14])
def test_equals_pyg(options, num_out):
    assert check(ClusterGCNConv(NUM_FEATURES, num_out, **options)) > 40


def test_no_edges_deeper_and_float32():
    layer = ClusterGCNConv(NUM_FEATURES, 3, diag_lambda=0.2)
    check(layer, graph=empty_graph())
    check(layer, depth=1)
    check(layer, dtype=torch.float32, tolerance=2e-5)


def test_refusals():
    assert reason(ClusterGCNConv(4, 4, add_self_loops=False)) == (
        "ClusterGCNConv is covered with add_self_loops=True only."
    )
    assert reason(ClusterGCNConv(4, 4, aggr="mul")).startswith("ClusterGCNConv aggregates by mul")


def test_pyg_itself_fails_without_added_self_loops():
    graph = random_graph()
    with pytest.raises((RuntimeError, IndexError)):
        ClusterGCNConv(4, 4, add_self_loops=False)(torch.rand(graph.num_nodes, 4), graph.edge_index)
