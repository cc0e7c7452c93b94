"""The rung `reorder_nodes`: keeps nodes in another order inside, and gives the user's back."""

from __future__ import annotations

import pytest
import torch
from torch_geometric import nn as gnn

from fasthop.rewrites.reorder_nodes import ReorderNodes
from tests.rewrites.exact.tasks import Net, losses, refusal, setup_of


def test_it_trains_as_pyg_does():
    setup = ReorderNodes().on(setup_of(Net))
    assert losses(setup) == pytest.approx(losses(setup_of(Net)), rel=1e-9)


def test_all_rows_come_back_in_the_users_order():
    setup = ReorderNodes().on(setup_of(Net))
    assert setup.exact.order.n_id is not None
    assert not torch.equal(setup.exact.order.n_id, torch.arange(setup.task.graph.num_nodes))
    batch = setup.batches.batch
    for training in (True, False):
        setup.model.train(training)
        want = setup.original(batch.x, setup.task.graph.edge_index)
        torch.testing.assert_close(setup.forward(batch), want, rtol=0, atol=1e-10)


def test_it_refuses_where_rows_mix():
    assert "PairNorm" in refusal(ReorderNodes(), setup_of(lambda: Net(norm=gnn.PairNorm)))
