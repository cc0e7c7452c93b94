"""The rung `sample`: right on every kind of layer, with proof on the user's own graph, or refused."""

from __future__ import annotations

import copy
import dataclasses

import pytest
import torch
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.utils import dropout_edge, trim_to_layer

from fasthop.exactness import Exactness
from fasthop.rewrites.base import Inapplicable
from fasthop.rewrites.sample import Sample
from fasthop.rewrites.sampled_layers import num_hops
from fasthop.train.batching import Batch, SampledBatches
from fasthop.train.evaluate import evaluate
from fasthop.train.loop import run_epoch
from fasthop.train.models import REFERENCE_MODELS
from fasthop.train.neighbor_loader import NeighborLoader
from fasthop.train.setup import Setup
from fasthop.train.task import Task
from tests.train.graphs import digraph

CPU = torch.device("cpu")


class Stack(nn.Module):
    """Layers one after another with a ReLU between."""

    def __init__(self, *convs):
        super().__init__()
        self.convs = nn.ModuleList(convs)

    def forward(self, x, edge_index):
        for index, conv in enumerate(self.convs):
            x = conv(x, edge_index).relu() if index + 1 < len(self.convs) else conv(x, edge_index)
        return x


class WithTwo(nn.Module):
    """GCN2Conv, which takes the first layer's input as well."""

    def __init__(self):
        super().__init__()
        self.lin_in, self.lin_out = nn.Linear(8, 6), nn.Linear(6, 3)
        self.convs = nn.ModuleList([pyg.GCN2Conv(6, 0.3), pyg.GCN2Conv(6, 0.3, theta=0.5, layer=2)])

    def forward(self, x, edge_index):
        x = x_0 = self.lin_in(x)
        for conv in self.convs:
            x = conv(x, x_0, edge_index).relu()
        return self.lin_out(x)


MODELS = {
    **{f"{name}{n}": (lambda name=name, n=n: REFERENCE_MODELS[name](8, 6, 3, num_layers=n)) for name in
       REFERENCE_MODELS for n in (2, 3)},
    "gcn improved": lambda: Stack(pyg.GCNConv(8, 6, improved=True), pyg.GCNConv(6, 3, improved=True)),
    "gcn cached": lambda: Stack(pyg.GCNConv(8, 6, cached=True), pyg.GCNConv(6, 3, cached=True)),
    "gcn without loops": lambda: Stack(pyg.GCNConv(8, 6, add_self_loops=False), pyg.GCNConv(6, 3)),
    "gcn of one layer": lambda: Stack(pyg.GCNConv(8, 3)),
    "gcnii": WithTwo,
    "sage sum": lambda: Stack(pyg.SAGEConv(8, 6, aggr="sum"), pyg.SAGEConv(6, 3, aggr="max")),
    "graphconv": lambda: Stack(pyg.GraphConv(8, 6), pyg.GraphConv(6, 3, aggr="mean")),
    "tag": lambda: Stack(pyg.TAGConv(8, 3, K=2)),
    "appnp": lambda: Stack(pyg.APPNP(K=3, alpha=0.2), Lin()),
    "sgc": lambda: Stack(pyg.SGConv(8, 3, K=2)),
    "lg": lambda: Stack(pyg.LGConv(), pyg.LGConv(), Lin()),
    "gatv2": lambda: Stack(pyg.GATv2Conv(8, 6, heads=2), pyg.GATv2Conv(12, 3)),
    "transformer": lambda: Stack(pyg.TransformerConv(8, 6), pyg.TransformerConv(6, 3)),
    "pyg's GCN with jk and norm": lambda: pyg.GCN(8, 6, 2, 3, jk="cat", norm="LayerNorm", norm_kwargs={"mode": "node"}),
    "pyg's GraphSAGE with batch norm": lambda: pyg.GraphSAGE(8, 6, 2, 3, norm="BatchNorm"),
}  # fmt: skip


class Lin(nn.Linear):
    def __init__(self):
        super().__init__(8, 3)

    def forward(self, x, edge_index):
        return super().forward(x)


def setup_of(make_model, graph, dtype=torch.float64):
    task = Task(graph=graph, make_model=lambda: make_model().to(dtype))
    return Setup.baseline(task, seed=0, device=CPU)


def full_neighbour_batch(setup: Setup, num_layers: int, seeds: torch.Tensor) -> Batch:
    """The seeds with all their neighbours, bound to the sampled model's weights."""
    batches = setup.batches
    assert isinstance(batches, SampledBatches)
    loader = NeighborLoader(batches.graph, [-1] * num_layers, input_nodes=seeds, batch_size=len(seeds))
    data = next(iter(loader))
    batches.weights.bind(data, data.edge_index)
    weight = data.edge_weight if batches.with_weight else None
    return Batch(data.x, data.edge_index, weight, data.y, len(seeds))


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("name", sorted(MODELS))
def test_with_all_neighbours_the_seeds_have_the_full_batchs_outputs_and_gradients(name, weighted):  # case 1
    graph = digraph(weighted=weighted)
    setup = setup_of(MODELS[name], graph)
    sampled = Sample().on(setup)
    seeds = torch.tensor([0, 5, 17, 59])  # a self-loop, two of them, an ordinary node, an isolated one
    batch = full_neighbour_batch(sampled, num_hops(setup.model), seeds)
    full = setup.batches.batch  # type: ignore[attr-defined]
    for model in (setup.original, sampled.model):
        for part in model.modules():  # in eval mode BatchNorm looks at no other row
            part.training = not isinstance(part, nn.BatchNorm1d)

    want = setup.forward(full)[seeds]
    got = batch.select(sampled.forward(batch))
    assert (got - want).abs().max() < 1e-10

    cotangent = torch.randn(want.shape, generator=torch.Generator().manual_seed(1), dtype=want.dtype)
    parameters = [p for p in setup.original.parameters() if p.requires_grad]
    wanted = torch.autograd.grad(want, parameters, cotangent, allow_unused=True)
    gotten = torch.autograd.grad(got, parameters, cotangent, allow_unused=True)
    for a, b in zip(gotten, wanted, strict=True):
        assert (a is None) == (b is None)
        assert a is None or (a - b).abs().max() < 1e-10


def test_the_naive_gcn_is_wrong_where_the_rung_is_right():  # case 1: the error that the rung is there for
    graph = digraph()
    setup = setup_of(lambda: REFERENCE_MODELS["gcn"](8, 6, 3), graph)
    seeds = torch.tensor([1, 2, 3, 4])
    loader = NeighborLoader(graph, [-1, -1], input_nodes=seeds, batch_size=4)
    data = next(iter(loader))
    naive = setup.original(data.x, data.edge_index)[:4]
    want = setup.original(graph.x, graph.edge_index)[seeds]
    assert (naive - want).abs().max() > 1e-3


def test_trimming_the_batch_layer_by_layer_changes_nothing():
    class Trimmed(nn.Module):
        def __init__(self):
            super().__init__()
            self.convs = nn.ModuleList([pyg.GCNConv(8, 6), pyg.GCNConv(6, 3)])
            self.counts = None

        def forward(self, x, edge_index):
            for layer, conv in enumerate(self.convs):
                if self.counts is not None:
                    x, edge_index, _ = trim_to_layer(layer, *self.counts, x, edge_index)
                x = conv(x, edge_index)
            return x

    graph = digraph()
    setup = setup_of(Trimmed, graph)
    sampled = Sample().on(setup)
    seeds = torch.tensor([0, 5, 17, 59])
    data = next(iter(NeighborLoader(graph, [-1, -1], input_nodes=seeds, batch_size=4)))
    sampled.batches.weights.bind(data, data.edge_index)  # type: ignore[attr-defined]
    whole = sampled.model(data.x, data.edge_index)
    sampled.model.counts = (data.num_sampled_nodes, data.num_sampled_edges)
    trimmed = sampled.model(data.x, data.edge_index)
    assert trimmed.size(0) < whole.size(0)
    assert (trimmed[:4] - whole[:4]).abs().max() < 1e-12


@pytest.mark.parametrize("name", ["gcn2", "gcn cached", "graphconv", "gat2"])
def test_the_users_model_is_left_as_it_was_and_shares_its_parameters(name):
    graph = digraph()
    setup = setup_of(MODELS[name], graph)
    before = copy.deepcopy(setup.original.state_dict())
    kinds = [type(part) for part in setup.original.modules()]
    want = setup.original(graph.x, graph.edge_index)
    sampled = Sample(num_neighbors=(3, 2), batch_size=4).on(setup)
    assert [type(part) for part in setup.original.modules()] == kinds
    assert torch.equal(setup.original(graph.x, graph.edge_index), want)
    for name, value in setup.original.state_dict().items():
        assert torch.equal(value, before[name])
    assert sampled.original is setup.original
    mine = dict(sampled.model.named_parameters())
    assert all(mine[name] is parameter for name, parameter in setup.original.named_parameters())
    step = sampled.step()
    run_epoch(step, sampled.batches)
    assert step.num_calls == 5
    assert any(not torch.equal(v, before[n]) for n, v in setup.original.state_dict().items())


class DropsEdges(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = pyg.GCNConv(8, 3)

    def forward(self, x, edge_index):
        edge_index, _ = dropout_edge(edge_index, p=0.5, training=self.training)
        return self.conv(x, edge_index)


class MixesRows(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = pyg.SAGEConv(8, 3)

    def forward(self, x, edge_index):
        return self.conv(x - x.mean(dim=0), edge_index)


class CountsDegrees(nn.Module):
    """A GCN by hand, which takes the degrees of whatever edges it is given."""

    def __init__(self):
        super().__init__()
        self.lins = nn.ModuleList([nn.Linear(8, 6), nn.Linear(6, 3)])
        self.conv = pyg.SimpleConv(aggr="mean")

    def forward(self, x, edge_index):
        degree = torch.bincount(edge_index[1], minlength=x.size(0)).clamp(min=1).to(x.dtype)
        for lin in self.lins:
            x = self.conv(lin(x) / degree.sqrt().view(-1, 1), edge_index)
        return x


class UnknownSum(nn.Module):
    class Layer(pyg.MessagePassing):
        def forward(self, x, edge_index):
            return self.propagate(edge_index, x=x)

    def __init__(self):
        super().__init__()
        self.lin, self.layer = nn.Linear(8, 3), self.Layer(aggr="add")

    def forward(self, x, edge_index):
        return self.layer(self.lin(x), edge_index)


class Twice(nn.Module):
    """One layer in two places: counted once, so that the default fan-outs reach one hop of two."""

    def __init__(self):
        super().__init__()
        self.conv, self.lin = pyg.SAGEConv(8, 8), nn.Linear(8, 3)

    def forward(self, x, edge_index):
        return self.lin(self.conv(self.conv(x, edge_index).relu(), edge_index))


class NoGraph(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 3)

    def forward(self, x, edge_index):
        return self.lin(x)


@pytest.mark.parametrize(
    ("make_model", "rung", "reason"),
    [
        (DropsEdges, Sample(), "the model changes edge_index on its way"),
        (MixesRows, Sample(), "mixes rows over the whole graph"),
        (CountsDegrees, Sample(num_neighbors=(5, 5)), "uses the degrees of the graph it is given"),
        (UnknownSum, Sample(), r"layer 'layer' \(Layer\) sums its neighbours"),
        (Twice, Sample(), "reaches further than the fan-outs"),
        (MODELS["gcn3"], Sample(num_neighbors=(5, 5)), "reaches further than the fan-outs"),
        (NoGraph, Sample(), "has no PyG layer"),
        (lambda: Stack(pyg.GCNConv(8, 3, flow="target_to_source")), Sample(), "from target to source"),
        (lambda: Stack(pyg.ChebConv(8, 3, K=2)), Sample(num_neighbors=(5, 5)), "sums its neighbours"),
    ],
)
def test_what_would_be_wrong_is_refused_with_the_reason(make_model, rung, reason):
    setup = setup_of(make_model, digraph())
    with pytest.raises(Inapplicable, match=reason) as caught:
        rung.on(setup)
    assert caught.value.reason["zh"]


def test_a_shared_layer_is_right_once_the_fan_outs_are_given():
    setup = setup_of(Twice, digraph())
    assert len(Sample(num_neighbors=(4, 4)).on(setup).batches) == 1


def test_sampling_twice_or_after_compilation_is_refused():
    setup = setup_of(MODELS["sage2"], digraph())
    sampled = Sample().on(setup)
    with pytest.raises(Inapplicable, match="in mini-batches already"):
        Sample().on(sampled)


def test_learnable_edge_weights_step_aside():  # case 17
    graph = digraph(weighted=True)
    weight = graph.edge_weight.requires_grad_()
    setup = setup_of(MODELS["gcn2"], dataclasses.replace(graph, edge_weight=weight))
    with pytest.raises(Inapplicable, match="require a gradient"):
        Sample().on(setup)


def test_the_same_seed_trains_to_the_same_bits_and_another_does_not():  # case 25
    setup = setup_of(MODELS["gcn2"], digraph())
    sampled = Sample(num_neighbors=(2, 2), batch_size=8).on(setup)

    def losses(seed):
        sampled.restart(seed)
        step = sampled.step()
        return [run_epoch(step, sampled.batches).item() for _ in range(5)]

    assert losses(4) == losses(4)
    assert losses(4) != losses(5)


def test_no_batch_is_of_one_row():  # case 27
    graph = digraph()
    setup = setup_of(MODELS["pyg's GraphSAGE with batch norm"], graph)
    num_train = int(graph.train_mask.sum())
    sampled = Sample(batch_size=num_train - 1).on(setup)
    assert len(sampled.batches) == 1
    (batch,) = list(sampled.batches)
    assert batch.rows == num_train


def test_only_the_seeds_enter_the_loss():  # case 8
    from fasthop.graph.graph import Graph

    path = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
    mask = torch.tensor([False, True, False, True, False, True])
    graph = Graph(
        x=torch.eye(6),
        edge_index=path,
        y=torch.arange(6),
        train_mask=mask,
        val_mask=~mask,
        test_mask=~mask,
        num_nodes=6,
        num_classes=6,
    )
    setup = setup_of(lambda: Stack(pyg.SAGEConv(6, 6)), graph, torch.float32)
    sampled = Sample(batch_size=2).on(setup)
    seen = []
    for batch in sampled.batches:
        labels = batch.labels()
        seen += labels.tolist()
        assert torch.equal(batch.x[: batch.rows].argmax(dim=1), labels)
        assert batch.select(sampled.forward(batch)).size(0) == labels.numel()
    assert sorted(seen) == [1, 3, 5]


def test_a_graph_without_edges_gives_the_seeds_alone():  # case 30
    graph = digraph()
    graph = dataclasses.replace(graph, edge_index=torch.empty(2, 0, dtype=torch.long))
    setup = setup_of(MODELS["gcn2"], graph)
    sampled = Sample(batch_size=7).on(setup)
    for batch in sampled.batches:
        assert batch.edges.shape == (2, 0)
        assert batch.x.size(0) == batch.rows


def test_sampled_training_learns_what_full_batch_learns():
    from fasthop.graph.sources import load_graph

    graph = load_graph("synthetic:nodes=600,degree=8,features=16,classes=4,homophily=0.8", seed=1)
    task = Task(graph=graph, make_model=lambda: REFERENCE_MODELS["gcn"](16, 16, 4))
    full = Setup.baseline(task, seed=0, device=CPU)
    accuracies = []
    for setup in (full, Sample(num_neighbors=(4, 4), batch_size=64).on(full)):
        setup.restart(0)
        step = setup.step()
        for _ in range(40):
            run_epoch(step, setup.batches)
        accuracies.append(evaluate(setup).test)
    assert accuracies[0] > 60.0
    assert accuracies[1] > accuracies[0] - 8.0


def test_what_the_rung_says_of_itself():
    rung = Sample()
    assert rung.exactness is Exactness.STATISTICAL
    assert rung.knobs == ("num_neighbors", "batch_size")
    assert set(rung.words) == {"en", "zh"}
