"""The rung `csr_spmm`: sums by sparse products, and trains as PyG does."""

from __future__ import annotations

import pytest
from torch import nn
from torch_geometric import nn as gnn

from fasthop.rewrites.csr_spmm import CsrSpmm
from tests.rewrites.exact.graphs import NUM_CLASSES, NUM_FEATURES
from tests.rewrites.exact.tasks import Net, losses, refusal, setup_of


@pytest.mark.parametrize(
    "conv", [gnn.GCNConv, gnn.SAGEConv, gnn.GATConv, gnn.LEConv], ids=lambda conv: conv.__name__
)
def test_it_trains_as_pyg_does(conv):
    assert losses(CsrSpmm().on(setup_of(lambda: Net(conv)))) == pytest.approx(
        losses(setup_of(lambda: Net(conv))), rel=1e-9
    )


def test_no_message_of_every_edge_is_made(monkeypatch):
    """PyG's scatter, which reads one row an edge, is not called."""
    from fasthop.rewrites.exact import matrix

    setup = CsrSpmm().on(setup_of(Net))
    monkeypatch.setattr(matrix, "scatter", None)
    losses(setup)


def test_it_refuses_other_layers():
    assert "TransformerConv is not one of the layers" in refusal(
        CsrSpmm(), setup_of(lambda: Net(gnn.TransformerConv))
    )
    assert "no message passing layer" in refusal(CsrSpmm(), setup_of(Plain))


class Plain(nn.Linear):
    def __init__(self):
        super().__init__(NUM_FEATURES, NUM_CLASSES)

    def forward(self, x, edge_index):
        return super().forward(x)
