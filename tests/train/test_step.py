"""The step trains as a PyG script does, and counts what a GradScaler leaves out."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F

from fasthop.errors import InvalidConfig
from fasthop.train.loop import run_epoch
from fasthop.train.models import GCN
from fasthop.train.precision import Precision
from fasthop.train.setup import Setup
from fasthop.train.task import OptimizerConfig, Task
from tests.train.graphs import digraph

CPU = torch.device("cpu")


def make_setup(graph=None, *, precision=None, loss=F.cross_entropy, dropout=0.0, **optimizer):
    graph = graph or digraph(dtype=torch.float32)
    task = Task(
        graph=graph,
        make_model=lambda: GCN(graph.num_features, 16, graph.num_classes, dropout=dropout).to(graph.x.dtype),
        loss=loss,
        optimizer=OptimizerConfig(**optimizer),
    )
    return dataclasses.replace(Setup.baseline(task, seed=3, device=CPU), precision=precision or Precision())


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_the_baseline_is_a_plain_pyg_loop_to_the_bit(dropout):
    graph = digraph(dtype=torch.float32)
    torch.manual_seed(3)
    model = GCN(8, 16, 3, dropout=dropout)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    theirs = []
    for _ in range(20):
        model.train()
        optimizer.zero_grad()
        out = model(graph.x, graph.edge_index)
        loss = F.cross_entropy(out[graph.train_mask], graph.y[graph.train_mask])
        loss.backward()
        optimizer.step()
        theirs.append(loss.item())

    setup = make_setup(graph, dropout=dropout)
    step = setup.step()
    ours = [run_epoch(step, setup.batches).item() for _ in range(20)]
    assert ours == theirs


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd"])
def test_each_optimiser_trains(name):
    setup = make_setup(name=name, lr=0.05)
    step = setup.step()
    losses = [run_epoch(step, setup.batches).item() for _ in range(30)]
    assert losses[-1] < losses[0]


def test_an_unknown_optimiser_is_refused_by_name():
    with pytest.raises(InvalidConfig, match="no optimiser named 'lion'"):
        OptimizerConfig(name="lion")


@pytest.mark.parametrize(
    "precision",
    [
        Precision(autocast_dtype=torch.bfloat16),
        Precision(autocast_dtype=torch.float16, scale_gradients=True),
    ],
    ids=["bfloat16", "float16 with a scaler"],
)
def test_mixed_precision_trains_near_full_precision(precision):
    full, mixed = make_setup(), make_setup(precision=precision)
    steps = full.step(), mixed.step()
    for _ in range(30):
        want = run_epoch(steps[0], full.batches).item()
        got = run_epoch(steps[1], mixed.batches).item()
    assert got == pytest.approx(want, abs=0.03)
    assert steps[1].num_skipped <= 2  # the scaler starts high and may come down once or twice
    assert all(parameter.dtype == torch.float32 for parameter in mixed.original.parameters())


def test_autocast_computes_matrix_products_in_its_dtype():
    class Linear(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = torch.nn.Linear(8, 3)
            self.seen = []

        def forward(self, x, edge_index):
            out = self.lin(x)
            self.seen.append(out.dtype)
            return out

    task = Task(graph=digraph(dtype=torch.float32), make_model=Linear)
    setup = Setup.baseline(task, seed=0, device=CPU)
    setup = dataclasses.replace(setup, precision=Precision(autocast_dtype=torch.bfloat16))
    run_epoch(setup.step(), setup.batches)
    assert setup.original.seen == [torch.float32, torch.bfloat16]  # the first is the check of the output


def test_steps_with_an_infinite_loss_are_counted_and_leave_the_parameters_alone():  # case 22
    setup = make_setup(
        precision=Precision(autocast_dtype=torch.float16, scale_gradients=True),
        loss=lambda out, y: F.cross_entropy(out, y) * float("inf"),
    )
    step = setup.step()
    before = [parameter.clone() for parameter in setup.original.parameters()]
    for _ in range(5):
        run_epoch(step, setup.batches)
    assert step.num_skipped == 5
    for parameter, old in zip(setup.original.parameters(), before, strict=True):
        assert torch.equal(parameter, old)


def test_without_a_scaler_nothing_counts_as_skipped():
    setup = make_setup()
    step = setup.step()
    run_epoch(step, setup.batches)
    assert step.num_skipped == 0
    assert step.num_calls == 1


def test_a_dtype_that_autocast_does_not_know_is_refused():
    with pytest.raises(InvalidConfig, match=r"autocast_dtype is torch\.float64"):
        Precision(autocast_dtype=torch.float64)


def test_sums_in_bfloat16_accumulate_in_float32():  # case 21
    from torch_geometric.nn import SimpleConv

    num = 1000
    edge_index = torch.stack([torch.arange(1, num + 1), torch.zeros(num, dtype=torch.long)])
    ones = torch.ones(num + 1, 1)
    with Precision(autocast_dtype=torch.bfloat16).autocast(CPU):
        out = SimpleConv(aggr="sum")(ones, edge_index)
    assert out[0].item() == 1000
