"""spmm against its plain reference and against PyG: forward and gradient, every reduction, dtype and odd width."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.utils import scatter

from fasthop.errors import InvalidConfig, InvalidGraph
from fasthop.kernels.spmm import cpu, dispatch, op, reference, transpose
from fasthop.kernels.spmm.adjacency import Adjacency, spmm
from fasthop.kernels.spmm.job import channels_at_once
from fasthop.kernels.spmm.rows import EXTREMUM_BACK, SUM
from tests.kernels.graphs import by_target, edge_indices, random_edges

REDUCTIONS = ["sum", "mean", "max", "min"]
DTYPES = [torch.float32, torch.float64, torch.bfloat16]
OURS = {"cpu": "numba", "cuda": "triton"}
WIDTHS = [1, 3, 7, 16, 17, 33, 100, 256]
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12, torch.bfloat16: 2e-2}


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path_factory):
    """Choices that are measured here go into a cache of the tests' own."""
    monkeypatch.setenv("FASTHOP_CACHE", str(tmp_path_factory.getbasetemp()))
    dispatch.forget()
    yield
    dispatch.forget()


def adjacency(
    edge_index: Tensor, num_nodes: int, weight: Tensor | None = None, col_dtype: torch.dtype = torch.int32
) -> Adjacency:
    rowptr, col, e_id = by_target(edge_index, num_nodes)
    value = None if weight is None else weight[e_id]
    return Adjacency(rowptr=rowptr, col=col.to(col_dtype), num_cols=num_nodes, value=value)


def hub(num_nodes: int, num_edges: int) -> Tensor:
    """Half of all edges end in node 0, half of the others start there."""
    edge_index = random_edges(num_nodes, num_edges, 5)
    edge_index[1, : num_edges // 2] = 0
    edge_index[0, num_edges // 2 : 3 * num_edges // 4] = 0
    return edge_index


def assert_close(got: Tensor | None, expected: Tensor | None, dtype: torch.dtype) -> None:
    assert got is not None
    assert expected is not None
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    scale = max(1.0, float(expected.detach().abs().max())) if expected.numel() else 1.0
    torch.testing.assert_close(got, expected, atol=TOLERANCE[dtype] * scale, rtol=TOLERANCE[dtype])


def compare(
    device: str, adj: Adjacency, x: Tensor, value: Tensor | None, reduce: str, *, gradients: bool = True
) -> None:
    """Outputs and gradients of spmm on the device and of the reference on the CPU, on leaves of their own."""
    my_value = None if value is None else value.to(device, copy=True).requires_grad_(gradients)
    there = Adjacency(
        rowptr=adj.rowptr.to(device), col=adj.col.to(device), num_cols=adj.num_cols, value=my_value
    )
    mine = x.to(device, copy=True).requires_grad_(gradients)
    theirs = x.clone().requires_grad_(gradients)
    their_value = None if value is None else value.clone().requires_grad_(gradients)
    got = spmm(there, mine, reduce=reduce, implementation=OURS[device])
    expected = reference.spmm(theirs, adj.rowptr, adj.col, their_value, reduce)
    assert_close(got.cpu(), expected, x.dtype)
    if gradients:
        cotangent = torch.randn(got.shape, generator=torch.Generator().manual_seed(7)).to(got.dtype)
        got.backward(cotangent.to(device))
        expected.backward(cotangent)
        assert mine.grad is not None
        assert_close(mine.grad.cpu(), theirs.grad, x.dtype)
        if their_value is not None:
            assert my_value is not None
            assert my_value.grad is not None
            assert_close(my_value.grad.cpu(), their_value.grad, x.dtype)


@settings(max_examples=150, deadline=None)
@given(
    edge_indices(),
    st.sampled_from(REDUCTIONS),
    st.sampled_from([1, 17]),
    st.booleans(),
    st.integers(0, 2**31),
)
def test_equals_the_reference(device, graph, reduce, width, is_weighted, seed):
    edge_index, num_nodes = graph
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(num_nodes, width, generator=generator, dtype=torch.float64)
    value = torch.randn(edge_index.size(1), generator=generator, dtype=torch.float64) if is_weighted else None
    compare(device, adjacency(edge_index, num_nodes), x, value, reduce)


@settings(max_examples=80, deadline=None)
@given(edge_indices(), st.sampled_from(["max", "min"]), st.sampled_from([3, 16]), st.integers(0, 2**31))
def test_ties_share_the_gradient_as_in_torch(device, graph, reduce, width, seed):
    """Small whole numbers tie often, and are often 0, which torch counts once more."""
    edge_index, num_nodes = graph
    x = torch.randint(-1, 2, (num_nodes, width), generator=torch.Generator().manual_seed(seed)).double()
    compare(device, adjacency(edge_index, num_nodes), x, None, reduce)
    mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    spmm(adjacency(edge_index, num_nodes), mine, reduce=reduce).square().sum().backward()
    scatter(theirs[edge_index[0]], edge_index[1], 0, num_nodes, reduce).square().sum().backward()
    torch.testing.assert_close(mine.grad, theirs.grad)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_every_width(device, width, reduce):
    edge_index = random_edges(60, 500, 1)
    x = torch.randn(60, width, generator=torch.Generator().manual_seed(2))
    value = torch.rand(500, generator=torch.Generator().manual_seed(3))
    compare(device, adjacency(edge_index, 60), x, value, reduce)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_every_dtype(device, dtype, reduce):
    edge_index = random_edges(40, 300, 4)
    x = torch.randn(40, 17, generator=torch.Generator().manual_seed(2)).to(dtype)
    compare(device, adjacency(edge_index, 40), x, None, reduce)
    value = torch.rand(300, generator=torch.Generator().manual_seed(3))
    compare(device, adjacency(edge_index, 40), x, value.to(torch.promote_types(dtype, torch.float32)), reduce)


@pytest.mark.parametrize("reduce", ["sum", "max"])
def test_columns_of_64_bits(device, reduce):
    x = torch.randn(40, 17, generator=torch.Generator().manual_seed(2))
    value = torch.rand(300, generator=torch.Generator().manual_seed(3))
    compare(device, adjacency(random_edges(40, 300, 4), 40, None, torch.int64), x, value, reduce)


@pytest.mark.parametrize("reduce", ["mean", "min"])
def test_wider_than_the_registers(device, reduce):
    x_width = channels_at_once(SUM, 8) + 17
    assert channels_at_once(EXTREMUM_BACK, 8) < x_width
    edge_index = hub(50, 400)
    x = torch.randn(50, x_width, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    value = torch.randn(400, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    compare(device, adjacency(edge_index, 50), x, value, reduce)


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_equals_pyg_on_a_directed_graph_with_hubs(reduce):
    edge_index = hub(80, 600)
    x = torch.randn(80, 24, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    weight = torch.rand(600, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    my_weight, their_weight = weight.clone().requires_grad_(), weight.clone().requires_grad_()
    got = spmm(adjacency(edge_index, 80, my_weight), mine, reduce=reduce)
    expected = scatter(their_weight.unsqueeze(1) * theirs[edge_index[0]], edge_index[1], 0, 80, reduce)
    torch.testing.assert_close(got, expected, atol=1e-12, rtol=1e-12)
    cotangent = torch.randn(got.shape, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    got.backward(cotangent)
    expected.backward(cotangent)
    torch.testing.assert_close(mine.grad, theirs.grad, atol=1e-12, rtol=1e-12)
    torch.testing.assert_close(my_weight.grad, their_weight.grad, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_the_bits_do_not_depend_on_the_number_of_threads(reduce):
    adj = adjacency(hub(700, 9000), 700, torch.rand(9000, generator=torch.Generator().manual_seed(1)))
    x = torch.randn(700, 20, generator=torch.Generator().manual_seed(2))
    one = cpu.spmm(x, adj.rowptr, adj.col, adj.value, reduce, num_threads=1)
    for num_threads in (2, 3, 5):
        assert torch.equal(one, cpu.spmm(x, adj.rowptr, adj.col, adj.value, reduce, num_threads=num_threads))


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_large_x_is_fetched_ahead_and_equal(device, reduce):
    edge_index = random_edges(3000, 12000, 8)
    x = torch.randn(3000, 64, generator=torch.Generator().manual_seed(2))
    assert x.nbytes >= cpu.PREFETCH_WIDE_FROM
    assert x[0].nbytes >= cpu.WIDE_ROW_BYTES
    compare(
        device,
        adjacency(edge_index, 3000),
        x,
        torch.rand(12000, generator=torch.Generator().manual_seed(3)),
        reduce,
    )


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_no_edges_no_rows_no_channels(reduce):
    none = torch.empty(2, 0, dtype=torch.int64)
    x = torch.randn(3, 5, requires_grad=True)
    out = spmm(adjacency(none, 3), x, reduce=reduce)
    assert torch.equal(out, torch.zeros(3, 5))
    out.sum().backward()
    assert torch.equal(x.grad, torch.zeros(3, 5))
    assert spmm(adjacency(none, 3), torch.randn(3, 0), reduce=reduce).shape == (3, 0)
    empty = Adjacency(
        rowptr=torch.zeros(1, dtype=torch.int64), col=torch.empty(0, dtype=torch.int32), num_cols=3
    )
    assert spmm(empty, torch.randn(3, 2), reduce=reduce).shape == (0, 2)


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_rectangular(device, reduce):
    """A layer's last rows only: fewer targets than sources."""
    adj = Adjacency(
        rowptr=torch.tensor([0, 2, 2, 5]), col=torch.tensor([6, 0, 3, 3, 1], dtype=torch.int32), num_cols=7
    )
    compare(
        device,
        adj,
        torch.randn(7, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64),
        None,
        reduce,
    )


def test_strided_x_and_strided_gradient():
    adj = adjacency(random_edges(30, 200, 3), 30)
    wide = torch.randn(
        30, 20, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True
    )
    for view in (wide[:, ::2], wide[:, 3:10], wide.t().contiguous().t()):
        got = spmm(adj, view)
        torch.testing.assert_close(got, reference.spmm(view, adj.rowptr, adj.col))
        (got * torch.ones(1, 1, dtype=torch.float64).expand_as(got)).sum().backward()
    wide.grad = None
    spmm(adj, wide).sum().backward()  # an expanded gradient: all strides 0
    torch.testing.assert_close(
        wide.grad, torch.bincount(adj.col, minlength=30).double().unsqueeze(1).expand(30, 20)
    )


def test_bfloat16_sums_do_not_stop_growing():
    adj = Adjacency(rowptr=torch.tensor([0, 1000]), col=torch.zeros(1000, dtype=torch.int32), num_cols=1)
    assert spmm(adj, torch.ones(1, 8, dtype=torch.bfloat16)).tolist() == [[1000.0] * 8]
    assert spmm(adj, torch.ones(1, 8, dtype=torch.float16)).tolist() == [[1000.0] * 8]


@pytest.mark.gpu
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_on_cuda_hubs_give_the_same_bits_every_time(reduce):
    adj = adjacency(hub(700, 9000), 700, torch.rand(9000, generator=torch.Generator().manual_seed(1)))
    assert adj.value is not None
    there = Adjacency(rowptr=adj.rowptr.cuda(), col=adj.col.cuda(), num_cols=700, value=adj.value.cuda())
    x = torch.randn(700, 20, device="cuda")
    first = spmm(there, x, reduce=reduce, implementation="triton")
    assert all(torch.equal(first, spmm(there, x, reduce=reduce, implementation="triton")) for _ in range(5))


@pytest.mark.gpu
@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("is_weighted", [False, True])
def test_float16_on_cuda(reduce, is_weighted):
    value = torch.rand(300, generator=torch.Generator().manual_seed(3)) if is_weighted else None
    adj = adjacency(random_edges(40, 300, 4), 40, value)
    x = torch.randn(40, 17, generator=torch.Generator().manual_seed(2)).half()
    there = Adjacency(
        rowptr=adj.rowptr.cuda(),
        col=adj.col.cuda(),
        num_cols=40,
        value=None if adj.value is None else adj.value.cuda(),
    )
    got = spmm(there, x.cuda(), reduce=reduce)
    assert got.dtype == torch.float16
    torch.testing.assert_close(got.cpu(), spmm(adj, x, reduce=reduce), atol=2e-3, rtol=2e-3)


@pytest.mark.gpu
def test_the_transpose_on_cuda_is_the_cpus():
    adj = adjacency(hub(80, 600), 80)
    there = Adjacency(rowptr=adj.rowptr.cuda(), col=adj.col.cuda(), num_cols=80)
    for mine, theirs in zip(there.transposed, adj.transposed, strict=True):
        assert mine.dtype == theirs.dtype
        assert torch.equal(mine.cpu(), theirs)


def test_the_transpose_by_sorting_is_the_counting_sorts():
    for edge_index, num_nodes in ((hub(80, 600), 80), (torch.empty(2, 0, dtype=torch.int64), 3)):
        for col_dtype in (torch.int32, torch.int64):
            adj = adjacency(edge_index, num_nodes, None, col_dtype)
            sorted_ = transpose._by_sorting(adj.rowptr, adj.col, num_nodes)
            for mine, theirs in zip(sorted_, adj.transposed, strict=True):
                assert mine.dtype == theirs.dtype
                assert torch.equal(mine, theirs)


def test_not_a_number_and_infinity_come_through():
    adj = adjacency(torch.tensor([[0, 1, 1, 2], [0, 0, 1, 2]]), 3)
    for dtype in DTYPES:
        x = torch.tensor([[float("nan")], [float("-inf")], [float("inf")]], dtype=dtype)
        for reduce in REDUCTIONS:
            got = spmm(adj, x, reduce=reduce)
            torch.testing.assert_close(
                got, reference.spmm(x, adj.rowptr, adj.col, None, reduce), equal_nan=True
            )


def test_constant_values_follow_every_change():
    """In place, in place of a copy, and by another tensor: the transpose's values are never stale."""
    adj = adjacency(random_edges(20, 90, 3), 20, torch.rand(90, dtype=torch.float64))
    x = torch.randn(20, 4, dtype=torch.float64)

    def gradient(adj: Adjacency) -> Tensor:
        leaf = x.clone().requires_grad_()
        return torch.autograd.grad(spmm(adj, leaf).sum(), leaf)[0]

    assert adj.value is not None
    adj.value.mul_(2)
    first = gradient(adj)
    adj.value.mul_(3)
    torch.testing.assert_close(gradient(adj), 3 * first)
    copied = copy.deepcopy(adj)
    assert copied.value is not None
    while copied.value._version < adj.value._version:
        copied.value.mul_(5)
    torch.testing.assert_close(gradient(copied), gradient(adj) * (copied.value[0] / adj.value[0]))
    adj.value = adj.value * 0.5
    adj.value.mul_(1).mul_(1)
    torch.testing.assert_close(gradient(adj), 1.5 * first)


def test_gradients_by_finite_differences():
    rowptr, col, _ = by_target(random_edges(6, 14, 0), 6)
    x = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    value = torch.rand(14, dtype=torch.float64, requires_grad=True)

    def product(x: Tensor, value: Tensor, reduce: str) -> Tensor:
        return spmm(Adjacency(rowptr=rowptr, col=col, num_cols=6, value=value), x, reduce=reduce)

    for reduce in REDUCTIONS:
        assert torch.autograd.gradcheck(lambda x, value, reduce=reduce: product(x, value, reduce), (x, value))
    adj = Adjacency(rowptr=rowptr, col=col, num_cols=6, value=value.detach())
    assert torch.autograd.gradgradcheck(lambda x: spmm(adj, x).sin(), (x,))


@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("has_transpose", [False, True])
def test_the_operator_keeps_torchs_rules(reduce, has_transpose):
    rowptr, col, _ = by_target(random_edges(9, 30, 0), 9)
    x = torch.randn(9, 5, requires_grad=True)
    value = torch.rand(30, requires_grad=True)
    transposed = (
        Adjacency(rowptr=rowptr, col=col, num_cols=9).transposed if has_transpose else (None, None, None)
    )
    torch.library.opcheck(op.spmm, (x, rowptr, col, value, *transposed, None, reduce, "numba"))
    torch.library.opcheck(op.spmm, (x, rowptr, col, None, *transposed, None, reduce, "numba"))


def test_the_gradients_operators_keep_torchs_rules():
    rowptr, col, _ = by_target(random_edges(9, 30, 0), 9)
    x, value = torch.randn(9, 5), torch.rand(30)
    y = reference.spmm(x, rowptr, col, value, "max")
    rowptr_t, col_t, perm = Adjacency(rowptr=rowptr, col=col, num_cols=9).transposed
    torch.library.opcheck(op.csr_transpose, (rowptr, col, 9))
    torch.library.opcheck(op.sddmm, (x, rowptr, col, y))
    torch.library.opcheck(op.tie_share, (x, rowptr, col, value, y, y))
    torch.library.opcheck(op.extremum_grad, (x, rowptr_t, col_t, value[perm], y, y))
    torch.library.opcheck(op.extremum_value_grad, (x, rowptr, col, value, y, y))


def test_torch_compile_keeps_the_operator_whole():
    """No graph breaks; values that change in place are seen."""
    adj = adjacency(random_edges(20, 90, 3), 20, torch.rand(90))
    x = torch.randn(20, 4, requires_grad=True)

    def step(x: Tensor) -> Tensor:
        return spmm(adj, x, reduce="mean", implementation="numba").relu().sum()

    compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
    adj.transposed  # noqa: B018
    for _ in range(2):
        expected = torch.autograd.grad(step(x), x)[0]
        torch.testing.assert_close(torch.autograd.grad(compiled(x), x)[0], expected)
        assert adj.value is not None
        adj.value.mul_(2)


@pytest.mark.parametrize(
    ("x", "arguments", "error", "message"),
    [
        (torch.zeros(3), {}, InvalidConfig, r"two dimensions.*\[3\]"),
        (torch.zeros(3, 2, dtype=torch.int64), {}, InvalidConfig, r"torch.int64"),
        (torch.zeros(4, 2), {}, InvalidGraph, r"3 columns.*4 rows"),
        (torch.zeros(3, 2, device="meta"), {}, InvalidConfig, r"CPU.*meta"),
        (torch.zeros(3, 2), {"reduce": "median"}, InvalidConfig, r"'median'"),
        (torch.zeros(3, 2), {"implementation": "fast"}, InvalidConfig, r"'fast'"),
        (torch.zeros(3, 2), {"implementation": "mkl", "reduce": "max"}, InvalidConfig, r"MKL.*'max'"),
    ],
)
def test_what_cannot_be_is_refused(x, arguments, error, message):
    adj = adjacency(torch.tensor([[0, 1], [1, 2]]), 3)
    with pytest.raises(error, match=message):
        spmm(adj, x, **arguments)


@pytest.mark.parametrize(
    ("rowptr", "col", "message"),
    [
        (torch.tensor([0, 1, 2]), torch.tensor([0, 3]), r"col\[1\] is 3"),
        (torch.tensor([0, 1, 2]), torch.tensor([-1, 0]), r"col\[0\] is -1"),
        (torch.tensor([0, 2, 1]), torch.tensor([0, 1]), r"ascend"),
        (torch.tensor([0, 2, 1, 2]), torch.tensor([0, 1]), r"not ascending"),
        (torch.tensor([0, 1, 3]), torch.tensor([0, 1]), r"ascend"),
        (torch.tensor([0, 1, 2], dtype=torch.int32), torch.tensor([0, 1]), r"int64"),
        (torch.tensor([0, 1, 2]), torch.tensor([0.0, 1.0]), r"float32"),
    ],
)
def test_a_matrix_that_cannot_be_is_refused(rowptr, col, message):
    with pytest.raises(InvalidGraph, match=message):
        Adjacency(rowptr=rowptr, col=col, num_cols=3)


def test_strided_values_and_a_strided_transpose():
    rowptr, col, _ = by_target(random_edges(9, 30, 0), 9)
    plain = Adjacency(rowptr=rowptr, col=col, num_cols=9, value=torch.rand(30, dtype=torch.float64))
    assert plain.value is not None
    strided = Adjacency(
        rowptr=torch.stack([rowptr, rowptr], 1)[:, 0],
        col=torch.stack([col, col], 1)[:, 0],
        num_cols=9,
        value=torch.stack([plain.value, plain.value], 1)[:, 1],
        transposed=tuple(torch.stack([t, t], 1)[:, 0] for t in plain.transposed),
    )
    x = torch.randn(9, 4, dtype=torch.float64, requires_grad=True)
    for adj in (plain, strided):
        x.grad = None
        torch.testing.assert_close(spmm(adj, x), reference.spmm(x, rowptr, col, plain.value))
        (mine,) = torch.autograd.grad(spmm(adj, x).sum(), x)
        (theirs,) = torch.autograd.grad(reference.spmm(x, rowptr, col, plain.value).sum(), x)
        torch.testing.assert_close(mine, theirs)


def test_values_of_another_length_are_refused():
    adj = adjacency(torch.tensor([[0, 1], [1, 2]]), 3)
    adj.value = torch.ones(3)
    with pytest.raises(InvalidGraph, match=r"2 entries.*\[3\]"):
        spmm(adj, torch.zeros(3, 2))
