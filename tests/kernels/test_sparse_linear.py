"""sparse_linear against a dense linear layer: forward, gradients, dropout, every way that features come in."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fasthop.errors import InvalidConfig, InvalidGraph
from fasthop.kernels.sparse_linear import reference
from fasthop.kernels.sparse_linear.entry_dropout import entry_dropout
from fasthop.kernels.sparse_linear.features import SparseFeatures, sparse_linear
from fasthop.kernels.spmm import dispatch


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    """Choices that are measured here go into a cache of the test's own."""
    monkeypatch.setenv("FASTHOP_CACHE", str(tmp_path))
    dispatch.forget()
    yield
    dispatch.forget()


def bag_of_words(num_nodes: int, num_features: int, seed: int, *, binary: bool = False) -> Tensor:
    """Mostly zeros; an empty row, an empty column where there is room."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(num_nodes, num_features, generator=generator, dtype=torch.float64)
    x = x * (torch.rand(num_nodes, num_features, generator=generator) < 0.2)
    if num_nodes > 1 and num_features > 1:
        x[-1], x[:, -1] = 0, 0
    return (x != 0).double() if binary else x


def compare(
    device: str, mine: SparseFeatures, theirs: Tensor, width: int, dtype: torch.dtype, has_bias: bool
) -> None:
    """The sparse layer on the device and the dense one on the CPU, with their gradients."""
    generator = torch.Generator().manual_seed(3)
    weight = torch.randn(width, theirs.size(1), generator=generator).to(dtype)
    bias = torch.randn(width, generator=generator).to(dtype) if has_bias else None
    leaves = [
        [t.to(where, copy=True).requires_grad_() for t in (weight, bias) if t is not None]
        for where in (device, "cpu")
    ]
    got = sparse_linear(mine, *leaves[0])
    expected = reference.sparse_linear(theirs.to(dtype), *leaves[1])
    torch.testing.assert_close(got.cpu(), expected)
    cotangent = torch.randn(got.shape, generator=generator).to(dtype)
    got.backward(cotangent.to(device))
    expected.backward(cotangent)
    for a, b in zip(*leaves, strict=True):
        assert a.grad is not None
        torch.testing.assert_close(a.grad.cpu(), b.grad)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 12),
    st.integers(1, 15),
    st.sampled_from([1, 16, 17]),
    st.integers(0, 10**6),
    st.booleans(),
    st.booleans(),
)
def test_equals_a_dense_layer(device, num_nodes, num_features, width, seed, binary, has_bias):
    x = bag_of_words(num_nodes, num_features, seed, binary=binary)
    compare(device, SparseFeatures.from_tensor(x.to(device)), x, width, torch.float64, has_bias)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("layout", ["dense", "coo", "csr"])
@pytest.mark.parametrize("binary", [False, True])
def test_every_layout(device, dtype, layout, binary):
    x = bag_of_words(20, 33, 1, binary=binary).to(dtype)
    given_as = {"dense": x, "coo": x.to_sparse_coo(), "csr": x.to_sparse_csr()}[layout]
    features = SparseFeatures.from_tensor(given_as.to(device))
    assert features.shape == (20, 33)
    assert features.num_entries == int((x != 0).sum())
    assert (features.matrix.value is None) == binary
    compare(device, features, x, 7, dtype, True)


def test_entries_held_twice_are_added(device):
    twice = torch.sparse_coo_tensor(torch.tensor([[0, 0], [1, 1]]), torch.tensor([2.0, 3.0]), (2, 3))
    compare(device, SparseFeatures.from_tensor(twice.to(device)), twice.to_dense(), 4, torch.float32, False)


def test_bfloat16_weights_are_summed_in_float32():
    features = SparseFeatures.from_tensor(torch.ones(1, 1000))
    assert sparse_linear(features, torch.ones(3, 1000, dtype=torch.bfloat16)).tolist() == [[1000.0] * 3]


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("binary", [False, True])
def test_dropout_is_one_mask_for_output_and_gradient(device, p, binary):
    x = bag_of_words(30, 40, 2, binary=binary)
    features = SparseFeatures.from_tensor(x.to(device))
    row, col = x.nonzero(as_tuple=True)
    dropped = features.dropout(p, seed=11, dtype=torch.float64)
    keep = torch.zeros(x.shape, dtype=torch.bool)
    keep[row, col] = entry_dropout(torch.tensor([11]), row.numel(), p, None, torch.float64) != 0
    for _ in range(2):  # two consumers
        compare(device, dropped, reference.dropout(x, keep, p), 5, torch.float64, True)


def test_a_given_mask(device):
    x = bag_of_words(30, 40, 2)
    features = SparseFeatures.from_tensor(x.to(device))
    keep = torch.rand(x.shape, generator=torch.Generator().manual_seed(0)) < 0.7
    masked = features.masked(keep[x.nonzero(as_tuple=True)].to(device), 0.3)
    compare(device, masked, reference.dropout(x, keep, 0.3), 5, torch.float64, False)


def test_dropout_keeps_the_stated_share_and_seeds_are_independent():
    num_entries, p = 200_000, 0.3
    masks = [
        entry_dropout(torch.tensor([seed]), num_entries, p, None, torch.float32) != 0
        for seed in (0, 1, 2, -5)
    ]
    sigma = (p * (1 - p) / num_entries) ** 0.5
    for mask in masks:
        assert abs(float(mask.double().mean()) - (1 - p)) < 5 * sigma
    expected = (1 - p) ** 2
    for shift in (0, 1):
        both = masks[0][shift:] & masks[1][: num_entries - shift]
        assert (
            abs(float(both.double().mean()) - expected) < 5 * (expected * (1 - expected) / num_entries) ** 0.5
        )
    assert torch.equal(masks[0], entry_dropout(torch.tensor([0]), num_entries, p, None, torch.float32) != 0)


def test_the_transpose_asks_for_the_same_places():
    perm = torch.randperm(1000, generator=torch.Generator().manual_seed(0))
    plain = entry_dropout(torch.tensor([4]), 1000, 0.5, None, torch.float32)
    for order in (perm, perm.int()):
        assert torch.equal(entry_dropout(torch.tensor([4]), 1000, 0.5, order, torch.float32), plain[perm])


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("seed", [0, -5, 2**62 + 12345])
def test_the_draws_are_equal_on_both_devices(seed, dtype):
    perm = torch.randperm(1000, generator=torch.Generator().manual_seed(0))
    for p in (0.1, 0.5, 1.0):
        for order in (None, perm, perm.int()):
            drawn = [
                entry_dropout(
                    torch.tensor([seed], device=where),
                    1000,
                    p,
                    None if order is None else order.to(where),
                    dtype,
                )
                for where in ("cpu", "cuda")
            ]
            assert torch.equal(drawn[0], drawn[1].cpu())


def test_torchs_seed_decides_where_none_is_given():
    features = SparseFeatures.from_tensor(bag_of_words(30, 40, 2))
    weight = torch.randn(4, 40)
    torch.manual_seed(5)
    first, second = (sparse_linear(features.dropout(0.5), weight) for _ in range(2))
    torch.manual_seed(5)
    again = sparse_linear(features.dropout(0.5), weight)
    assert torch.equal(first, again)
    assert not torch.equal(first, second)


def test_no_dropout_is_the_features_themselves():
    features = SparseFeatures.from_tensor(bag_of_words(3, 4, 2))
    assert features.dropout(0.0) is features


def test_gradients_by_finite_differences_with_dropout():
    features = SparseFeatures.from_tensor(bag_of_words(6, 8, 2)).dropout(0.4, seed=1, dtype=torch.float64)
    weight = torch.randn(3, 8, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda weight, bias: sparse_linear(features, weight, bias), (weight, bias)
    )


def test_columns_that_no_node_uses_have_a_gradient_of_zero():
    x = bag_of_words(6, 8, 2)
    weight = torch.randn(3, 8, dtype=torch.float64, requires_grad=True)
    sparse_linear(SparseFeatures.from_tensor(x), weight).sum().backward()
    assert weight.grad is not None
    assert weight.grad.layout == torch.strided
    assert torch.equal(weight.grad[:, -1], torch.zeros(3, dtype=torch.float64))


def test_the_operator_keeps_torchs_rules():
    perm = torch.arange(10).flip(0)
    torch.library.opcheck(entry_dropout, (torch.tensor([3]), 10, 0.5, perm, torch.float32))


def test_torch_compile_keeps_it_whole():
    features = SparseFeatures.from_tensor(bag_of_words(6, 8, 2).float())
    assert features.matrix.transposed
    weight = torch.randn(3, 8, requires_grad=True)

    def step(weight: Tensor) -> Tensor:
        return sparse_linear(features, weight, implementation="numba").relu().sum()

    expected = torch.autograd.grad(step(weight), weight)[0]
    compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(torch.autograd.grad(compiled(weight), weight)[0], expected)


def test_what_cannot_be_is_refused():
    features = SparseFeatures.from_tensor(torch.eye(3))
    with pytest.raises(InvalidConfig, match=r"3 features.*\[2, 4\]"):
        sparse_linear(features, torch.zeros(2, 4))
    for p in (-0.1, 1.5):
        with pytest.raises(InvalidConfig, match=str(p)):
            features.dropout(p)
    with pytest.raises(InvalidConfig, match=r"3 non-zeros.*\[4\]"):
        features.masked(torch.ones(4, dtype=torch.bool), 0.5)
    with pytest.raises(InvalidConfig, match=r"1\.0"):
        features.masked(torch.ones(3, dtype=torch.bool), 1.0)
    for x in (torch.ones(3), torch.ones(3, 2, dtype=torch.int64)):
        with pytest.raises(InvalidGraph, match=str(x.dtype)):
            SparseFeatures.from_tensor(x)
