"""What is rounding and what is an error: the rules of both legs, number by number."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from fasthop.verify.deviation import Deviation, deviations, different_bits
from fasthop.verify.tolerance import FACTOR, FLOAT64, JUMP, float64_leg, run_leg
from fasthop.verify.trace import Trace, TracedStep


def traced(out: Tensor, buffers: dict[str, Tensor] | None = None, **gradients: Tensor | None) -> Trace:
    step = TracedStep(out=out, gradients=gradients)
    return Trace(steps=(step,), buffers=buffers or {}, prediction=None, path=(), rate=0.0)


def deviation(
    distance: float, *, kind: str = "grad", name: str = "w.grad", step: int = 1, norm=1.0, whole=1.0
):
    return Deviation(kind=kind, name=name, step=step, distance=distance, norm=norm, whole=whole)


def test_an_error_is_measured_over_the_tensor_or_a_millionth_of_all_gradients():
    one = traced(torch.ones(2), weight=torch.full((4,), 50.0), bias=torch.tensor([3e-15]))
    two = traced(torch.ones(2), weight=torch.full((4,), 50.0), bias=torch.tensor([-5e-15]))
    found = {d.name: d for d in deviations(one, two)}
    assert found["bias.grad"].scale == pytest.approx(1e-4)
    assert found["bias.grad"].error == pytest.approx(8e-11)
    assert found["weight.grad"].error == 0.0
    assert found["out"].whole == pytest.approx(math.sqrt(2))


def test_two_zeros_are_equal_and_anything_else_than_a_zero_is_infinitely_far():
    zero, tiny = traced(torch.zeros(2)), traced(torch.full((2,), 1e-30, dtype=torch.float64))
    assert deviations(zero, zero)[0].error == 0.0
    assert deviations(zero, tiny)[0].error == math.inf


def test_float64_allows_its_tolerance_and_rounding_of_what_cancels():
    assert float64_leg([deviation(0.9 * FLOAT64)])[1] is None
    leg, reason = float64_leg([deviation(0.5 * FLOAT64), deviation(1.1 * FLOAT64, name="b.grad")])
    assert (leg.worst, leg.passed) == ("b.grad", False)
    assert reason is not None
    assert float64_leg([deviation(1e-14, norm=0.0)])[1] is None
    assert float64_leg([deviation(1e-13, norm=0.0)])[1] is not None


def test_the_first_step_that_fails_is_named_and_its_output_before_its_gradients():
    found = [
        deviation(0.5, kind="grad", step=1),
        deviation(0.1, kind="out", name="out", step=1),
        deviation(0.9, kind="out", name="out", step=2),
    ]
    leg, reason = float64_leg(found)
    assert (leg.worst, leg.error, leg.num_steps, leg.num_tensors) == ("out", 0.1, 2, 2)
    assert reason is not None
    assert "at step 1" in reason["en"]


def held(own: list[float], candidate: list[float], kind: str = "grad"):
    name = "w.grad" if kind == "grad" else "out"
    reference = [deviation(d, kind=kind, name=name, step=s) for s, d in enumerate(own, 1)]
    found = [deviation(d, kind=kind, name=name, step=s) for s, d in enumerate(candidate, 1)]
    return run_leg(found, reference, torch.float32)


def test_run_precision_allows_four_times_the_originals_own():
    for kind in ("grad", "out"):
        assert held([1e-5] * 3, [0.99 * FACTOR * 1e-5] * 3, kind)[1] is None
        assert held([1e-5] * 3, [1.01 * FACTOR * 1e-5] * 3, kind)[1] is not None
        leg, _ = held([1e-5] * 3, [2e-5] * 3, kind)
        assert (leg.error, leg.reference_error) == (2e-5, 1e-5)


def test_a_gradient_may_jump_in_a_step_but_not_in_all_and_an_output_never():
    assert held([1e-6] * 3, [1e-6, 4e-3, 1e-6])[1] is None
    assert held([1e-6] * 3, [1e-3, 4e-3, 1e-3])[1] is not None
    assert held([1e-6] * 3, [1e-6, 1.5 * JUMP, 1e-6])[1] is not None
    assert held([1e-6] * 3, [1e-6, 4e-3, 1e-6], "out")[1] is not None


def test_a_gradient_that_came_out_right_by_luck_is_no_measure():
    names = ["a.grad", "b.grad", "c.grad"]
    reference = [deviation(d, name=name) for name, d in zip(names, [1e-5, 1e-5, 0.0], strict=True)]
    found = [deviation(1e-5, name=name) for name in names]
    assert run_leg(found, reference, torch.float32)[1] is None


def test_bits_differ_by_dtype_sign_of_zero_and_value():
    one = torch.tensor([1.0, 0.0, math.nan])
    assert not different_bits(one, one.clone())
    assert different_bits(one, torch.tensor([1.0, -0.0, math.nan]))
    assert different_bits(one, one.double())
    assert different_bits(one, one[:2])
    assert different_bits(one, None)
    assert not different_bits(None, None)


def test_sparse_buffers_are_compared_by_their_entries():
    matrix = torch.eye(3, dtype=torch.float64)
    for sparse in (matrix.to_sparse(), matrix.to_sparse_csr()):
        same = deviations(
            traced(torch.ones(1), {"adj": sparse}), traced(torch.ones(1), {"adj": sparse.clone()})
        )
        assert same[-1].error == 0.0
        other = deviations(traced(torch.ones(1), {"adj": sparse}), traced(torch.ones(1), {"adj": sparse * 2}))
        assert other[-1].error == pytest.approx(1.0)
