"""Gather against x[index], for every dtype, shape and layout that a node attribute may have."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fasthop.errors import InvalidConfig
from fasthop.kernels.buffers import BufferPool
from fasthop.kernels.gather import reference
from fasthop.kernels.gather.cpu import STREAM_FROM_BYTES, gather_rows
from fasthop.kernels.gather.dispatch import gather

DTYPES = [
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.float16,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
]


@settings(max_examples=120, deadline=None)
@given(
    st.sampled_from(DTYPES),
    st.lists(st.integers(0, 5), max_size=2),
    st.integers(1, 9),
    st.lists(st.integers(0, 8), max_size=20),
    st.integers(0, 3),
)
def test_equals_the_reference(dtype, tail, num_rows, index, offset):
    size = num_rows
    for n in tail:
        size *= n
    # An offset into the storage makes rows start at odd addresses.
    x = torch.randint(0, 100, (size + offset,)).to(dtype)[offset:].view(num_rows, *tail)
    n_id = torch.tensor(index, dtype=torch.int64) % num_rows
    expected = reference.gather(x, n_id)
    pool = BufferPool(2)
    for _ in range(2):
        got = gather(x, n_id, pool=pool)
        assert got.dtype == dtype
        assert torch.equal(got, expected)
        del got


def test_other_dimensions_and_strides():
    x = torch.randn(6, 5, 4)
    n_id = torch.tensor([3, 0, 3])
    assert torch.equal(gather(x, n_id, dim=-1), x[:, :, n_id])
    assert torch.equal(gather(x.transpose(0, 1), n_id), x.transpose(0, 1)[n_id])
    assert torch.equal(gather(x[:, ::2], n_id, pool=BufferPool(1)), x[:, ::2][n_id])
    assert torch.equal(gather(torch.randn(3).expand(6, 3), n_id).std(0), torch.zeros(3))


def test_gradients_reach_x():
    x = torch.randn(4, 3, requires_grad=True)
    gather(x, torch.tensor([1, 1, 2]), pool=BufferPool(1)).sum().backward()
    assert x.grad is not None
    assert x.grad[:, 0].tolist() == [0, 2, 1, 0]


@pytest.mark.parametrize("wrong", [-1, 4])
@pytest.mark.parametrize("x", [torch.zeros(4, 3), torch.zeros(4), torch.zeros(4, 0)])
def test_an_index_out_of_range_is_an_error(x, wrong):
    with pytest.raises((IndexError, RuntimeError)):
        gather(x, torch.tensor([0, wrong]))


def test_gather_rows_names_the_range():
    with pytest.raises(IndexError, match=r"0 .. 3"):
        gather_rows(torch.zeros(4, 3), torch.tensor([4]), torch.zeros(1, 3))


@pytest.mark.parametrize(
    ("width", "dtype", "offset"),
    [
        (64, torch.float32, 0),
        (32, torch.float64, 0),
        (128, torch.bfloat16, 0),
        (64, torch.float32, 1),
        (50, torch.float32, 0),
    ],
)
def test_large_outputs_are_streamed_and_equal(width, dtype, offset):
    """Rows of whole cache lines go past the caches; others, and rows that start elsewhere, do not."""
    num_rows = STREAM_FROM_BYTES // (width * dtype.itemsize) + 1
    x = torch.arange(offset + 1000 * width).to(dtype)[offset:].view(1000, width)
    index = torch.arange(num_rows) * 7 % 1000
    assert torch.equal(gather(x, index, pool=BufferPool(1)), x[index])
    assert torch.equal(gather(x, index), x[index])


def test_what_cannot_be_asked_of_the_gather_is_refused():
    x, index = torch.ones(4, 3), torch.tensor([1])
    with pytest.raises(InvalidConfig, match="'abacus'"):
        gather(x, index, implementation="abacus")
    with pytest.raises(InvalidConfig, match=r"CUDA tensor.*cpu"):
        gather(x, index, implementation="triton")


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("tail", [(), (1,), (3,), (5, 2), (300,)], ids=str)
def test_the_gather_in_triton(dtype, tail):
    x = torch.randint(0, 100, (7, *tail)).to(dtype).cuda()
    index = torch.tensor([3, 0, 6, 6, 1]).cuda()
    assert torch.equal(gather(x, index, implementation="triton"), x[index])
    with pytest.raises(IndexError, match=r"0 \.\. 6"):
        gather(x, torch.tensor([7]).cuda(), implementation="triton")
