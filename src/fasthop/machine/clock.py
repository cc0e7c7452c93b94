"""The clock: wall time in nanoseconds, read when the device has finished what it was given."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def synchronizer(device: torch.device | str) -> Callable[[], None]:
    """A function that returns when `device` has finished its queue; on the CPU it does nothing.

    An accelerator runs behind the host: without waiting for it, a clock reads how fast work is
    handed out, not how fast it is done.
    """
    import torch

    device = torch.device(device)
    if device.type == "cpu":
        return _nothing_to_wait_for
    if device.type == "cuda":
        return lambda: torch.cuda.synchronize(device)
    return lambda: torch.accelerator.synchronize(device)


def device_in_use() -> torch.device:
    """The device that this process has put to work: CUDA's current one once CUDA is initialised
    (which this call never does), else the CPU."""
    import torch

    if torch.cuda.is_available() and torch.cuda.is_initialized():
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def elapsed_ns(call: Callable[[], object], synchronize: Callable[[], None]) -> int:
    """Wall time of `call` in ns: the device's queue is empty when the clock starts and when it stops."""
    synchronize()
    start = perf_counter_ns()
    call()
    synchronize()
    return perf_counter_ns() - start


def _nothing_to_wait_for() -> None:
    return None
