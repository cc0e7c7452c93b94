"""A Setup starts where its seed says, keeps the user's model, and refuses a model that cannot be trained."""

from __future__ import annotations

import copy

import pytest
import torch

from fasthop.errors import InvalidConfig
from fasthop.train.evaluate import evaluate, predict
from fasthop.train.loop import run_epoch
from fasthop.train.models import GCN
from fasthop.train.setup import Setup
from fasthop.train.task import Task, fresh_copies, takes_edge_weight
from tests.train.graphs import digraph

CPU = torch.device("cpu")


def baseline(make_model, graph=None, seed=0):
    return Setup.baseline(
        Task(graph=graph or digraph(dtype=torch.float32), make_model=make_model), seed=seed, device=CPU
    )


class Returns(torch.nn.Module):
    def __init__(self, out):
        super().__init__()
        self.lin = torch.nn.Linear(8, 3)
        self.out = out

    def forward(self, x, edge_index):
        return self.out(self.lin(x))


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (lambda out: "logits", "returns str; it must return one tensor"),
        (lambda out: ("logits", out), "first element of what the model returns is str"),
        (lambda out: out[:10], r"shape \(10, 3\); with 60 nodes and 3 classes"),
        (lambda out: out[:, :2], r"shape \(60, 2\)"),
        (lambda out: out[:, 0], r"shape \(60,\)"),
    ],
)
def test_a_model_that_returns_no_logits_is_refused_before_training(out, message):
    with pytest.raises(InvalidConfig, match=message):
        baseline(lambda: Returns(out))


def test_a_maker_that_makes_no_module_is_refused():
    with pytest.raises(InvalidConfig, match=r"returned int; it returns an nn\.Module"):
        baseline(lambda: 3)


def test_a_graph_without_features_is_refused():
    import dataclasses

    graph = dataclasses.replace(digraph(dtype=torch.float32), x=None)
    with pytest.raises(InvalidConfig, match="has no node features x"):
        baseline(lambda: GCN(8, 4, 3), graph)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_restart_repeats_a_run_to_the_bit(dropout):
    setup = baseline(lambda: GCN(8, 4, 3, dropout=dropout))

    def losses():
        setup.restart(7)
        step = setup.step()
        return [run_epoch(step, setup.batches).item() for _ in range(10)]

    first = losses()
    assert losses() == first
    setup.restart(8)
    assert run_epoch(setup.step(), setup.batches).item() != first[0]


def test_restart_keeps_the_parameters_in_place():
    setup = baseline(lambda: GCN(8, 4, 3))
    places = [parameter.data_ptr() for parameter in setup.original.parameters()]
    setup.restart(5)
    assert [parameter.data_ptr() for parameter in setup.original.parameters()] == places


def test_lazy_layers_are_filled():
    from torch_geometric.nn import SAGEConv

    class Lazy(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = SAGEConv((-1, -1), 3)

        def forward(self, x, edge_index):
            return self.conv(x, edge_index)

    setup = baseline(Lazy)
    setup.restart(1)
    step = setup.step()
    losses = [run_epoch(step, setup.batches).item() for _ in range(20)]
    assert losses[-1] < losses[0]


def test_edge_weights_reach_a_model_that_takes_them_and_are_said_unused_else():
    graph = digraph(dtype=torch.float32, weighted=True)
    setup = baseline(lambda: GCN(8, 4, 3), graph)
    want = setup.original.eval()(graph.x, graph.edge_index, graph.edge_weight)
    assert torch.equal(predict(setup), want)
    assert not torch.equal(want, setup.original(graph.x, graph.edge_index))
    assert setup.notes == ()

    deaf = baseline(lambda: Returns(lambda out: out), graph)
    assert "forward takes none: they are not used" in deaf.notes[0]["en"]


def test_evaluation_is_in_eval_mode_and_gives_every_module_its_mode_back():
    model = GCN(8, 4, 3, dropout=0.5)
    setup = baseline(lambda: copy.deepcopy(model))
    frozen = setup.original.convs[0]
    setup.original.train()
    frozen.eval()
    first = evaluate(setup)
    assert evaluate(setup) == first
    assert setup.original.training
    assert not frozen.training


def test_accuracy_of_a_known_prediction():
    import dataclasses

    graph = digraph(dtype=torch.float32)
    onehot = torch.nn.functional.one_hot(graph.y, 3).float()
    flipped = onehot.clone()
    wrong = graph.test_mask.nonzero().view(-1)[:5]
    flipped[wrong] = onehot[wrong].roll(1, dims=1)
    graph = dataclasses.replace(graph, x=flipped)

    class Echo(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(()))

        def forward(self, x, edge_index):
            return x * self.scale

    got = evaluate(baseline(Echo, graph))
    assert got.train == got.val == 100.0
    assert got.test == pytest.approx(100.0 * 15 / 20)


def test_fresh_copies_draw_anew_and_leave_the_module():
    module = GCN(8, 4, 3)
    before = copy.deepcopy(module.state_dict())
    make = fresh_copies(module)
    a, b = make(), make()
    assert not torch.equal(a.convs[0].lin.weight, b.convs[0].lin.weight)
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name])


def test_takes_edge_weight():
    assert takes_edge_weight(GCN(8, 4, 3))
    assert not takes_edge_weight(Returns(lambda out: out))


class TakesMore(torch.nn.Module):
    def forward(self, x, edge_index, pos):
        return x


class NeedsWeight(torch.nn.Module):
    def forward(self, x, edge_index, edge_weight):
        return x


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (TakesMore, r"TakesMore\.forward\(x, edge_index, pos\) cannot be called as forward\(x, edge_index\)"),
        (NeedsWeight, r"edge_weight.*The graph has no edge_weight; give it one"),
    ],
)
def test_a_forward_of_other_arguments_is_told_how_it_is_called(model, words):
    with pytest.raises(InvalidConfig, match=words):
        Setup.baseline(Task(graph=digraph(), make_model=model), seed=0, device=torch.device("cpu"))
