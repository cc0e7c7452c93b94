"""The rung `pyg_sparse`: PyG's own sparse paths, taken only where they give edge_index's numbers."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn
from torch_geometric import EdgeIndex
from torch_geometric import nn as pyg

from fasthop.rewrites.base import Inapplicable
from fasthop.rewrites.pyg_sparse import PygSparse
from fasthop.rewrites.sample import Sample
from fasthop.train.loop import run_epoch
from fasthop.train.models import REFERENCE_MODELS
from fasthop.train.setup import Setup
from fasthop.train.task import Task
from tests.train.graphs import digraph

CPU = torch.device("cpu")


def setup_of(make_model, graph):
    task = Task(graph=graph, make_model=lambda: make_model().to(graph.x.dtype))
    return Setup.baseline(task, seed=0, device=CPU)


def form(setup):
    return type(setup.batches.batch.edges), setup.batches.batch.edges.layout


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("loops", [False, True], ids=["", "loops and parallel edges"])
@pytest.mark.parametrize("name", sorted(REFERENCE_MODELS))
def test_outputs_equal_edge_index_on_directed_graphs(name, loops, weighted):  # cases 3, 4, 6, 7
    graph = digraph(weighted=weighted, loops=loops)
    setup = setup_of(lambda: REFERENCE_MODELS[name](8, 6, 3), graph)
    want = setup.forward(setup.batches.batch)
    sparse = PygSparse().on(setup)
    got = sparse.forward(sparse.batches.batch)
    assert (want - got).abs().max() < 1e-10
    assert form(sparse) != (torch.Tensor, torch.strided)


@pytest.mark.parametrize("name", ["gcn", "sage", "gin"])
def test_the_reference_models_have_a_sparse_path_without_loops(name):
    graph = digraph(loops=False)
    PygSparse().on(setup_of(lambda: REFERENCE_MODELS[name](8, 6, 3), graph))


def test_a_gcn_on_a_graph_with_self_loops_is_not_given_adj_t():  # case 4: PyG would count the loop twice
    graph = digraph(loops=True)
    setup = setup_of(lambda: REFERENCE_MODELS["gcn"](8, 6, 3), graph)
    with pytest.raises(Inapplicable, match="adj_t: 0"):
        PygSparse(form="adj_t").on(setup)


def test_training_follows_the_baseline():
    graph = digraph(loops=False)
    setups = [setup_of(lambda: REFERENCE_MODELS["sage"](8, 6, 3), graph) for _ in range(2)]
    setups[1] = PygSparse().on(setups[1])
    steps = [setup.step() for setup in setups]
    for _ in range(20):
        losses = [run_epoch(step, setup.batches).item() for step, setup in zip(steps, setups, strict=True)]
        assert losses[1] == pytest.approx(losses[0], abs=1e-9)


def test_a_layer_without_a_sparse_path_is_refused_with_the_reason():
    class ByHand(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(8, 3)

        def forward(self, x, edge_index):
            row, col = edge_index[0], edge_index[1]
            return self.lin(x).index_add(0, col, self.lin(x)[row].tanh())

    setup = setup_of(ByHand, digraph())
    with pytest.raises(Inapplicable, match="adj_t: ") as caught:
        PygSparse(form="adj_t").on(setup)
    assert caught.value.reason["zh"]
    # EdgeIndex is a tensor, so that such a layer runs on it as it is, and rightly.
    sparse = PygSparse().on(setup)
    assert isinstance(sparse.batches.batch.edges, EdgeIndex)
    difference = sparse.forward(sparse.batches.batch) - setup.forward(setup.batches.batch)
    assert difference.abs().max() < 1e-10


def test_it_changes_the_full_batch_only():
    setup = setup_of(lambda: pyg.GraphSAGE(8, 6, 2, 3), digraph())
    with pytest.raises(Inapplicable, match="full batch's graph only"):
        PygSparse().on(Sample().on(setup))
    assert dataclasses.replace(setup).model is setup.model
