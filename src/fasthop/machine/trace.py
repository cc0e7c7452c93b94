"""A trace: what torch's profiler saw while a call ran: operators, ranges, kernels of a device, and blocks of memory.

torch.profiler.profile builds tables and links from the same reports, which takes longer than the steps that are looked at
here; and it writes lines to the standard error that nothing turns off.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch._C._autograd import (
    _disable_profiler,
    _enable_profiler,
    _prepare_profiler,
    _profiler_enabled,
)
from torch._C._profiler import (
    ProfilerActivity,
    ProfilerConfig,
    ProfilerState,
    RecordScope,
    _EventType,
    _ExperimentalConfig,
)
from torch._C._profiler import _RecordFunctionFast as record_range  # noqa: F401 (offered to others)

from fasthop.errors import InvalidConfig

_PROFILER_NOISE = re.compile(
    rb"Memory block of unknown size was allocated before|^USDT:.*profiler_(start|stop)"
)


@dataclass(frozen=True, slots=True)
class Event:
    """An operator, a range or a device's kernel: name, start and end in ns of one clock, the thread by a number.

    correlation: an operator's own number, and a device event's that of the operator that launched it; 0 without.
    on_device: whether it ran on an accelerator.
    rows: the first size of each tensor that the operator was given, 0-d ones left out.
    """

    name: str
    start_ns: int
    end_ns: int
    thread: int = 1
    correlation: int = 0
    on_device: bool = False
    rows: tuple[int, ...] = ()


Call = tuple[str, tuple[tuple[int, ...], ...]]
"""An operator's name, and the shapes of the tensors that it was given."""


@dataclass(frozen=True, slots=True)
class Block:
    """An allocation (num_bytes above 0) or a free (below) at an address, and the names of the operators around it with the
    shapes of the tensors they were given, the innermost first."""

    time_ns: int
    address: int
    num_bytes: int
    operators: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class BlockTrace:
    """A traced run's operators and ranges, the blocks of its device, both in order of time, and the different calls of operators."""

    events: list[Event]
    blocks: list[Block]
    calls: set[Call]


def trace(call: Callable[[], object], device: torch.device | str) -> list[Event]:
    """Runs `call` once and returns what ran, by the start: operators and ranges of every thread that torch's
    profiler follows (this one and autograd's), and what ran on `device` where it is an accelerator.

    Raises InvalidConfig where a torch profiler is running already; what `call` raises passes through.
    """
    result = profiled(call, device, memory=False, shapes=True)
    events = []
    for one in result.events():
        on_device = "CPU" not in str(one.device_type())
        correlation = one.linked_correlation_id() if on_device else one.correlation_id()
        rows = tuple(shape[0] for shape in one.shapes() if shape)
        span = (one.start_ns(), one.end_ns())
        events.append(Event(one.name(), *span, one.start_thread_id(), int(correlation), on_device, rows))
    events.sort(key=lambda event: (event.start_ns, -event.end_ns))
    return events


def trace_blocks(
    call: Callable[[], object], device: torch.device | str, *, quiet: bool = False
) -> BlockTrace:
    """Runs `call` once; returns its operators and ranges, and every block that the device's allocator gave and took
    back. quiet: keeps the profiler's own lines off the standard error for the whole call; else only
    while it is switched on and off."""
    device = torch.device(device)
    result = profiled(call, device, memory=True, shapes=True, quiet=quiet)
    found = BlockTrace([], [], set())
    for root in result.experimental_event_tree():
        _descend(root, device.type, found)
    found.events.sort(key=lambda event: (event.start_ns, -event.end_ns))
    found.blocks.sort(key=lambda block: block.time_ns)
    return found


def profiled(
    call: Callable[[], object],
    device: torch.device | str,
    *,
    memory: bool,
    shapes: bool,
    scopes: set[Any] | None = None,
    quiet: bool = False,
) -> Any:
    """Runs `call` under torch's profiler and returns its raw result. scopes: what is recorded; None: all."""
    refuse_running_profiler()
    kinds = {ProfilerActivity.CPU}
    if torch.device(device).type == "cuda":
        kinds.add(ProfilerActivity.CUDA)
    config = ProfilerConfig(ProfilerState.KINETO, shapes, memory, False, False, False, _ExperimentalConfig())
    with without_profiler_noise():
        _prepare_profiler(config, kinds)
        enable: Any = _enable_profiler  # its stub lacks the third argument: what is recorded
        enable(config, kinds, scopes or set())
    try:
        if quiet:
            with without_profiler_noise():
                call()
        else:
            call()
    finally:
        with without_profiler_noise():
            result = _disable_profiler()
    return result


def refuse_running_profiler() -> None:
    """Raises InvalidConfig where a torch profiler is running: there can be but one."""
    if _profiler_enabled():
        raise InvalidConfig(
            "nothing can be traced while a torch profiler is running; leave its `with` block first."
        )


USER_SCOPES = {RecordScope.USER_SCOPE}


def _descend(root: Any, device: str, found: BlockTrace) -> None:
    """Walks a tree of the profiler's, without recursion: a compiled step nests deeper than Python may."""
    waiting: list[tuple[Any, tuple[Call, ...]]] = [(root, ())]
    while waiting:
        node, around = waiting.pop()
        kind = node.tag
        if kind == _EventType.Allocation:
            fields = node.typed[1]
            if fields.device.type == device:
                found.blocks.append(Block(node.start_time_ns, fields.ptr, fields.alloc_size, around))
            continue
        if kind == _EventType.TorchOp:
            found.events.append(Event(node.name, node.start_time_ns, node.end_time_ns, node.start_tid))
            call = (node.name, _shapes(node.typed[1].inputs))
            found.calls.add(call)
            around = (call, *around)
        waiting += [(child, around) for child in node.children]


def _shapes(inputs: Any) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(one.sizes) for one in inputs if hasattr(one, "sizes"))


@contextmanager
def without_profiler_noise() -> Iterator[None]:
    """Keeps the profiler's own lines off the standard error: C++ writes them to the file descriptor,
    and no setting of this process turns them off. All other lines are passed on at the end."""
    if sys.stderr is not None:
        sys.stderr.flush()
    try:
        file = tempfile.TemporaryFile()  # noqa: SIM115 (closed by the `with` below)
    except OSError:  # nowhere to keep lines: then all are seen
        yield
        return
    with file as kept:
        try:
            original = os.dup(2)
        except OSError:  # no standard error at all
            yield
            return
        os.dup2(kept.fileno(), 2)
        try:
            yield
        finally:
            if sys.stderr is not None:
                sys.stderr.flush()
            os.dup2(original, 2)
            os.close(original)
            kept.seek(0)
            for line in kept:
                if not _PROFILER_NOISE.search(line):
                    os.write(2, line)
