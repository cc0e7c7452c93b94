"""A trace is decided by its seed, moves the parameters as it says, and leaves no gradient behind."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch_geometric.nn import GCNConv

from fasthop.verify.trace import STRIDE, Trace, trace
from tests.verify.models import Net, data, maker

MAKE = maker(Net(GCNConv, dropout=0.5), data())


def run(dtype: torch.dtype = torch.float64, **options) -> Trace:
    return trace(MAKE(dtype, None), num_steps=3, seed=0, grid=torch.float32, **options)


def size(tensors) -> float:
    return sum(float(tensor.double().norm()) ** 2 for tensor in tensors) ** 0.5


def test_the_first_step_moves_the_parameters_by_the_stride_and_no_parameter_stands_still():
    found = run()
    first, second, third = found.path
    moved = size([second[name] - first[name] for name in first])
    assert moved == pytest.approx(STRIDE * size(first.values()), rel=1e-5)
    for name in first:
        assert not torch.equal(first[name], second[name])
        assert not torch.equal(second[name], third[name])
    outs = [step.out for step in found.steps]
    assert not torch.equal(outs[0], outs[1])


def test_the_parameters_lie_on_the_grid_so_that_both_precisions_are_at_the_same_point():
    found = run()
    assert all(p.dtype == torch.float32 for point in found.path for p in point.values())
    follower = MAKE(torch.float64, None)
    again = trace(follower, num_steps=3, seed=0, grid=torch.float32, path=found.path)
    for one, two in zip(found.steps, again.steps, strict=True):
        assert torch.equal(one.out, two.out)
    for name, parameter in follower.parameters.items():
        assert torch.equal(parameter, found.path[-1][name].double())
        assert parameter.grad is None


def test_the_same_seed_gives_the_same_trace_and_another_one_other_gradients():
    one, two = run(), run(random_seed=99)  # nothing random is left with dropout off
    other = trace(MAKE(torch.float64, None), num_steps=1, seed=1, grid=torch.float32)
    for name, gradient in one.steps[0].gradients.items():
        assert gradient is not None
        assert torch.equal(gradient, two.steps[0].gradients[name])
        assert not torch.equal(gradient, other.steps[0].gradients[name])
    dropped = run(with_dropout=True)
    assert not torch.equal(dropped.steps[0].out, one.steps[0].out)
    assert torch.equal(dropped.steps[0].out, run(with_dropout=True).steps[0].out)


def test_every_row_and_column_has_a_part_in_the_loss():
    found = run()
    weight = found.steps[0].gradients["conv2.bias"]
    assert weight is not None
    subject = MAKE(torch.float64, None)
    seen: list[torch.Tensor] = []

    def backward(out: torch.Tensor, cotangent: torch.Tensor) -> None:
        seen.append(cotangent)
        out.backward(cotangent)

    trace(dataclasses.replace(subject, backward=backward), num_steps=2, seed=0, grid=torch.bfloat16)
    assert seen[0].dtype == torch.float64
    assert bool((seen[0] != 0).all())
    assert torch.equal(seen[0], seen[0].bfloat16().double())
    assert not torch.equal(seen[0], seen[1])


def test_frozen_parameters_and_models_without_any_are_traced():
    subject = MAKE(torch.float64, None)
    subject.parameters["conv1.bias"].requires_grad_(False)
    found = trace(subject, num_steps=2, seed=0, grid=torch.float32)
    assert "conv1.bias" not in found.steps[0].gradients
    for parameter in subject.parameters.values():
        parameter.requires_grad_(False)
    found = trace(subject, num_steps=2, seed=0, grid=torch.float32)
    assert found.steps[0].gradients == {}
    assert torch.equal(found.steps[0].out, found.steps[1].out)
