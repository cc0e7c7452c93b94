"""The rung `cuda_graph`: what it refuses anywhere, what it leaves as it was, and on a GPU the numbers of the plain step."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn
from torch_geometric import nn as pyg

from fasthop.errors import InvalidConfig
from fasthop.rewrites.base import Inapplicable
from fasthop.rewrites.cuda_graph import CudaGraph, captured_step
from fasthop.rewrites.sample import Sample
from fasthop.search.bench_task import place
from fasthop.train.batching import FullBatch
from fasthop.train.captured import CapturedStep, static_batch
from fasthop.train.compiled import CompiledForward
from fasthop.train.loop import run_epoch
from fasthop.train.models import REFERENCE_MODELS
from fasthop.train.precision import Precision
from fasthop.train.setup import Setup
from fasthop.train.task import OptimizerConfig, Task
from tests.train.graphs import digraph

CPU = torch.device("cpu")


class WithNorm(nn.Module):
    """What a step changes besides parameters: running statistics, and the generator by dropout."""

    def __init__(self, dropout: float = 0.5) -> None:
        super().__init__()
        self.conv1, self.norm, self.conv2 = pyg.SAGEConv(8, 6), nn.BatchNorm1d(6), pyg.SAGEConv(6, 3)
        self.dropout = dropout

    def forward(self, x, edge_index):
        x = self.norm(self.conv1(x, edge_index)).relu()
        return self.conv2(nn.functional.dropout(x, self.dropout, self.training), edge_index)


class Waiting(WithNorm):
    """A forward that waits for the device."""

    def forward(self, x, edge_index):
        return super().forward(x, edge_index) * (1.0 if float(x.sum()) > 0 else 2.0)


def setup_of(make_model, device=CPU, optimizer="adam", dtype=torch.float64):
    graph = place(digraph(dtype=dtype, loops=False), torch.device(device))
    task = Task(
        graph=graph, make_model=lambda: make_model().to(dtype), optimizer=OptimizerConfig(name=optimizer)
    )
    return Setup.baseline(task, seed=0, device=torch.device(device))


def test_without_cuda_it_says_so_in_both_languages():
    with pytest.raises(Inapplicable, match=r"NVIDIA GPU.*cpu") as refused:
        CudaGraph().on(setup_of(WithNorm))
    assert "NVIDIA GPU" in refused.value.reason["zh"]


def test_what_cannot_be_recorded_is_refused_with_the_reason():
    setup = setup_of(WithNorm, dtype=torch.float32)
    sampled = Sample(num_neighbors=(-1, -1), batch_size=8).on(setup)
    scaled = dataclasses.replace(
        setup, precision=Precision(autocast_dtype=torch.float16, scale_gradients=True)
    )
    compiled = dataclasses.replace(setup, compiled=CompiledForward(setup.model, "default"))
    replaced = dataclasses.replace(setup, make_step=captured_step)
    for other, word in (
        (sampled, "sampled"),
        (scaled, "GradScaler"),
        (compiled, "compile"),
        (replaced, "step"),
    ):
        reason = CudaGraph().check(other)
        assert reason is not None
        assert word in reason["en"]
        assert reason["zh"]
    assert CudaGraph().check(setup) is None
    with pytest.raises(InvalidConfig, match="GradScaler"):
        captured_step(scaled)


def test_rows_as_indices_are_the_masks_rows_to_the_bit():
    setup = setup_of(WithNorm)
    batch = setup.batches.batch
    static = static_batch(batch)
    assert static.rows.dtype == torch.int64
    out = torch.randn(60, 3, dtype=torch.float64)
    assert torch.equal(static.select(out), batch.select(out))
    assert torch.equal(static.labels(), batch.labels())
    counted = dataclasses.replace(batch, rows=7)
    assert static_batch(counted) is counted


class Rehearsed(CapturedStep):
    """The recording without a GPU: the warm-up's steps run, and a replay is a step."""

    def _warm_up(self, batch):
        for _ in range(3):
            super(CapturedStep, self).__call__(batch)

    def _record(self, batch):
        step, loss = super(CapturedStep, self).__call__, torch.zeros((), dtype=torch.float64)
        loss.copy_(step(batch))

        class Graph:
            replay = staticmethod(lambda: loss.copy_(step(batch)))

        return Graph, loss


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
def test_warm_up_and_recording_leave_no_trace(optimizer):
    """Parameters, running statistics, moments and the generator: every loss is the plain step's, to the bit."""
    losses = []
    for kind in ("plain", "captured"):
        setup = setup_of(WithNorm, optimizer=optimizer)
        built = setup.task.optimizer.build(setup.original.parameters())
        arguments = (setup.forward, setup.task.loss, built, setup.precision, CPU)
        if kind == "plain":
            step = setup.step()
        else:
            step = Rehearsed(*arguments, modules=(setup.original,))
            for group in built.param_groups:  # torch has no capturable optimiser on the CPU
                group.pop("capturable", None) if optimizer == "sgd" else group.update(capturable=False)
        torch.manual_seed(3)
        batches = FullBatch(static_batch(setup.batches.batch))
        losses.append([float(run_epoch(step, batches)) for _ in range(6)])
        assert int(setup.original.norm.num_batches_tracked) == 6
    assert losses[0] == losses[1]


def test_the_loss_that_comes_back_is_not_overwritten_by_the_next_step():
    setup = setup_of(WithNorm, optimizer="sgd")
    step = Rehearsed(
        setup.forward,
        setup.task.loss,
        setup.task.optimizer.build(setup.original.parameters()),
        setup.precision,
        CPU,
        modules=(setup.original,),
    )
    first = step(setup.batches.batch)
    before = float(first)
    assert float(step(setup.batches.batch)) != before
    assert float(first) == before


@pytest.mark.gpu
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
@pytest.mark.parametrize("name", ["sage", "gin"])
def test_training_follows_the_plain_step(name, optimizer):
    losses = []
    for is_captured in (False, True):
        setup = setup_of(lambda: REFERENCE_MODELS[name](8, 6, 3, dropout=0.0), "cuda", optimizer)
        setup = CudaGraph().on(setup) if is_captured else setup
        setup.restart(1)
        step = setup.step()
        losses.append([float(run_epoch(step, setup.batches)) for _ in range(20)])
    assert losses[1] == pytest.approx(losses[0], abs=1e-9)


@pytest.mark.gpu
def test_dropout_draws_anew_with_every_replay_and_from_the_seed():
    setup = CudaGraph().on(setup_of(WithNorm, "cuda", "sgd"))
    traces = []
    for _ in range(2):
        setup.restart(1)
        step = setup.step()
        torch.cuda.manual_seed(5)
        traces.append([float(run_epoch(step, setup.batches)) for _ in range(5)])
    assert traces[0] == pytest.approx(traces[1], abs=1e-9)
    assert len(set(traces[0])) == 5


@pytest.mark.gpu
def test_an_operation_that_waits_is_refused_and_the_generator_still_works():
    setup = setup_of(Waiting, "cuda")
    before = [parameter.detach().clone() for parameter in setup.original.parameters()]
    with pytest.raises(Inapplicable, match="CUDA graph"):
        CudaGraph().on(setup)
    assert all(torch.equal(a, b) for a, b in zip(before, setup.original.parameters(), strict=True))
    assert torch.rand(3, device="cuda").numel() == 3
    assert torch.isfinite(run_epoch(setup.step(), setup.batches))
