"""The weight's gradient row by row: against a dense product and against the way by the transpose, which it does without."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fasthop.kernels.sparse_linear import by_rows, reference, weight_grad
from fasthop.kernels.sparse_linear.features import SparseFeatures, sparse_linear
from fasthop.kernels.spmm.adjacency import Adjacency


@contextmanager
def at_any_size() -> Iterator[None]:
    """Small layers go by rows, too, in as many parts as they have rows and entries for."""
    with (
        patch.object(by_rows, "MIN_PASSED_BYTES", 0),
        patch.object(by_rows, "ENTRIES_PER_COLUMN", 0),
        patch.object(weight_grad, "ENTRIES_PER_COLUMN", 1),
    ):
        yield


@st.composite
def matrices(draw: st.DrawFn) -> Adjacency:
    """Small: empty rows and columns, one column, entries that are held twice, a row and a column with many."""
    num_rows, num_cols = draw(st.integers(1, 12)), draw(st.integers(1, 9))
    place = st.tuples(st.integers(0, num_rows - 1), st.integers(0, num_cols - 1))
    hub = draw(place)
    places = draw(st.lists(place | st.just(hub), max_size=60))
    places += [(hub[0], i % num_cols) for i in range(draw(st.sampled_from([0, 40])))]
    places += [(i % num_rows, hub[1]) for i in range(draw(st.sampled_from([0, 40])))]
    row, col = torch.tensor(sorted(places), dtype=torch.int64).reshape(-1, 2).unbind(1)
    rowptr = torch.zeros(num_rows + 1, dtype=torch.int64)
    torch.cumsum(torch.bincount(row, minlength=num_rows), 0, out=rowptr[1:])
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    value = torch.randn(col.numel(), generator=generator, dtype=torch.float64)
    return Adjacency(
        rowptr=rowptr,
        col=col.int() if draw(st.booleans()) else col.contiguous(),
        num_cols=num_cols,
        value=value if draw(st.booleans()) else None,
    )


def dense(features: SparseFeatures) -> Tensor:
    matrix = features.matrix
    row = torch.repeat_interleave(torch.arange(matrix.num_rows), matrix.rowptr.diff())
    value = features.value(torch.float64)
    out = torch.zeros(features.shape, dtype=torch.float64)
    ones = torch.ones(features.num_entries, dtype=torch.float64)
    return out.index_put_((row, matrix.col.long()), ones if value is None else value, accumulate=True)


def random_features(
    num_rows: int, num_cols: int, num_entries: int, *, binary: bool = False
) -> SparseFeatures:
    generator = torch.Generator().manual_seed(1)
    row = torch.randint(num_rows, (num_entries,), generator=generator).sort().values
    # Squared, so that low columns are hubs; the last has none.
    col = (torch.rand(num_entries, generator=generator) ** 2 * (num_cols - 1)).int()
    rowptr = torch.zeros(num_rows + 1, dtype=torch.int64)
    torch.cumsum(torch.bincount(row, minlength=num_rows), 0, out=rowptr[1:])
    value = None if binary else torch.randn(num_entries, generator=generator, dtype=torch.float64)
    return SparseFeatures(Adjacency(rowptr=rowptr, col=col, num_cols=num_cols, value=value))


@settings(max_examples=120, deadline=None)
@given(matrices(), st.sampled_from([1, 17]), st.sampled_from([0.0, 0.4]))
def test_equals_a_dense_layer(matrix, width, p):
    generator = torch.Generator().manual_seed(3)
    features = SparseFeatures(matrix).dropout(p, seed=5, dtype=torch.float64)
    x = dense(features)
    weight = torch.randn(width, x.size(1), generator=generator, dtype=torch.float64)
    cotangent = torch.randn(x.size(0), width, generator=generator, dtype=torch.float64)
    mine, theirs = weight.clone().requires_grad_(), weight.clone().requires_grad_()
    expected = reference.sparse_linear(x, theirs)
    expected.backward(cotangent)
    with at_any_size():
        got = sparse_linear(features, mine)
        got.backward(cotangent)
    assert matrix._transposed is None
    torch.testing.assert_close(got, expected)
    assert mine.grad is not None
    assert mine.grad.is_contiguous()
    torch.testing.assert_close(mine.grad, theirs.grad)


@pytest.mark.parametrize(
    ("dtype", "width", "binary"),
    [
        (torch.float32, 300, True),  # more channels than the registers hold at once
        (torch.float32, 64, False),
        (torch.float64, 17, False),
        (torch.bfloat16, 17, False),
    ],
)
def test_the_bits_are_the_same_for_any_number_of_threads(dtype, width, binary):
    features = random_features(500, 20, 20_000, binary=binary)
    matrix = features.matrix
    value = features.value(torch.promote_types(dtype, torch.float32))
    grad = torch.randn(500, width, generator=torch.Generator().manual_seed(2)).to(dtype)
    first, *others = (
        weight_grad.weight_grad(grad, matrix.rowptr, matrix.col, value, 20, threads) for threads in (1, 2, 3)
    )
    assert weight_grad._num_parts(500, 20_000, 20) == 8
    for other in others:
        assert torch.equal(first, other)
    tolerance = {torch.float32: 1e-5, torch.float64: 1e-12, torch.bfloat16: 1e-2}[dtype]
    expected = grad.double().t() @ dense(features)
    scale = float(expected.abs().max())
    torch.testing.assert_close(first.double(), expected, atol=tolerance * scale, rtol=tolerance)


def test_a_strided_gradient_is_read_as_it_is():
    features = random_features(60, 5, 300)
    weight = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    grad = torch.randn(3, 60, dtype=torch.float64).t()
    with at_any_size():
        sparse_linear(features, weight).backward(grad)
    torch.testing.assert_close(weight.grad, grad.t() @ dense(features))


def test_bfloat16_is_summed_in_float32():
    features = SparseFeatures.from_tensor(torch.ones(1000, 1))
    weight = torch.ones(3, 1, dtype=torch.bfloat16, requires_grad=True)
    with at_any_size():
        sparse_linear(features, weight).sum().backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [[1000.0]] * 3


@pytest.mark.parametrize("binary", [False, True])
def test_both_ways_have_one_draw_of_dropout(binary):
    features = random_features(200, 12, 1500, binary=binary)
    dropped = features.dropout(0.6, seed=7, dtype=torch.float64)
    matrix, num_entries = features.matrix, int(features.matrix.rowptr[100])
    head = SparseFeatures(
        Adjacency(
            rowptr=matrix.rowptr[:101],
            col=matrix.col[:num_entries],
            num_cols=12,
            value=None if matrix.value is None else matrix.value[:num_entries],
        )
    )
    for drawn in (dropped, dropped.head_of_draw(head)):
        by_transpose, direct = (torch.ones(4, 12, dtype=torch.float64, requires_grad=True) for _ in range(2))
        grad = torch.randn(drawn.shape[0], 4, dtype=torch.float64)
        with at_any_size():
            sparse_linear(drawn, direct).backward(grad)
        assert drawn.matrix._transposed is None
        sparse_linear(drawn, by_transpose).backward(grad)
        assert drawn.matrix._transposed is not None
        torch.testing.assert_close(direct.grad, by_transpose.grad)
        torch.testing.assert_close(direct.grad, grad.t() @ dense(drawn))


def test_nothing_is_transposed_for_a_frozen_weight():
    features = random_features(30, 6, 100)
    sparse_linear(features, torch.ones(2, 6, dtype=torch.float64))
    with torch.no_grad():
        sparse_linear(features, torch.ones(2, 6, dtype=torch.float64, requires_grad=True))
    assert features.matrix._transposed is None


def test_gradients_by_finite_differences_twice():
    features = random_features(8, 5, 30)
    weight = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    with at_any_size():
        assert torch.autograd.gradcheck(lambda weight: sparse_linear(features, weight), weight)
        # Cubed, so that the gradient itself needs one.
        assert torch.autograd.gradgradcheck(lambda weight: sparse_linear(features, weight) ** 3, weight)


def layer(num_rows: int, num_cols: int, num_entries: int) -> Adjacency:
    rowptr = torch.arange(num_rows + 1) * num_entries // num_rows
    return Adjacency(rowptr=rowptr, col=torch.zeros(num_entries, dtype=torch.int32), num_cols=num_cols)


@pytest.mark.parametrize(
    ("shape", "width", "is_by_rows"),
    [
        ((19717, 500, 988031), 64, True),  # PubMed
        ((19717, 500, 988031), 2048, False),  # the accumulator leaves the cache
        ((2708, 1433, 49216), 64, False),  # Cora: all stays in the cache
        ((20000, 500, 7000), 64, False),  # few entries a column
    ],
)
def test_sizes_decide(shape, width, is_by_rows):
    matrix = layer(*shape)
    weight = torch.empty(width, shape[1])
    assert by_rows.serves(matrix, weight, "auto") == is_by_rows
    assert by_rows.serves(matrix, weight, "numba") == is_by_rows
    assert not by_rows.serves(matrix, weight, "mkl")
    assert not by_rows.serves(matrix, weight.half(), "auto")


def test_values_that_need_a_gradient_go_by_the_transpose():
    matrix = layer(19717, 500, 988031)
    matrix.value = torch.ones(988031, requires_grad=True)
    assert not by_rows.serves(matrix, torch.empty(64, 500), "auto")
