"""The rung `receptive_field`: computes what the training nodes' loss depends on, and nothing where rows mix."""

from __future__ import annotations

import pytest
from torch import nn
from torch_geometric import nn as gnn

from fasthop.rewrites.receptive_field import ReceptiveField
from tests.rewrites.exact.tasks import Net, losses, refusal, setup_of


@pytest.mark.parametrize(
    "conv", [gnn.GCNConv, gnn.SAGEConv, gnn.GATConv, gnn.ChebConv], ids=lambda conv: conv.__name__
)
def test_it_trains_as_pyg_does_on_fewer_rows(conv):
    def make():
        return Net(conv if conv is not gnn.ChebConv else lambda i, o: gnn.ChebConv(i, o, K=2))

    setup = ReceptiveField().on(setup_of(make))
    assert losses(setup) == pytest.approx(losses(setup_of(make)), rel=1e-9)
    batch = setup.batches.batch
    assert setup.forward(batch).size(0) == int(setup.task.graph.train_mask.sum())
    setup.model.eval()
    assert setup.forward(batch).size(0) == setup.task.graph.num_nodes


@pytest.mark.parametrize(
    ("norm", "word"),
    [
        (lambda: nn.BatchNorm1d(8), "BatchNorm1d"),
        (lambda: gnn.LayerNorm(8), "LayerNorm"),
        (gnn.PairNorm, "PairNorm"),
        (lambda: gnn.GraphNorm(8), "GraphNorm"),
        (lambda: gnn.InstanceNorm(8), "InstanceNorm"),
        (gnn.MeanSubtractionNorm, "MeanSubtractionNorm"),
    ],
)
def test_it_refuses_where_rows_mix(norm, word):
    assert word in refusal(ReceptiveField(), setup_of(lambda: Net(norm=norm)))


def test_it_refuses_where_every_node_is_needed():
    setup = setup_of(lambda: Net(gnn.TransformerConv))
    assert "TransformerConv" in refusal(ReceptiveField(), setup)
    setup = setup_of(Net)
    setup.task.graph.train_mask[:] = True
    assert "whole graph" in refusal(ReceptiveField(), setup)
