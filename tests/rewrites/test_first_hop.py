"""The rung `first_hop`: keeps what the first layer sums, unless something random stands before it."""

from __future__ import annotations

import pytest
from torch_geometric import nn as gnn

from fasthop.rewrites.first_hop import FirstHop
from tests.rewrites.exact.tasks import Net, losses, refusal, setup_of


@pytest.mark.parametrize("conv", [gnn.GCNConv, gnn.SAGEConv, gnn.GraphConv], ids=lambda conv: conv.__name__)
@pytest.mark.parametrize("dense", [False, True])
def test_it_trains_as_pyg_does(conv, dense):
    setup = FirstHop().on(setup_of(lambda: Net(conv), dense=dense))
    assert losses(setup) == pytest.approx(losses(setup_of(lambda: Net(conv), dense=dense)), rel=1e-9)


def test_it_refuses_under_dropout_and_where_no_sum_comes_first():
    assert "something random or learned" in refusal(FirstHop(), setup_of(lambda: Net(dropout=0.5)))
    assert "something random or learned" in refusal(FirstHop(), setup_of(lambda: Net(gnn.GATConv)))
