"""The compiled stack against plain torch: outputs and every gradient, on random programs and odd graphs."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fasthop.errors import InvalidConfig
from fasthop.kernels.dropout import without_dropout
from fasthop.kernels.sparse_linear.features import SparseFeatures
from fasthop.kernels.spmm.adjacency import Adjacency
from fasthop.kernels.stack import emit, reference
from fasthop.kernels.stack.ops import (
    ACTIVATIONS,
    Activation,
    Add,
    Aggregate,
    Bias,
    Constant,
    Dropout,
    Head,
    Linear,
)
from fasthop.kernels.stack.stack import Stack
from tests.kernels.graphs import edge_indices, random_edges
from tests.kernels.stacks import ARCHITECTURES, make

F32, F64 = torch.float32, torch.float64
NO_EDGES = torch.zeros(2, 0, dtype=torch.int64)


def compare(ops, dtype=F64, seed=None):
    """Runs a stack and the reference; outputs and gradients must agree."""
    stack = Stack(ops, dtype=dtype)
    parameters = list(stack.parameters)
    got = stack.run(seed=seed, dropout=seed is not None)
    expected = reference.run(ops, dtype=dtype, seed=seed)
    close = {"rtol": 1e-11, "atol": 1e-12} if dtype == F64 else {"rtol": 2e-4, "atol": 2e-5}
    torch.testing.assert_close(got, expected, **close)
    grad = torch.randn(got.shape, generator=torch.Generator().manual_seed(1), dtype=F64).to(dtype)
    mine = torch.autograd.grad(got, parameters, grad)
    theirs = torch.autograd.grad(expected, parameters, grad)
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a, b, **close)
    with torch.no_grad():
        again = stack.run(seed=seed, dropout=seed is not None)
    assert torch.equal(again, got)


@settings(max_examples=150, deadline=None)
@given(
    graph=edge_indices(),
    architecture=st.sampled_from(ARCHITECTURES),
    widths=st.tuples(st.sampled_from([1, 7, 16]), st.sampled_from([7, 16]), st.sampled_from([1, 7])),
    sparse=st.booleans(),
    activation=st.sampled_from(ACTIVATIONS),
    p=st.sampled_from([0.0, 0.4]),
    seed=st.integers(0, 10**6),
)
def test_equals_plain_torch(graph, architecture, widths, sparse, activation, p, seed):
    ops = make(architecture, *graph, widths=widths, seed=seed, sparse=sparse, activation=activation, p=p)
    compare(ops, seed=seed)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(("dtype", "widths"), [(F32, (40, 16, 7)), (F32, (3, 17, 3)), (F64, (17, 40, 3))])
def test_odd_widths_and_float32(architecture, dtype, widths):
    ops = make(architecture, random_edges(40, 160, 3), 40, widths=widths, dtype=dtype, p=0.3, sparse=True)
    compare(ops, dtype, seed=5)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_graphs_without_edges_and_of_one_node(architecture):
    for num_nodes, edges in ((1, NO_EDGES), (5, NO_EDGES), (1, torch.zeros(2, 3, dtype=torch.int64))):
        compare(make(architecture, edges, num_nodes, widths=(7, 16, 7)))


@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize("architecture", ["gcn", "field", "residual"])
def test_rows_wider_than_the_registers(architecture, dtype):
    ops = make(architecture, random_edges(30, 100, 1), 30, widths=(7, 300, 7), dtype=dtype, p=0.5)
    compare(ops, dtype, seed=2)


@pytest.mark.parametrize("architecture", ["gcn", "sage", "gin", "residual", "shared", "field"])
@pytest.mark.parametrize("dtype", [F32, F64])
def test_large_products_and_teams(monkeypatch, architecture, dtype):
    ops = make(
        architecture, random_edges(200, 900, 1), 200, widths=(16, 16, 7), dtype=dtype, p=0.5, sparse=True
    )
    monkeypatch.setattr(emit, "BLAS_FROM", 0)
    monkeypatch.setattr(emit, "BLAS_WIDER_THAN", 0)
    monkeypatch.setattr(emit, "TEAM_FROM", 0)
    compare(ops, dtype, seed=4)


def test_the_bits_do_not_depend_on_threads(monkeypatch):
    ops = make("sage", random_edges(500, 3000, 1), 500, widths=(16, 16, 7), dtype=F32, p=0.5)
    monkeypatch.setattr(emit, "TEAM_FROM", 0)
    monkeypatch.setattr(emit, "BLAS_FROM", 10**12)
    stack = Stack(ops)
    results, before = [], torch.get_num_threads()
    try:
        for num_threads in (1, 2, 3):
            torch.set_num_threads(num_threads)
            out = stack.run(seed=1)
            results.append([out, *torch.autograd.grad(out.square().sum(), stack.parameters)])
    finally:
        torch.set_num_threads(before)
    for result in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(result, results[0], strict=True))


@pytest.fixture
def gcn():
    return make("gcn", random_edges(12, 40, 1), 12, widths=(7, 16, 7), p=0.5)


def test_two_forwards_before_their_backwards(gcn):
    stack = Stack(gcn)
    outs = [stack.run(seed=seed) for seed in (1, 2)]
    for seed, out in zip((1, 2), outs, strict=True):
        mine = torch.autograd.grad(out.sum(), stack.parameters)
        theirs = torch.autograd.grad(reference.run(gcn, dtype=F64, seed=seed).sum(), stack.parameters)
        for a, b in zip(mine, theirs, strict=True):
            torch.testing.assert_close(a, b)


def test_a_second_backward_of_one_forward(gcn):
    stack = Stack(gcn)
    out = stack.run(seed=1)
    first = torch.autograd.grad(out.sum(), stack.parameters, retain_graph=True)
    stack.run(seed=2)
    second = torch.autograd.grad(out.sum(), stack.parameters)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_parameters_changed_before_the_backward_are_noticed(gcn):
    stack = Stack(gcn)
    out = stack.run(seed=1)
    with torch.no_grad():
        stack.parameters[0].add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_outputs_and_gradients_are_the_callers_own(gcn):
    stack = Stack(gcn)
    out = stack.run(seed=1)
    kept = out.detach().clone()
    grads = torch.autograd.grad(out.sum(), stack.parameters)
    before = [grad.clone() for grad in grads]
    torch.autograd.grad(stack.run(seed=2).sum(), stack.parameters)
    assert torch.equal(out, kept)
    assert all(torch.equal(a, b) for a, b in zip(grads, before, strict=True))
    assert all(grad.is_contiguous() for grad in grads)


def test_an_output_that_is_activated_may_be_changed_by_its_owner(gcn):
    stack = Stack([*gcn, Activation(source=len(gcn) - 1, kind="tanh")])
    out = stack.run(seed=1)
    expected = torch.autograd.grad(out.sum(), stack.parameters)
    out = stack.run(seed=1)
    loss = out.sum()
    out.detach().zero_()
    assert all(
        torch.equal(a, b) for a, b in zip(torch.autograd.grad(loss, stack.parameters), expected, strict=True)
    )


def test_frozen_parameters_get_no_gradient_and_can_be_thawed(gcn):
    stack = Stack(gcn)
    frozen = stack.parameters[0].requires_grad_(False)
    stack.run(seed=1).sum().backward()
    assert frozen.grad is None
    assert all(p.grad is not None for p in stack.parameters[1:])
    frozen.requires_grad_()
    stack.run(seed=1).sum().backward()
    assert frozen.grad is not None


def test_torchs_seed_decides_and_dropout_can_be_off(gcn):
    stack = Stack(gcn)
    torch.manual_seed(3)
    first, second = stack.run(), stack.run()
    torch.manual_seed(3)
    assert torch.equal(stack.run(), first)
    assert not torch.equal(first, second)
    whole = reference.run(gcn, dtype=F64)
    torch.testing.assert_close(stack.run(dropout=False), whole)
    with without_dropout():
        torch.testing.assert_close(stack.run(), whole)


def test_parameters_may_move_and_change_between_calls(gcn):
    stack = Stack(gcn)
    stack.run(seed=1)
    for parameter in stack.parameters:
        parameter.data = torch.randn_like(parameter)
    torch.testing.assert_close(stack.run(seed=1), reference.run(gcn, dtype=F64, seed=1))
    stack.parameters[0].data = stack.parameters[0].data.float()
    with pytest.raises(InvalidConfig, match="float32"):
        stack.run(seed=1)


def test_copies_and_pickles_compute_the_same(gcn):
    stack = Stack(gcn)
    for other in (copy.deepcopy(stack), pickle.loads(pickle.dumps(stack))):
        assert torch.equal(other.run(seed=1), stack.run(seed=1))
        assert other.parameters[0] is not stack.parameters[0]


def test_dropouts_of_one_source_are_drawn_apart_and_one_dropout_is_one_draw():
    x = Constant(features=torch.ones(50, 16, dtype=F64))
    one, other = Dropout(source=0, p=0.5), Dropout(source=0, p=0.5)
    assert torch.equal(Stack([x, one, Add(a=1, b=1)]).run(seed=1), 2 * Stack([x, one]).run(seed=1))
    both = Stack([x, one, other, Add(a=1, b=2)]).run(seed=1)
    assert set(both.unique().tolist()) == {0.0, 2.0, 4.0}


def test_sparse_features_by_their_heads_and_dropped_twice():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(20, 9, generator=generator, dtype=F64) * (torch.rand(20, 9, generator=generator) < 0.5)
    weight = torch.nn.Parameter(torch.randn(7, 9, generator=generator, dtype=F64))
    ops = [
        Constant(features=SparseFeatures.from_tensor(x)),
        Dropout(source=0, p=0.3),
        Head(source=1, num_rows=8),
        Dropout(source=2, p=0.2),
        Linear(source=3, weight=weight),
        Linear(source=2, weight=weight),
        Add(a=4, b=5),
    ]
    compare(ops, seed=3)


def test_operations_that_nobody_reads_are_left_out():
    weight = torch.nn.Parameter(torch.randn(3, 3, dtype=F64))
    idle = torch.nn.Parameter(torch.randn(3, 3, dtype=F64))
    x = Constant(features=torch.randn(4, 3, dtype=F64))
    stack = Stack([x, Linear(source=0, weight=idle), Linear(source=0, weight=weight)])
    assert stack.parameters == (weight,)


def test_what_cannot_be_is_refused():
    x = Constant(features=torch.zeros(4, 3))
    weight, bias = torch.nn.Parameter(torch.zeros(2, 3)), torch.nn.Parameter(torch.zeros(3))
    sparse = Constant(features=SparseFeatures.from_tensor(torch.eye(4)))
    adj = Adjacency(rowptr=torch.tensor([0, 1]), col=torch.tensor([0]), num_cols=5)
    double = torch.nn.Parameter(torch.zeros(2, 3, dtype=F64))
    for ops, words in (
        ([], "empty"),
        ([x, Linear(source=1, weight=weight)], "operation 1, Linear"),
        ([x, Linear(source=0, weight=torch.nn.Parameter(torch.zeros(2, 4)))], "3 channels"),
        ([x, Linear(source=0, weight=weight, bias=bias)], "2 channels"),
        ([x, Aggregate(source=0, adj=adj)], "4 rows.*5 columns"),
        ([x, Head(source=0, num_rows=5)], "5 of 4"),
        ([x, Linear(source=0, weight=weight), Add(a=0, b=1)], r"\(4, 3\)"),
        ([x, Bias(source=0, bias=torch.nn.Parameter(torch.zeros(2)))], "3 channels"),
        ([sparse, Activation(source=0, kind="relu")], "sparse"),
        ([sparse], "dense"),
        ([Constant(features=torch.zeros(3))], r"\[3\]"),
        ([Constant(features=torch.zeros(3, 1, requires_grad=True))], "gradient"),
        ([x, Linear(source=0, weight=weight), Linear(source=0, weight=double)], "float64"),
    ):
        with pytest.raises(InvalidConfig, match=words):
            Stack(ops)
    with pytest.raises(InvalidConfig, match="float16"):
        Stack([x], dtype=torch.float16)
    with pytest.raises(InvalidConfig, match="gelu"):
        Activation(source=0, kind="gelu")
    with pytest.raises(InvalidConfig, match=r"-0\.5"):
        Activation(source=0, kind="elu", slope=-0.5)
    with pytest.raises(InvalidConfig, match=r"1\.5"):
        Dropout(source=0, p=1.5)
    with pytest.raises(InvalidConfig, match="max"):
        Aggregate(source=0, adj=adj, reduce="max")
    learnt = Adjacency(rowptr=adj.rowptr, col=adj.col, num_cols=5, value=torch.ones(1, requires_grad=True))
    with pytest.raises(InvalidConfig, match="gradient"):
        Aggregate(source=0, adj=learnt)
