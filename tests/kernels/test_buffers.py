"""Memory is used again, and never while anyone can see it."""

from __future__ import annotations

import gc

import pytest
import torch

from fasthop.kernels.buffers import BufferPool


def filled(pool: BufferPool, value: float, n: int = 1000) -> torch.Tensor:
    tensor = pool.tensor("x", torch.float32, (n,))
    tensor.fill_(value)
    return tensor


def test_memory_is_used_again():
    pool = BufferPool(2)
    first = filled(pool, 1)
    place = first.data_ptr()
    del first
    assert filled(pool, 2).data_ptr() == place


@pytest.mark.parametrize(
    "hold",
    [
        lambda t: t,
        lambda t: t[10:20],
        lambda t: t.view(10, 100).t(),
        lambda t: t.detach(),
        lambda t: t.numpy(),
        lambda t: memoryview(t.numpy()),
        lambda t: t.untyped_storage(),
        lambda t: torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(t)),
        lambda t: (torch.ones(1000, requires_grad=True) * t).sum(),
        lambda t: torch.nn.functional.linear(t.view(10, 100), torch.ones(3, 100, requires_grad=True)),
    ],
    ids=[
        "itself",
        "slice",
        "view",
        "detached",
        "numpy",
        "memoryview",
        "storage",
        "dlpack",
        "saved_mul",
        "saved_linear",
    ],
)
def test_not_while_it_is_seen(hold):
    pool = BufferPool(2)
    first = filled(pool, 1)
    place = first.data_ptr()
    held = hold(first)
    del first
    gc.collect()
    others = [filled(pool, 2) for _ in range(3)]
    assert all(other.data_ptr() != place for other in others)
    del held
    gc.collect()
    del others
    assert place in [t.data_ptr() for t in [filled(pool, 3), filled(pool, 3)]]


def test_saved_for_backward_keeps_its_values():
    pool = BufferPool(1)
    weight = torch.ones(1000, requires_grad=True)
    losses = [(weight * filled(pool, i)).sum() for i in range(4)]
    sum(losses).backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [6.0] * 1000


def test_keeping_everything_is_right():
    pool = BufferPool(2)
    kept = [filled(pool, i) for i in range(10)]
    assert [t.unique().tolist() for t in kept] == [[i] for i in range(10)]


def test_no_buffers_no_reuse_and_no_spare_room():
    pool = BufferPool(0)
    assert filled(pool, 1).untyped_storage().nbytes() == 4000


def test_growing_keeps_what_was_written():
    buffer = BufferPool(1).take("x", 80)
    buffer.array("int64")[:10] = range(10)
    buffer.grow(8_000, keep=80)
    assert buffer.num_bytes >= 8_000
    assert buffer.array("int64")[:10].tolist() == list(range(10))


def test_torch_counts_the_memory():
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        pool = BufferPool(1)
        filled(pool, 1, n=1_000_000)
    assert sum(event.self_cpu_memory_usage for event in profiled.key_averages()) >= 4_000_000
