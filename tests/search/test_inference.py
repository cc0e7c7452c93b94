"""Case 24: evaluation that does not fit goes by batches of nodes with all their neighbours, and gives the same logits."""

from __future__ import annotations

import pytest
import torch
from torch_geometric import nn as gnn

from fasthop.rewrites.base import Inapplicable
from fasthop.search.inference import Inference
from fasthop.train.setup import Setup
from fasthop.train.task import Task
from tests.train.graphs import digraph

CPU = torch.device("cpu")
CLASSES = 3
LAYERS = 3


def inference(make) -> tuple[Inference, Inference]:
    """The same model in eval mode, over the whole graph and by batches of 7."""
    graph = digraph(num_classes=CLASSES)
    setup = Setup.baseline(Task(graph=graph, make_model=lambda: make(graph.num_features)), seed=0, device=CPU)
    with torch.no_grad():  # running statistics that are not those of a fresh layer
        setup.original.train()
        setup.forward(next(iter(setup.batches)))
    whole, batches = Inference(setup, setup), Inference(setup, setup)
    batches._batch_size = 7
    batches.by_batches()
    return whole, batches


@pytest.mark.parametrize("jk", [None, "cat", "max", "lstm"])
@pytest.mark.parametrize("model", ["GCN", "GraphSAGE", "GIN", "GAT"])
def test_case_24_by_batches_it_is_the_same_as_at_once(model, jk):
    def make(num_features: int) -> torch.nn.Module:
        return getattr(gnn, model)(
            num_features, 8, num_layers=LAYERS, out_channels=CLASSES, dropout=0.5, norm="batch_norm", jk=jk
        ).double()

    whole, batches = inference(make)
    out = whole()
    assert not batches.is_whole
    torch.testing.assert_close(batches(), out, rtol=1e-9, atol=1e-9)
    assert out.abs().sum() > 0


class MeansOfAll(torch.nn.Module):
    """Looks at all rows at once, which no batch has."""

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.conv = gnn.SAGEConv(num_features, CLASSES).double()

    def forward(self, x, edge_index):
        out = self.conv(x, edge_index)
        return out - out.mean(0)


def test_case_24_a_model_that_batches_would_change_is_refused():
    with pytest.raises(Inapplicable):
        inference(MeansOfAll)
