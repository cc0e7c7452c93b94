from __future__ import annotations

import time

import pytest
import torch

from fasthop.machine.clock import device_in_use, elapsed_ns, synchronizer


def test_the_device_is_waited_for_before_the_clock_starts_and_before_it_stops():
    events = []
    elapsed_ns(lambda: events.append("call"), lambda: events.append("wait"))
    assert events == ["wait", "call", "wait"]


def test_waiting_counts_as_the_calls_time():
    waited = iter([0.0, 0.01])
    assert elapsed_ns(lambda: None, lambda: time.sleep(next(waited))) >= 10_000_000


def test_the_cpu_has_nothing_to_wait_for():
    assert synchronizer("cpu")() is None
    assert synchronizer(torch.device("cpu"))() is None


def test_asking_for_the_device_does_not_start_cuda():
    if torch.cuda.is_initialized():
        pytest.skip("CUDA is in use already")
    assert device_in_use() == torch.device("cpu")
    assert not torch.cuda.is_initialized()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_kernel_is_waited_for():
    x = torch.rand(8192, 8192, device="cuda")
    assert device_in_use().type == "cuda"
    assert elapsed_ns(lambda: x @ x, synchronizer("cuda")) > elapsed_ns(lambda: x + 0, lambda: None) / 1e6
