"""What torch's profiler cannot see by itself, made visible to it for the length of a trace: compiled kernels and loaders.

A numba kernel, a stack's compiled passes and a sampler are no operators of torch. While `recorded()` is open, the functions
through which they are called stand wrapped in ranges of the profiler; afterwards they are what they were. Only what has
been imported already is wrapped: what a step does not use is not loaded for it.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from fasthop.machine.trace import record_range

SAMPLE, GATHER, LOADER, FUSED_STEP, REPLAY, EPOCH = (
    "fasthop_range::sample",
    "fasthop_range::gather",
    "fasthop_range::loader",
    "fasthop_range::fused_step",
    "fasthop_range::replay",
    "fasthop_range::epoch",
)
SPMM, WEIGHT_GRAD = "fasthop::spmm", "fasthop::weight_grad"
PASS = "fasthop_stack::"
LOSS_PASS, UPDATE_PASSES = PASS + "cross_entropy", (PASS + "adam", PASS + "sgd")

# Module, the owner of the function in it ("" for the module itself), the function, and the range around it.
_CALLS = (
    ("fasthop.kernels.spmm.dispatch", "", "run", SPMM),
    ("fasthop.kernels.sparse_linear.by_rows", "", "weight_grad", WEIGHT_GRAD),
    ("fasthop.kernels.sample.cpu", "NeighborSampler", "sample", SAMPLE),
    ("fasthop.train.neighbor_loader", "", "sliced", GATHER),
    ("fasthop.train.fused", "FusedStep", "__call__", FUSED_STEP),
    ("fasthop.train.captured", "CapturedStep", "__call__", REPLAY),
    ("torch_geometric.loader.node_loader", "NodeLoader", "filter_fn", GATHER),
    ("torch_geometric.loader.node_loader", "NodeLoader", "collate_fn", SAMPLE),
)
_ITERATED = (
    ("fasthop.train.batching", "SampledBatches"),
    ("fasthop.train.neighbor_loader", "NeighborLoader"),
)


@dataclass(slots=True)
class Elsewhere:
    """Nanoseconds that ranges took on other threads than the one that trains, by the range's name."""

    ns: dict[str, int] = field(default_factory=dict)


@contextmanager
def recorded() -> Iterator[Elsewhere]:
    """Wraps what is listed above in ranges while it is open."""
    elsewhere = Elsewhere()
    here = threading.get_ident()
    before: list[tuple[Any, str, Any]] = []

    def replace(owner: Any, name: str, wrap: Callable[[Any], Any]) -> None:
        original = vars(owner)[name]
        before.append((owner, name, original))
        setattr(owner, name, wrap(original))

    try:
        for module, owner, name, range_name in _CALLS:
            found = _owner(module, owner, name)
            if found is not None:
                replace(found, name, lambda call, label=range_name: _called(call, label, here, elsewhere))
        for module, owner in _ITERATED:
            found = _owner(module, owner, "__iter__")
            if found is not None:
                replace(found, "__iter__", _iterated)
        walk = _owner("fasthop.kernels.stack.walk", "Walk", "__call__")
        if walk is not None:
            replace(walk, "__call__", _pass_by_pass)
        yield elsewhere
    finally:
        for owner, name, original in reversed(before):
            setattr(owner, name, original)


def _owner(module: str, owner: str, name: str) -> Any:
    """What has the function as its own attribute; None where it is not loaded, or is made otherwise by now."""
    found = sys.modules.get(module)
    if found is not None and owner:
        found = getattr(found, owner, None)
    return found if found is not None and name in vars(found) else None


def _called(call: Any, label: str, here: int, elsewhere: Elsewhere) -> Any:
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() == here:
            with record_range(label):
                return call(*args, **kwargs)
        start = time.perf_counter_ns()
        try:
            return call(*args, **kwargs)
        finally:
            elsewhere.ns[label] = elsewhere.ns.get(label, 0) + time.perf_counter_ns() - start

    return wrapped


def _iterated(iterate: Any) -> Any:
    def wrapped(self: Any) -> Iterator[Any]:
        batches = iterate(self)
        while True:
            with record_range(LOADER):
                batch = next(batches, batches)
            if batch is batches:
                return
            yield batch

    return wrapped


def _pass_by_pass(call: Any) -> Any:
    """A stack's walk in walks of one pass each: the same passes in the same order, each in a range of its own."""
    from fasthop.kernels.stack import walk

    def wrapped(self: Any) -> None:
        words, stride = self._words, self.entries.strides[0]
        first, count = words[walk.ENTRIES], words[walk.NUM_ENTRIES]
        start = (first - self.entries.ctypes.data) // stride
        try:
            words[walk.NUM_ENTRIES] = 1
            for place in range(count):
                words[walk.ENTRIES] = first + place * stride
                with record_range(PASS + _pass_name(int(self.entries[start + place, 0]))):
                    call(self)
        finally:
            words[walk.ENTRIES], words[walk.NUM_ENTRIES] = first, count

    return wrapped


def _pass_name(address: int) -> str:
    """The name of the pass whose C function lies at an address: that of the function which made it."""
    name = _PASS_NAMES.get(address)
    if name is None:
        from fasthop.kernels.stack import job

        for function in job._KEPT:
            made = function._pyfunc
            maker = made.__qualname__.partition(".")[0].strip("_").removesuffix("_wide")
            if maker == "wide":  # the wide form of a module's only pass
                maker = (
                    made.__module__.rpartition(".")[2].removesuffix("_pass").replace("loss", "cross_entropy")
                )
            _PASS_NAMES[function.address] = maker
        name = _PASS_NAMES.setdefault(address, "pass")
    return name


_PASS_NAMES: dict[int, str] = {}
