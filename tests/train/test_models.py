"""The reference models are what a PyG user writes."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch_geometric.nn import GCNConv

from fasthop.train.models import REFERENCE_MODELS, layer_channels
from tests.train.graphs import digraph


@pytest.mark.parametrize("name", sorted(REFERENCE_MODELS))
@pytest.mark.parametrize("num_layers", [1, 2, 4])
def test_logits_have_one_row_a_node_and_one_column_a_class(name, num_layers):
    graph = digraph(dtype=torch.float32)
    model = REFERENCE_MODELS[name](8, 5, 3, num_layers=num_layers, dropout=0.5)
    out = model(graph.x, graph.edge_index)
    assert out.shape == (graph.num_nodes, 3)
    assert len(model.convs) == num_layers
    out.sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_gcn_is_the_tutorials_model_to_the_bit():
    class Tutorial(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = GCNConv(8, 16)
            self.conv2 = GCNConv(16, 3)

        def forward(self, x, edge_index):
            x = F.relu(self.conv1(x, edge_index))
            return self.conv2(x, edge_index)

    graph = digraph(dtype=torch.float32)
    torch.manual_seed(0)
    theirs = Tutorial()
    torch.manual_seed(0)
    ours = REFERENCE_MODELS["gcn"](8, 16, 3)
    assert torch.equal(ours(graph.x, graph.edge_index), theirs(graph.x, graph.edge_index))


@pytest.mark.parametrize("name", sorted(REFERENCE_MODELS))
def test_dropout_acts_in_train_mode_only(name):
    graph = digraph(dtype=torch.float32)
    model = REFERENCE_MODELS[name](8, 5, 3, dropout=0.5)
    assert not torch.equal(model(graph.x, graph.edge_index), model(graph.x, graph.edge_index))
    model.eval()
    assert torch.equal(model(graph.x, graph.edge_index), model(graph.x, graph.edge_index))


def test_layer_channels():
    assert layer_channels(8, 16, 3, 1) == [(8, 3)]
    assert layer_channels(8, 16, 3, 3) == [(8, 16), (16, 16), (16, 3)]
