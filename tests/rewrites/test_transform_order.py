"""The rung `transform_order`: puts the linear map where less is moved, and trains as PyG does."""

from __future__ import annotations

import pytest
from torch_geometric import nn as gnn

from fasthop.rewrites.transform_order import TransformOrder
from tests.rewrites.exact.tasks import Net, losses, refusal, setup_of


def test_it_trains_as_pyg_does():
    """GraphSAGE sums before its linear map; from 12 channels to 4 the map comes first."""

    def make():
        return Net(gnn.SAGEConv, hidden=64)

    setup = TransformOrder().on(setup_of(make))
    assert "transform_order" in setup.exact.acted
    assert losses(setup) == pytest.approx(losses(setup_of(make)), rel=1e-9)


def test_it_refuses_where_the_order_is_good():
    assert "the better order already" in refusal(TransformOrder(), setup_of(lambda: Net(gnn.GATConv)))
    assert "TransformerConv" in refusal(TransformOrder(), setup_of(lambda: Net(gnn.TransformerConv)))
