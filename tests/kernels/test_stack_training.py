"""Training a stack in one compiled call against torch.optim over autograd: the trace of losses and the parameters."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from fasthop.errors import InvalidConfig
from fasthop.kernels.dropout import without_dropout
from fasthop.kernels.stack import emit, reference
from fasthop.kernels.stack.ops import Activation, Aggregate, Constant, Linear
from fasthop.kernels.stack.stack import Stack
from fasthop.kernels.stack.training import Optimizer, StackTraining
from tests.kernels.graphs import random_edges
from tests.kernels.stacks import ARCHITECTURES, Program, make

F64 = torch.float64
OPTIMIZERS = {
    "adam": (Optimizer(lr=0.01), lambda p: torch.optim.Adam(p, lr=0.01)),
    "adam, decay": (
        Optimizer(lr=0.02, weight_decay=5e-4, betas=(0.8, 0.99), eps=1e-6),
        lambda p: torch.optim.Adam(p, lr=0.02, weight_decay=5e-4, betas=(0.8, 0.99), eps=1e-6),
    ),
    "adamw": (Optimizer(kind="adamw", lr=0.01), lambda p: torch.optim.AdamW(p, lr=0.01)),
    "sgd": (
        Optimizer(kind="sgd", lr=0.1, weight_decay=5e-4),
        lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=5e-4),
    ),
    "momentum": (
        Optimizer(kind="sgd", lr=0.1, momentum=0.9, dampening=0.2),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.2),
    ),
    "nesterov": (
        Optimizer(kind="sgd", lr=0.1, momentum=0.9, nesterov=True),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    ),
}


def program(architecture="gcn", dtype=F64, p=0.0, widths=(16, 16, 7)):
    return make(architecture, random_edges(40, 200, 1), 40, widths=widths, dtype=dtype, p=p, sparse=True)


def labels_for(stack):
    rows, channels = stack.output_shape
    return torch.randint(channels, (rows,), generator=torch.Generator().manual_seed(0))


def plain_trace(ops, stack, labels, optimizer, num_steps, seed=None):
    """The losses and the parameters that plain torch gets, the parameters then put back."""
    start = [p.detach().clone() for p in stack.parameters]
    losses = []
    for step in range(num_steps):
        optimizer.zero_grad()
        out = reference.run(ops, dtype=stack.dtype, seed=None if seed is None else seed + step)
        loss = F.cross_entropy(out, labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    end = [p.detach().clone() for p in stack.parameters]
    put_back(stack, start)
    return losses, end


def put_back(stack, values):
    with torch.no_grad():
        for parameter, value in zip(stack.parameters, values, strict=True):
            parameter.copy_(value)
            parameter.grad = None


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_fifty_steps_are_those_of_torch(name):
    ops = program()
    stack = Stack(ops)
    labels = labels_for(stack)
    mine, theirs = OPTIMIZERS[name]
    expected, end = plain_trace(ops, stack, labels, theirs(stack.parameters), 50)
    training = StackTraining(stack, labels=labels, optimizer=mine)
    got = [float(training.step()) for _ in range(50)]
    assert max(abs(a - b) for a, b in zip(got, expected, strict=True)) < 1e-9
    for a, b in zip(stack.parameters, end, strict=True):
        torch.testing.assert_close(a.detach(), b, rtol=1e-8, atol=1e-9)
        assert a.grad is None


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_architecture_with_dropout(architecture):
    ops = program(architecture, p=0.5)
    stack = Stack(ops)
    labels = labels_for(stack)
    expected, _ = plain_trace(ops, stack, labels, torch.optim.Adam(stack.parameters, lr=0.01), 20, seed=3)
    training = StackTraining(stack, labels=labels, optimizer=Optimizer(lr=0.01))
    got = [float(training.step(seed=3 + step)) for step in range(20)]
    assert max(abs(a - b) for a, b in zip(got, expected, strict=True)) < 1e-9


@pytest.mark.parametrize("architecture", ["gcn", "sage", "shared"])
def test_large_products_and_teams_in_float32(monkeypatch, architecture):
    monkeypatch.setattr(emit, "BLAS_FROM", 0)
    monkeypatch.setattr(emit, "BLAS_WIDER_THAN", 0)
    monkeypatch.setattr(emit, "TEAM_FROM", 0)
    ops = program(architecture, torch.float32)
    stack = Stack(ops)
    labels = labels_for(stack)
    expected, _ = plain_trace(ops, stack, labels, torch.optim.Adam(stack.parameters, lr=0.01), 10)
    training = StackTraining(stack, labels=labels, optimizer=Optimizer(lr=0.01))
    got = [float(training.step()) for _ in range(10)]
    assert max(abs(a - b) for a, b in zip(got, expected, strict=True)) < 1e-4


@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_more_classes_than_registers_hold_and_far_logits(dtype):
    x = torch.randn(6, 3, generator=torch.Generator().manual_seed(0), dtype=F64).to(dtype)
    for num_classes, scale in ((300, 1.0), (7, 300.0), (1, 1.0)):
        weight = torch.nn.Parameter(
            scale
            * torch.randn(num_classes, 3, generator=torch.Generator().manual_seed(1), dtype=F64).to(dtype)
        )
        stack = Stack([Constant(features=x), Linear(source=0, weight=weight)])
        labels = labels_for(stack)
        before = weight.detach().clone().requires_grad_()
        expected = F.cross_entropy(x @ before.t(), labels)
        expected.backward()
        loss = StackTraining(stack, labels=labels, optimizer=Optimizer(kind="sgd", lr=1.0)).step()
        torch.testing.assert_close(loss, expected.detach())
        assert before.grad is not None
        torch.testing.assert_close(
            before.detach() - weight.detach(), before.grad, rtol=1e-4, atol=scale * 1e-6
        )


def test_three_layers_need_three_buffers_of_their_width():
    """What the backward pass reads again, two activations, and one buffer to work in; each is used for many things."""
    num_nodes, width = 400, 96
    program = Program(random_edges(num_nodes, 900, 1), num_nodes, torch.float32, 0)
    adj = program.adj(weighted=True)
    h = program.linear(program.features(8, sparse=False), 8, width)
    h = program.add(Activation(source=h, kind="relu"))
    h = program.add(Aggregate(source=program.linear(h, width, width), adj=adj))
    h = program.add(Activation(source=h, kind="relu"))
    program.add(Aggregate(source=program.linear(h, width, 7), adj=adj))
    stack = Stack(program.ops)
    training = StackTraining(stack, labels=labels_for(stack))
    training.step()
    layer, num_weights = num_nodes * width * 4, sum(p.numel() for p in stack.parameters)
    assert training.arena_bytes < 3.3 * layer + 4 * 4 * num_weights


def test_restart_forgets_the_state_and_changes_from_outside_are_seen():
    stack = Stack(program(p=0.5))
    start = [p.detach().clone() for p in stack.parameters]
    training = StackTraining(stack, labels=labels_for(stack), optimizer=Optimizer(lr=0.01))
    first = [training.step(seed=step) for step in range(5)]
    training.restart()
    for parameter, value in zip(stack.parameters, start, strict=True):
        parameter.data.copy_(value)  # no version is counted here
    assert torch.equal(torch.stack(first), torch.stack([training.step(seed=step) for step in range(5)]))


def test_the_optimisers_state_is_one_with_and_without_dropout():
    ops = program(p=0.5)
    stack = Stack(ops)
    labels = labels_for(stack)
    optimizer = torch.optim.Adam(stack.parameters, lr=0.01)
    training = StackTraining(stack, labels=labels, optimizer=Optimizer(lr=0.01))
    start = [p.detach().clone() for p in stack.parameters]
    expected = []
    for seed in (None, 4, None, 5):
        optimizer.zero_grad()
        loss = F.cross_entropy(reference.run(ops, dtype=F64, seed=seed), labels)
        loss.backward()
        optimizer.step()
        expected.append(loss.item())
    put_back(stack, start)
    got = []
    for seed in (None, 4, None, 5):
        if seed is None:
            with without_dropout():
                got.append(float(training.step()))
        else:
            got.append(float(training.step(seed=seed)))
    assert max(abs(a - b) for a, b in zip(got, expected, strict=True)) < 1e-12


def test_versions_are_counted_and_frozen_parameters_stay():
    stack = Stack(program())
    frozen = stack.parameters[0].requires_grad_(False)
    kept, versions = frozen.detach().clone(), [p._version for p in stack.parameters]
    training = StackTraining(stack, labels=labels_for(stack))
    training.step()
    assert torch.equal(frozen, kept)
    assert [p._version - v for p, v in zip(stack.parameters, versions, strict=True)] == [0, 1, 1, 1]
    frozen.requires_grad_()
    with pytest.raises(InvalidConfig, match="make it anew"):
        training.step()


def test_torchs_seed_decides():
    stack = Stack(program(p=0.5))
    start = [p.detach().clone() for p in stack.parameters]
    losses = []
    for _ in range(2):
        put_back(stack, start)
        torch.manual_seed(0)
        training = StackTraining(stack, labels=labels_for(stack))
        losses.append(torch.stack([training.step() for _ in range(3)]))
    assert torch.equal(*losses)


def test_what_cannot_be_is_refused():
    stack = Stack(program())
    labels = labels_for(stack)
    for wrong, words in (
        (labels.int(), "int32"),
        (labels[1:], r"40 rows.*\[39\]"),
        (torch.full_like(labels, 7), r"labels\[0\] is 7"),
        (torch.full_like(labels, -1), r"labels\[0\] is -1"),
    ):
        with pytest.raises(InvalidConfig, match=words):
            StackTraining(stack, labels=wrong)
    for parameter in stack.parameters:
        parameter.requires_grad_(False)
    with pytest.raises(InvalidConfig, match="nothing to train"):
        StackTraining(stack, labels=labels)
    for settings, words in (
        ({"kind": "lamb"}, "lamb"),
        ({"lr": -1.0}, "lr"),
        ({"weight_decay": -1.0}, "weight_decay"),
        ({"betas": (0.9, 1.0)}, "betas"),
        ({"kind": "sgd", "nesterov": True}, "Nesterov"),
    ):
        with pytest.raises(InvalidConfig, match=words):
            Optimizer(**settings)
