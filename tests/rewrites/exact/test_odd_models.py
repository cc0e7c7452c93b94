"""Graphs and models at the edge of what there is: no edges, no training nodes, lazy layers, what cannot be copied."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import nn
from torch_geometric import nn as gnn

from tests.rewrites.exact.graphs import NUM_FEATURES, NUM_NODES, build, data, randomise
from tests.rewrites.exact.nets import Net, assert_same, made, train


@pytest.mark.parametrize(
    "conv", [gnn.GCNConv, gnn.GATConv, gnn.SAGEConv, gnn.GraphConv], ids=lambda c: c.__name__
)
@pytest.mark.parametrize("num_nodes", [1, 5])
def test_30_no_edges(conv, num_nodes):
    model = randomise(conv(NUM_FEATURES, 3))
    given = data()
    x, mask = given.x[:num_nodes], torch.ones(num_nodes, dtype=torch.bool)
    given = type(given)(
        x=x, edge_index=torch.empty(2, 0, dtype=torch.int64), edge_weight=None, train_mask=mask
    )
    torch.testing.assert_close(build(model, given).model(*given.call), model(*given.call), rtol=0, atol=1e-12)


@pytest.mark.parametrize("every", [True, False])
def test_all_nodes_or_none_in_the_mask(every):
    given, model = data(), randomise(Net())
    given.train_mask[:] = every
    fast = build(model, given).model
    torch.testing.assert_close(fast(*given.call), model(*given.call)[given.train_mask], rtol=0, atol=1e-12)
    fast(*given.call).sum().backward()


def test_lazy_layers_before_and_after_their_first_run():
    model = gnn.Sequential(
        "x, edge_index", [(gnn.GCNConv(-1, 4), "x, edge_index -> x"), nn.LazyLinear(3)]
    ).double()
    given = data()
    built = build(model, given)
    assert "run the model once" in built.untraceable["en"]
    assert not built.covered
    assert built.model(*given.call).shape == (NUM_NODES, 3)
    assert type(model[1]) is nn.Linear
    fast = build(model, given).model
    torch.testing.assert_close(fast(*given.call), model(*given.call)[given.train_mask], rtol=0, atol=1e-12)


def test_a_model_that_cannot_be_copied_runs_itself():
    model, given = randomise(Net()), data()
    model.lock = threading.Lock()
    built = build(model, given)
    assert "cannot be copied" in built.untraceable["en"]
    torch.testing.assert_close(built.model(*given.call), model(*given.call))


def test_activations_that_a_model_kept_do_not_hinder():
    model, given = randomise(Net()), data()
    model.last = model(*given.call)
    assert_same(model, given, build(model, given).model, modes=(False,))


def test_weight_norm_of_the_old_kind_stays_computed_anew():
    with pytest.warns(FutureWarning):
        model, given, fast = made(lambda m, g: nn.utils.weight_norm(m.c1.lin))
    for _ in range(2):
        train(model)
        torch.testing.assert_close(fast(*given.call), model(*given.call), rtol=0, atol=1e-12)
        with torch.no_grad():
            model.c1.lin.weight_g.mul_(2)
