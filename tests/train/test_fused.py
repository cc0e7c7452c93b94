"""FusedStep in the loop, against the Step of PyG's own GCN."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from fasthop.errors import InvalidConfig
from fasthop.kernels.spmm.adjacency import Adjacency
from fasthop.kernels.stack.ops import Activation, Aggregate, Bias, Constant, Head, Linear, Op
from fasthop.kernels.stack.stack import Stack
from fasthop.train.batching import Batch
from fasthop.train.fused import FusedStep
from fasthop.train.loop import run_epoch
from fasthop.train.models import GCN
from fasthop.train.precision import Precision
from fasthop.train.step import Step
from fasthop.train.task import OptimizerConfig
from tests.kernels.graphs import by_target, random_edges

NUM_NODES, NUM_LABELLED = 40, 15


def as_stack(model: GCN, batch: Batch) -> Stack:
    edge_index, weight = gcn_norm(batch.edges, None, NUM_NODES, dtype=batch.x.dtype)
    rowptr, col, e_id = by_target(edge_index, NUM_NODES)
    adj = Adjacency(rowptr=rowptr, col=col, num_cols=NUM_NODES, value=weight[e_id])
    ops: list[Op] = [Constant(features=batch.x)]
    for layer, conv in enumerate(model.convs):
        ops.append(Linear(source=len(ops) - 1, weight=conv.lin.weight))
        ops.append(Aggregate(source=len(ops) - 1, adj=adj))
        ops.append(Bias(source=len(ops) - 1, bias=conv.bias))
        if layer + 1 < len(model.convs):
            ops.append(Activation(source=len(ops) - 1, kind="relu"))
    ops.append(Head(source=len(ops) - 1, num_rows=NUM_LABELLED))
    return Stack(ops)


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(NUM_NODES, 16, generator=generator, dtype=torch.float64)
    y = torch.randint(7, (NUM_NODES,), generator=generator)
    return Batch(x, random_edges(NUM_NODES, 150, 0), None, y, NUM_LABELLED)


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd"])
def test_the_losses_are_those_of_pyg(batch, name):
    torch.manual_seed(0)
    model = GCN(16, 16, 7, num_layers=3).double()
    theirs = copy.deepcopy(model)
    optimizer = OptimizerConfig(name=name)
    mine = FusedStep(as_stack(model, batch), batch.y[:NUM_LABELLED], optimizer)
    plain = Step(
        lambda b: theirs(b.x, b.edges),
        F.cross_entropy,
        optimizer.build(theirs.parameters()),
        Precision(),
        torch.device("cpu"),
    )
    for _ in range(50):
        got, expected = run_epoch(mine, [batch]), run_epoch(plain, [batch])
        assert got.shape == ()
        assert not got.requires_grad
        assert abs(float(got) - float(expected)) < 1e-9
    for a, b in zip(model.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-9)
        assert a.grad is None
    assert mine.num_calls == 50
    assert mine.num_skipped == 0


def test_losses_are_kept_apart_and_a_restart_starts_over(batch):
    torch.manual_seed(0)
    model = GCN(16, 16, 7, num_layers=2).double()
    start = copy.deepcopy(model.state_dict())
    step = FusedStep(as_stack(model, batch), batch.y[:NUM_LABELLED], OptimizerConfig())
    first = [step(batch) for _ in range(3)]
    assert len({float(loss) for loss in first}) == 3
    model.load_state_dict(start)
    step.restart()
    assert [float(step(batch)) for _ in range(3)] == [float(loss) for loss in first]


def test_labels_that_do_not_fit_are_refused(batch):
    with pytest.raises(InvalidConfig, match="labels"):
        FusedStep(as_stack(GCN(16, 16, 7).double(), batch), batch.y, OptimizerConfig())
