"""The peak of live memory while a step runs, measured in a pass of its own.

On the CPU torch counts nothing by itself, but its allocator reports every block to the profiler,
so the peak is found by replaying those reports: exact to the byte. docs/design/measure.md says how
and what is not seen.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from fasthop.errors import InvalidConfig
from fasthop.machine.clock import synchronizer
from fasthop.machine.live import Range, live_ranges, num_bytes, resident_ranges
from fasthop.machine.trace import USER_SCOPES, profiled, refuse_running_profiler

_CUDA_BLOCK_BYTES = 512  # CUDA's caching allocator rounds every block up to a multiple of it


@dataclass(frozen=True, kw_only=True, slots=True)
class PeakMemory:
    """The peak of live bytes over the resident inputs while a step runs.

    peak_bytes: rest_bytes + transient_bytes.
    rest_bytes: what is alive between two steps and not a resident input: parameters, gradients,
        the optimiser's state, caches, and whatever else this process keeps in tensors and arrays.
    transient_bytes: how far live memory rises above that while the step runs, NumPy's part included.
    numpy_bytes: NumPy's (and Python objects') part of transient_bytes: 0 on an accelerator.
    peak_reserved_bytes: what CUDA's caching allocator held at its peak; None on the CPU.
    """

    peak_bytes: int
    rest_bytes: int
    transient_bytes: int
    numpy_bytes: int
    peak_reserved_bytes: int | None = None


def measure_peak(
    call: Callable[[], object], *, resident: Iterable[Any] = (), device: torch.device | str
) -> PeakMemory:
    """Runs `call` twice and returns the peak of live bytes over the resident inputs in the second run.

    call: one step or one epoch, in a steady state: it has run before, and leaves alive what it
        found alive. Never put it under a clock at the same time.
    resident: tensors (dense or sparse) and NumPy arrays that are inputs: x, edge_index, y, masks. Their
        memory is not counted; their gradients' is.
    device: where the step computes. On CUDA only that device's memory is counted, as its caching
        allocator reports it; on the CPU, torch's allocator and what is reported to tracemalloc.

    CPU: torch's and NumPy's peaks are added, which is an upper bound where they fall in different
    moments. Not seen: blocks of other threads and processes, numba's own arrays, and scratch space
    inside oneDNN, MKL and OpenMP; `process_peak_bytes` has those.

    Raises InvalidConfig where a torch profiler is running already, or where the device's memory
    cannot be measured; what `call` raises passes through.
    """
    device = torch.device(device)
    resident = tuple(resident)
    if device.type == "cuda":
        return _cuda_peak(call, resident, device)
    if device.type != "cpu":
        raise InvalidConfig(
            f"peak memory can be measured on 'cpu' and 'cuda', and got device {str(device)!r}; "
            "leave the memory pass out there."
        )
    return _cpu_peak(call, resident)


def _cpu_peak(call: Callable[[], object], resident: tuple[Any, ...]) -> PeakMemory:
    refuse_running_profiler()
    device = torch.device("cpu")
    highest_traced = 0

    def watched() -> None:
        nonlocal highest_traced
        call()
        highest_traced = tracemalloc.get_traced_memory()[1]  # the profiler's own reports come after it

    started_here = not tracemalloc.is_tracing()
    if started_here:
        tracemalloc.start(1)
    try:
        # The allocator knows the size of a freed block only if it reported the block's birth. The
        # first run makes the blocks that the second one replaces (gradients), so that the second
        # run's frees are all seen.
        _torch_events(call, quiet=True)
        gc.collect()
        inputs = resident_ranges(resident, device)
        rest_bytes = num_bytes(live_ranges(device) + inputs) - num_bytes(inputs)
        tracemalloc.reset_peak()
        level = tracemalloc.get_traced_memory()[0]
        torch_bytes = _highest(_torch_events(watched))
        numpy_bytes = max(0, highest_traced - level)
    finally:
        if started_here:
            tracemalloc.stop()
    transient_bytes = torch_bytes + numpy_bytes
    return PeakMemory(
        peak_bytes=rest_bytes + transient_bytes,
        rest_bytes=rest_bytes,
        transient_bytes=transient_bytes,
        numpy_bytes=numpy_bytes,
    )


def _torch_events(call: Callable[[], object], *, quiet: bool = False) -> list[int]:
    """Runs `call` and returns the size in bytes of every block that torch's CPU allocator gave to
    this thread (positive) and took back (negative), in order of time.

    torch.profiler.profile would record every operator too, and build its tables from them; here
    only user scopes are recorded beside the allocations, which keeps the pass within about twice
    the step's time (20,000 reports: 0.12 s to close the profiler, against 0.27 s).
    """
    result = profiled(call, "cpu", memory=True, shapes=False, scopes=USER_SCOPES, quiet=quiet)
    reports: list[Any] = result.events()  # torch's stub of them lacks nbytes
    events = [(e.start_ns(), e.nbytes()) for e in reports if e.name() == "[memory]"]
    events.sort(key=lambda event: event[0])
    return [size for _, size in events]


def _highest(changes: Iterable[int]) -> int:
    """The highest level that a running sum of changes reaches, and 0 at the least."""
    level = highest = 0
    for change in changes:
        level += change
        highest = max(highest, level)
    return highest


def _cuda_peak(call: Callable[[], object], resident: tuple[Any, ...], device: torch.device) -> PeakMemory:
    """CUDA's caching allocator counts live bytes itself; only the resident inputs must be taken off."""
    synchronize = synchronizer(device)
    call()
    synchronize()
    gc.collect()
    inputs_bytes = sum(_cuda_block_bytes(block) for block in set(resident_ranges(resident, device)))
    level = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    call()
    synchronize()
    transient_bytes = torch.cuda.max_memory_allocated(device) - level
    rest_bytes = max(0, level - inputs_bytes)
    return PeakMemory(
        peak_bytes=rest_bytes + transient_bytes,
        rest_bytes=rest_bytes,
        transient_bytes=transient_bytes,
        numpy_bytes=0,
        peak_reserved_bytes=torch.cuda.max_memory_reserved(device),
    )


def _cuda_block_bytes(block: Range) -> int:
    start, end = block
    return -(-(end - start) // _CUDA_BLOCK_BYTES) * _CUDA_BLOCK_BYTES
