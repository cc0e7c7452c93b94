"""Fused attention against its plain reference: forward and gradient, dropout, dtypes, odd shapes, hubs, no edges."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fasthop.errors import InvalidConfig
from fasthop.kernels.segment_softmax import cpu, op, reference
from fasthop.kernels.segment_softmax.attention import WIDEST, gat, gatv2, node_scores
from fasthop.kernels.spmm.adjacency import Adjacency
from fasthop.machine.memory import measure_peak
from tests.kernels.graphs import by_target, edge_indices, random_edges

OPERATIONS = ["gat", "gatv2"]
DTYPES = [torch.float32, torch.float64, torch.bfloat16]
# (heads, channels): the widths of real layers, one that fills no register, one that is computed in blocks of heads.
SHAPES = [(1, 1), (8, 1), (2, 3), (1, 7), (8, 8), (2, 16), (1, 64), (8, 64), (17, 5)]
TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-11, torch.bfloat16: 2e-2}


def adjacency(edge_index: Tensor, num_nodes: int, col_dtype: torch.dtype = torch.int32) -> Adjacency:
    rowptr, col, _ = by_target(edge_index, num_nodes)
    return Adjacency(rowptr=rowptr, col=col.to(col_dtype), num_cols=num_nodes)


def hub(num_nodes: int, num_edges: int) -> Tensor:
    """Half of all edges end in node 0, half of the others start there."""
    edge_index = random_edges(num_nodes, num_edges, 5)
    edge_index[1, : num_edges // 2] = 0
    edge_index[0, num_edges // 2 : 3 * num_edges // 4] = 0
    return edge_index


def inputs(
    operation: str,
    adj: Adjacency,
    shape: tuple[int, int],
    dtype: torch.dtype,
    *,
    seed: int = 0,
    scale: float = 1.0,
) -> list[Tensor]:
    """Leaves: x, a_src and a_dst, or x_l, x_r and att."""
    heads, channels = shape
    generator = torch.Generator().manual_seed(seed)
    shapes = {
        "gat": [(adj.num_cols, heads, channels), (adj.num_cols, heads), (adj.num_rows, heads)],
        "gatv2": [(adj.num_cols, heads, channels), (adj.num_rows, heads, channels), (heads, channels)],
    }[operation]
    return [
        (scale * torch.randn(shape, generator=generator, dtype=torch.float64)).to(dtype).requires_grad_()
        for shape in shapes
    ]


def compare(
    device: str,
    operation: str,
    adj: Adjacency,
    leaves: list[Tensor],
    *,
    dropout: float = 0.0,
    slope: float = 0.2,
    seed: int = 11,
) -> None:
    """Output and gradients of the kernel on the device and of the reference on the CPU, which takes bfloat16 in float64."""
    kernel = {"gat": gat, "gatv2": gatv2}[operation]
    plain = {"gat": reference.gat, "gatv2": reference.gatv2}[operation]
    dtype = leaves[0].dtype
    wide = [leaf.detach().double().requires_grad_() for leaf in leaves]
    factor = reference.dropout_factor(seed, adj.col.numel(), leaves[0].size(1), dropout) if dropout else None
    there = Adjacency(rowptr=adj.rowptr.to(device), col=adj.col.to(device), num_cols=adj.num_cols)
    leaves = [leaf.detach().to(device).requires_grad_() for leaf in leaves]
    got = kernel(there, *leaves, negative_slope=slope, dropout=dropout, seed=seed)
    expected = plain(*wide, adj.rowptr, adj.col, negative_slope=slope, factor=factor)
    generator = torch.Generator().manual_seed(7)
    cotangent = torch.randn(got.shape, generator=generator, dtype=torch.float64).to(dtype)
    mine = torch.autograd.grad(got, leaves, cotangent.to(device))
    theirs = torch.autograd.grad(expected, wide, cotangent.double())
    assert got.dtype == dtype
    for one, other in zip((got, *mine), (expected, *theirs), strict=True):
        assert one.shape == other.shape
        scale = max(1.0, float(other.detach().abs().max())) if other.numel() else 1.0
        tolerance = TOLERANCE[dtype]
        torch.testing.assert_close(one.cpu().double(), other, atol=tolerance * scale, rtol=tolerance)


@settings(max_examples=150, deadline=None)
@given(
    edge_indices(),
    st.sampled_from(OPERATIONS),
    st.sampled_from([(1, 1), (2, 3), (8, 8)]),
    st.sampled_from([0.0, 0.5]),
    st.sampled_from([0.2, 0.0, -0.5, 1.5]),
    st.integers(0, 2**31),
)
def test_equals_the_reference(device, graph, operation, shape, dropout, slope, seed):
    edge_index, num_nodes = graph
    adj = adjacency(edge_index, num_nodes)
    leaves = inputs(operation, adj, shape, torch.float64, seed=seed)
    compare(device, operation, adj, leaves, dropout=dropout, slope=slope, seed=seed)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_shape(device, operation, shape):
    adj = adjacency(hub(60, 500), 60)
    compare(device, operation, adj, inputs(operation, adj, shape, torch.float32))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_dtype(device, operation, dropout, dtype):
    adj = adjacency(random_edges(40, 300, 4), 40)
    leaves = inputs(operation, adj, (2, 16), dtype, scale=0.5 if dtype == torch.bfloat16 else 1.0)
    compare(device, operation, adj, leaves, dropout=dropout)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_columns_of_64_bits_and_rectangular(device, operation):
    """A layer's last rows only: fewer targets than sources."""
    adj = Adjacency(rowptr=torch.tensor([0, 2, 2, 5]), col=torch.tensor([6, 0, 3, 3, 1]), num_cols=7)
    compare(device, operation, adj, inputs(operation, adj, (2, 3), torch.float64))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_given_transpose_of_64_bits(device, operation):
    plain = adjacency(random_edges(20, 90, 3), 20)
    adj = Adjacency(
        rowptr=plain.rowptr,
        col=plain.col,
        num_cols=20,
        transposed=(plain.transposed[0], plain.transposed[1].long(), plain.transposed[2].long()),
    )
    compare(device, operation, adj, inputs(operation, adj, (2, 3), torch.float64), dropout=0.5)


@pytest.mark.parametrize("channels", [300, WIDEST + 1])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_head_wider_than_the_registers(device, operation, channels):
    adj = adjacency(random_edges(20, 90, 3), 20)
    compare(
        device, operation, adj, inputs(operation, adj, (2, channels), torch.float64, scale=0.2), dropout=0.4
    )


@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_edges_no_rows_no_channels(operation):
    kernel = {"gat": gat, "gatv2": gatv2}[operation]
    none = adjacency(torch.empty(2, 0, dtype=torch.int64), 3)
    leaves = inputs(operation, none, (2, 3), torch.float32)
    out = kernel(none, *leaves)
    assert torch.equal(out, torch.zeros(3, 2, 3))
    for gradient, leaf in zip(torch.autograd.grad(out.sum(), leaves), leaves, strict=True):
        assert torch.equal(gradient, torch.zeros_like(leaf))
    assert kernel(none, *inputs(operation, none, (2, 0), torch.float32)).shape == (3, 2, 0)
    empty = Adjacency(
        rowptr=torch.zeros(1, dtype=torch.int64), col=torch.empty(0, dtype=torch.int32), num_cols=3
    )
    leaves = inputs(operation, empty, (2, 3), torch.float32)
    out = kernel(empty, *leaves)
    assert out.shape == (0, 2, 3)
    for gradient, leaf in zip(torch.autograd.grad(out.sum(), leaves), leaves, strict=True):
        assert torch.equal(gradient, torch.zeros_like(leaf))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_huge_scores_neither_overflow_nor_vanish(operation, dtype):
    adj = adjacency(hub(40, 300), 40)
    leaves = inputs(operation, adj, (2, 3), dtype)
    with torch.no_grad():
        leaves[1].mul_(1e4)
        leaves[2].mul_(1e4)
    # The gradients grow with the scores, so float32 is compared where they stay apart: the output.
    kernel = {"gat": gat, "gatv2": gatv2}[operation]
    plain = {"gat": reference.gat, "gatv2": reference.gatv2}[operation]
    out = kernel(adj, *leaves)
    assert bool(out.isfinite().all())
    torch.testing.assert_close(out, plain(*leaves, adj.rowptr, adj.col), atol=1e-3, rtol=1e-3)
    assert all(bool(gradient.isfinite().all()) for gradient in torch.autograd.grad(out.sum(), leaves))


def test_exp_is_right_to_the_last_places():
    """One entry scores 0 and so is the largest; another scores -t: its softmax is e^-t / (1 + e^-t)."""
    for dtype, lowest, tolerance in ((torch.float32, -86.0, 2.5e-7), (torch.float64, -700.0, 5e-16)):
        t = torch.linspace(lowest, 0, 20001, dtype=dtype)
        num = t.numel()
        adj = Adjacency(
            rowptr=torch.arange(0, 2 * num + 1, 2),
            col=torch.stack([torch.full((num,), num), torch.arange(num)], 1).reshape(-1),
            num_cols=num + 1,
        )
        a_src = torch.cat([t, t.new_zeros(1)]).unsqueeze(1)
        x = torch.ones(num + 1, 1, 1, dtype=dtype)
        x[num] = 0
        got = gat(adj, x, a_src, t.new_zeros(num, 1), negative_slope=1.0).flatten().double()
        expected = torch.sigmoid(t.double())
        assert float(((got - expected).abs() / expected).max()) < tolerance


def test_not_a_number_and_infinity_come_through():
    adj = adjacency(torch.tensor([[0, 1, 1, 2], [0, 0, 1, 2]]), 3)
    x = torch.tensor([1.0, 2.0, 3.0]).reshape(3, 1, 1)
    for wrong in (float("nan"), float("inf")):
        a_src = torch.tensor([wrong, 1.0, 1.0]).unsqueeze(1)
        out = gat(adj, x, a_src, torch.zeros(3, 1)).flatten()
        assert math.isnan(out[0])
        assert out[1:].tolist() == [2.0, 3.0]
    a_src = torch.tensor([float("-inf"), 1.0, 1.0]).unsqueeze(1)
    assert gat(adj, x, a_src, torch.zeros(3, 1)).flatten().tolist() == [2.0, 2.0, 3.0]


def test_bfloat16_sums_do_not_stop_growing():
    adj = Adjacency(rowptr=torch.tensor([0, 1000]), col=torch.arange(1000, dtype=torch.int32), num_cols=1000)
    for dtype in (torch.bfloat16, torch.float16):
        out = gat(adj, torch.ones(1000, 2, 8, dtype=dtype), torch.zeros(1000, 2), torch.zeros(1, 2))
        assert out.dtype == dtype
        torch.testing.assert_close(out, torch.ones(1, 2, 8, dtype=dtype), atol=4e-3, rtol=0)


def test_dropout_keeps_the_fraction_and_its_draws_are_independent():
    factor = reference.dropout_factor(3, 40_000, 8, 0.6)
    kept = (factor > 0).double()
    assert set(factor.unique().tolist()) == {0.0, 1.0 / 0.4}
    sd = math.sqrt(0.4 * 0.6 / kept.numel())
    assert abs(float(kept.mean()) - 0.4) < 5 * sd
    for other in (
        kept.roll(1, 0),
        kept.roll(1, 1),
        (reference.dropout_factor(4, 40_000, 8, 0.6) > 0).double(),
    ):
        assert abs(float((kept * other).mean()) - 0.16) < 5 * math.sqrt(0.16 * 0.84 / kept.numel())
    assert not reference.dropout_factor(3, 100, 2, 1.0).any()
    assert torch.equal(reference.dropout_factor(3, 100, 2, 0.0), torch.ones(100, 2, dtype=torch.float64))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_dropout_of_all_and_without_a_seed(operation):
    kernel = {"gat": gat, "gatv2": gatv2}[operation]
    adj = adjacency(random_edges(20, 90, 3), 20)
    leaves = inputs(operation, adj, (2, 3), torch.float64)
    assert not kernel(adj, *leaves, dropout=1.0).any()
    torch.manual_seed(0)
    first, second = kernel(adj, *leaves, dropout=0.5), kernel(adj, *leaves, dropout=0.5)
    torch.manual_seed(0)
    assert torch.equal(first, kernel(adj, *leaves, dropout=0.5))
    assert not torch.equal(first, second)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_bits_do_not_depend_on_the_number_of_threads(operation):
    adj = adjacency(hub(700, 9000), 700)
    one, other, third = (leaf.detach() for leaf in inputs(operation, adj, (2, 16), torch.float32))
    rowptr_t, col_t, perm = adj.transposed

    def results(num_threads: int) -> list[Tensor]:
        kept: dict[str, Any] = {
            "slope": 0.2,
            "dropout": 0.3,
            "seed": torch.tensor(1),
            "num_threads": num_threads,
        }
        sweep = cpu.Sweep(one, adj.rowptr, adj.col, None, **kept)
        sweep_t = cpu.Sweep(one, rowptr_t, col_t, perm, **kept)
        forward, backward = {"gat": (cpu.gat, cpu.gat_grad), "gatv2": (cpu.gatv2, cpu.gatv2_grad)}[operation]
        kept_too = forward(sweep, other, third)
        grad = torch.ones_like(kept_too[0])
        return [*kept_too, *backward(sweep, sweep_t, other, third, *kept_too, grad)]

    expected = results(1)
    for num_threads in (2, 3):
        for a, b in zip(expected, results(num_threads), strict=True):
            assert torch.equal(a, b)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_tensor_of_edges_x_heads_x_channels(operation):
    kernel = {"gat": gat, "gatv2": gatv2}[operation]
    adj = adjacency(random_edges(200, 20_000, 8), 200)
    leaves = inputs(operation, adj, (2, 64), torch.float32)
    adj.transposed  # noqa: B018

    def step() -> tuple[Tensor, ...]:
        return torch.autograd.grad(kernel(adj, *leaves, dropout=0.5, seed=1).sum(), leaves)

    step()
    peak = measure_peak(step, resident=leaves, device="cpu")
    each_bytes, row_bytes = 20_000 * 2 * 4, 200 * 2 * 64 * 4
    # GAT writes one number for each entry and head, GATv2 three; besides them a few tensors of the size of x.
    assert peak.transient_bytes < {"gat": 1, "gatv2": 3}[operation] * each_bytes + 6 * row_bytes
    assert peak.transient_bytes < 20_000 * 2 * 64 * 4 / 8


@pytest.mark.parametrize("operation", OPERATIONS)
def test_strided_inputs_and_a_strided_gradient(operation):
    kernel = {"gat": gat, "gatv2": gatv2}[operation]
    plain = {"gat": reference.gat, "gatv2": reference.gatv2}[operation]
    adj = adjacency(random_edges(20, 90, 3), 20)
    leaves = [
        leaf.detach().mT.contiguous().mT.requires_grad_()
        for leaf in inputs(operation, adj, (2, 3), torch.float64)
    ]
    assert not leaves[0].is_contiguous()
    mine = torch.autograd.grad(kernel(adj, *leaves).sum(), leaves)  # an expanded gradient: all strides 0
    theirs = torch.autograd.grad(plain(*leaves, adj.rowptr, adj.col).sum(), leaves)
    torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_gradients_by_finite_differences(operation):
    kernel = {"gat": gat, "gatv2": gatv2}[operation]
    adj = adjacency(random_edges(6, 14, 0), 6)
    leaves = inputs(operation, adj, (2, 3), torch.float64)
    assert torch.autograd.gradcheck(lambda *leaves: kernel(adj, *leaves), leaves)
    assert torch.autograd.gradcheck(lambda *leaves: kernel(adj, *leaves, dropout=0.5, seed=2), leaves)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_second_derivative_is_refused(operation):
    kernel = {"gat": gat, "gatv2": gatv2}[operation]
    adj = adjacency(random_edges(6, 14, 0), 6)
    leaves = inputs(operation, adj, (2, 3), torch.float64)
    first = torch.autograd.grad(kernel(adj, *leaves).square().sum(), leaves, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first[0].sum().backward()


@pytest.mark.parametrize("has_transpose", [False, True])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_operators_keep_torchs_rules(operation, has_transpose):
    operator, gradient = {"gat": (op.gat, op.gat_grad), "gatv2": (op.gatv2, op.gatv2_grad)}[operation]
    adj = adjacency(random_edges(9, 30, 0), 9)
    leaves = inputs(operation, adj, (2, 3), torch.float32)
    transposed = adj.transposed if has_transpose else (None, None, None)
    for dropout, seed in ((0.0, None), (0.5, torch.tensor([3]))):
        torch.library.opcheck(operator, (*leaves, adj.rowptr, adj.col, *transposed, seed, 0.2, dropout))
        plain = [leaf.detach() for leaf in leaves]
        kept = operator(*plain, adj.rowptr, adj.col, *adj.transposed, seed, 0.2, dropout)
        grad = torch.ones_like(kept[0])
        matrix = (adj.rowptr, adj.col, *adj.transposed, seed)
        torch.library.opcheck(gradient, (grad, *plain, *matrix, 0.2, dropout, *kept))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_torch_compile_keeps_the_operator_whole(operation):
    kernel = {"gat": gat, "gatv2": gatv2}[operation]
    adj = adjacency(random_edges(20, 90, 3), 20)
    leaves = inputs(operation, adj, (2, 3), torch.float32)
    seed = torch.tensor([5])

    def step(*leaves: Tensor) -> Tensor:
        return kernel(adj, *leaves, dropout=0.25, seed=seed).relu().sum()

    adj.transposed  # noqa: B018
    compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(
        torch.autograd.grad(compiled(*leaves), leaves), torch.autograd.grad(step(*leaves), leaves)
    )


GOOD = {"x": torch.zeros(3, 2, 4), "a_src": torch.zeros(3, 2), "a_dst": torch.zeros(3, 2)}
GOOD_2 = {"x_l": torch.zeros(3, 2, 4), "x_r": torch.zeros(3, 2, 4), "att": torch.zeros(2, 4)}


@pytest.mark.parametrize(
    ("kernel", "changed", "message"),
    [
        (gat, {"x": torch.zeros(3, 8)}, r"three dimensions.*\[3, 8\]"),
        (gat, {"x": torch.zeros(4, 2, 4)}, r"3 columns.*4 rows"),
        (gat, {"x": torch.zeros(3, 2, 4, dtype=torch.int64)}, r"int64"),
        (gat, {"x": torch.zeros(3, 2, 4, device="meta")}, r"meta"),
        (gat, {"a_src": torch.zeros(3, 4)}, r"a_src.*\[3, 2\].*\[3, 4\]"),
        (gat, {"a_dst": torch.zeros(2, 2)}, r"a_dst.*\[3, 2\].*\[2, 2\]"),
        (gat, {"dropout": 1.5}, r"1\.5"),
        (gat, {"dropout": 0.5, "seed": torch.zeros(2, dtype=torch.int64)}, r"one int64.*\[2\]"),
        (gatv2, {"x_r": torch.zeros(2, 2, 4)}, r"x_r.*\[3, 2, 4\].*\[2, 2, 4\]"),
        (gatv2, {"x_r": torch.zeros(3, 2, 4, dtype=torch.float64)}, r"x_r.*float64"),
        (gatv2, {"att": torch.zeros(2, 3)}, r"att.*\[2, 4\].*\[2, 3\]"),
        (gatv2, {"x_l": torch.zeros(3, 2, WIDEST + 1)}, r"x_r"),
    ],
)
def test_what_cannot_be_is_refused(kernel, changed, message):
    adj = adjacency(torch.tensor([[0, 1], [1, 2]]), 3)
    with pytest.raises(InvalidConfig, match=message):
        kernel(adj, **{**(GOOD if kernel is gat else GOOD_2), **changed})


@pytest.mark.parametrize("shape", [(0, 2, 3), (7, 1, 1), (7, 8, 8), (7, 2, 1)])
def test_node_scores(shape):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)
    one = torch.randn(shape[1:], generator=generator, dtype=torch.float64, requires_grad=True)
    other = torch.randn((1, *shape[1:]), generator=generator, dtype=torch.float64, requires_grad=True)
    got, expected = node_scores(x, one, other), ((x * one).sum(-1), (x * other).sum(-1))
    torch.testing.assert_close(got, expected)
    weights = torch.randn(2, *shape[:2], generator=generator, dtype=torch.float64)
    mine = torch.autograd.grad((weights[0] * got[0] + weights[1] * got[1]).sum(), (x, one, other))
    theirs = torch.autograd.grad((weights[0] * expected[0] + weights[1] * expected[1]).sum(), (x, one, other))
    torch.testing.assert_close(mine, theirs)


def test_scores_that_do_not_fit_are_refused():
    with pytest.raises(InvalidConfig, match=r"\[2, 3\].*\[3, 2\]"):
        node_scores(torch.zeros(4, 2, 3), torch.zeros(3, 2))
    with pytest.raises(InvalidConfig, match=r"three dimensions.*\[4, 6\]"):
        node_scores(torch.zeros(4, 6), torch.zeros(2, 3))
