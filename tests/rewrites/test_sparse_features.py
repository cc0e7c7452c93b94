"""The rung `sparse_features`: multiplies the non-zeros of x, where they are few."""

from __future__ import annotations

import pytest
import torch
from torch_geometric import nn as gnn

from fasthop.rewrites.sparse_features import SparseFeaturesRung
from tests.rewrites.exact.tasks import Net, losses, refusal, setup_of


@pytest.mark.parametrize("conv", [gnn.GCNConv, gnn.GATConv, gnn.LEConv], ids=lambda conv: conv.__name__)
def test_it_trains_as_pyg_does(conv):
    setup = SparseFeaturesRung().on(setup_of(lambda: Net(conv)))
    assert setup.exact.acted >= {"sparse_features"}
    assert losses(setup) == pytest.approx(losses(setup_of(lambda: Net(conv))), rel=1e-9)


def test_unused_columns_still_decay():
    """Weight decay reaches the columns of features that no node has, as it does in PyG."""
    trained = []
    for rungs in ((), (SparseFeaturesRung(),)):
        setup = setup_of(Net)
        setup.task.graph.x[:, 3] = 0
        for rung in rungs:
            setup = rung.on(setup)
        setup.restart(0)
        before = setup.original.c1.lin.weight[:, 3].detach().clone()
        losses(setup)
        trained.append(setup.original.c1.lin.weight.detach().clone())
        assert not torch.equal(trained[-1][:, 3], before)
    torch.testing.assert_close(trained[1], trained[0], rtol=0, atol=1e-9)


def test_it_refuses_a_dense_x():
    assert "% of x are non-zero" in refusal(SparseFeaturesRung(), setup_of(Net, dense=True))
    assert "TransformerConv" in refusal(SparseFeaturesRung(), setup_of(lambda: Net(gnn.TransformerConv)))
