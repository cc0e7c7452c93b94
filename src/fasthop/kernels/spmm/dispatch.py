"""Which implementation serves which shape: measured once a machine, kept, and pinned where bits must stay."""

from __future__ import annotations

import functools
import json
import logging
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import torch
from torch import Tensor

from fasthop.cache import cache_dir
from fasthop.errors import InvalidConfig
from fasthop.kernels.device import check_one_device, gpu_kernels
from fasthop.kernels.spmm import cpu, cusparse, mkl, reference
from fasthop.machine.clock import synchronizer
from fasthop.machine.fingerprint import machine_id

log = logging.getLogger("fasthop.kernels")

IMPLEMENTATIONS = ("auto", "numba", "mkl", "triton", "cusparse", "reference")
# A library (MKL, cuSPARSE) must win by this much, so that two near-equals do not change places from machine to machine.
MARGIN = 0.9
_SECONDS_PER_CHOICE = 0.1
_MAX_ROUNDS = 10
_lock = threading.Lock()


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """What was chosen for one kind of call, and the best time of each candidate.

    shape: the kind of call in words, as `shape_of` gives it. implementation: "numba" or "mkl"; on CUDA "triton" or "cusparse".
    time_us: microseconds by implementation; empty where there was nothing to choose from.
    """

    shape: str
    implementation: str
    time_us: dict[str, float]

    def __post_init__(self) -> None:
        if self.implementation not in IMPLEMENTATIONS[1:]:
            raise InvalidConfig(
                f"an spmm is done by one of {', '.join(IMPLEMENTATIONS[1:])}, and got {self.implementation!r}."
            )


def run(
    x: Tensor, rowptr: Tensor, col: Tensor, value: Tensor | None, reduce: str, implementation: str
) -> Tensor:
    """spmm by the named implementation; "auto" takes the one that `choose` finds. Raises InvalidConfig for another
    name, for one that is another device's, and where a library is asked for what it does not do."""
    device = check_one_device("spmm", x, rowptr, col, value)
    if implementation == "auto":
        implementation = choose(x, rowptr, col, value, reduce).implementation
    if implementation in _DEVICE and _DEVICE[implementation] != device.type:
        raise InvalidConfig(
            f"implementation={implementation!r} is for {_DEVICE[implementation]} tensors, and got them on {device}; take "
            "'auto' or move them."
        )
    if implementation == "numba":
        return cpu.spmm(x, rowptr, col, value, reduce)
    if implementation == "triton":
        return gpu_kernels("fasthop.kernels.spmm.gpu").spmm(x, rowptr, col, value, reduce)
    if implementation in ("mkl", "cusparse"):
        library, name = (mkl, "MKL") if implementation == "mkl" else (cusparse, "cuSPARSE")
        if not library.serves(x, reduce):
            raise InvalidConfig(
                f"{name} does not do reduce={reduce!r} in {x.dtype} here; take implementation={_OURS[device.type]!r} or 'auto'."
            )
        return library.spmm(x, rowptr, col, value, reduce)
    if implementation == "reference":
        return reference.spmm(x, rowptr, col, value, reduce)
    raise InvalidConfig(f"implementation is one of {', '.join(IMPLEMENTATIONS)}, and got {implementation!r}.")


def choose(x: Tensor, rowptr: Tensor, col: Tensor, value: Tensor | None, reduce: str) -> Choice:
    """The choice for this kind of call: known, or read from the machine's cache, or measured now (about 0.1 s, at
    least two calls of each) and kept. Where only one implementation serves, nothing is measured; nor while a CUDA graph
    is captured, which cannot wait for a clock: what was not chosen before is then Triton's."""
    library = mkl if x.device.type == "cpu" else cusparse
    if not library.serves(x, reduce) or col.numel() == 0 or x.numel() == 0:
        return _ONLY[x.device.type]
    # The words of a shape take 4 us to write, on Cora a tenth of a product: what this process has seen goes by numbers.
    key = (
        x.dtype,
        x.size(1),
        value is None,
        col.dtype,
        rowptr.numel().bit_length(),
        x.size(0).bit_length(),
        col.numel().bit_length(),
        torch.get_num_threads(),
        x.device,
    )
    choice = _seen.get(key)
    if choice is None and x.is_cuda and torch.cuda.is_current_stream_capturing():
        return _ONLY["cuda"]
    if choice is None:
        choice = _seen[key] = _known_or_measured(x, rowptr, col, value)
    return choice


def _known_or_measured(x: Tensor, rowptr: Tensor, col: Tensor, value: Tensor | None) -> Choice:
    shape = shape_of(x, rowptr, col, value)
    known = _choices()
    if shape not in known:
        with _lock:
            if shape not in known:
                known[shape] = _measure(shape, x, rowptr, col, value)
                _write(known)
    return known[shape]


def shape_of(x: Tensor, rowptr: Tensor, col: Tensor, value: Tensor | None) -> str:
    """The kind of call: what decides which implementation is quicker, sizes to the nearest power of two."""
    where = (
        f"{torch.get_num_threads()} threads"
        if x.device.type == "cpu"
        else torch.cuda.get_device_name(x.device)
    )
    return (
        f"{str(x.dtype).removeprefix('torch.')} x {x.size(1)}, {'weighted' if value is not None else 'unweighted'}, "
        f"{str(col.dtype).removeprefix('torch.')}, rows 2^{rowptr.numel().bit_length()}, "
        f"columns 2^{x.size(0).bit_length()}, entries 2^{col.numel().bit_length()}, {where}"
    )


def forget() -> None:
    """Forgets the choices of this process, so that the next call reads the machine's cache again."""
    _choices.cache_clear()
    _seen.clear()


def used() -> tuple[Choice, ...]:
    """The choices that this process has gone by so far: what a checkpoint pins, so that a resumed run takes the same bits."""
    return tuple({choice.shape: choice for choice in _seen.values()}.values())


def pin(choices: Iterable[Choice]) -> None:
    """From here on this process goes by these choices for their shapes, whatever the machine's cache says; for its other
    shapes as before. Nothing is written."""
    _choices().update({choice.shape: choice for choice in choices})
    _seen.clear()


_seen: dict[tuple[object, ...], Choice] = {}
_DEVICE = {"numba": "cpu", "mkl": "cpu", "triton": "cuda", "cusparse": "cuda"}
_OURS = {"cpu": "numba", "cuda": "triton"}
_ONLY = {
    device: Choice(shape="any", implementation=implementation, time_us={})
    for device, implementation in _OURS.items()
}


def _measure(shape: str, x: Tensor, rowptr: Tensor, col: Tensor, value: Tensor | None) -> Choice:
    ours, library = ("numba", "mkl") if x.device.type == "cpu" else ("triton", "cusparse")
    candidates: dict[str, Callable[[], Tensor]] = {
        name: lambda name=name: run(x, rowptr, col, value, "sum", name) for name in (ours, library)
    }
    wait = synchronizer(x.device)
    for call in candidates.values():
        call()
    best = dict.fromkeys(candidates, float("inf"))
    end = time.perf_counter() + _SECONDS_PER_CHOICE
    for round_ in range(_MAX_ROUNDS):
        if round_ and time.perf_counter() > end:
            break
        for name, call in candidates.items():
            wait()
            start = time.perf_counter()
            call()
            wait()
            best[name] = min(best[name], (time.perf_counter() - start) * 1e6)
    winner = library if best[library] < MARGIN * best[ours] else ours
    log.debug("spmm of %s: %s (%s)", shape, winner, best)
    return Choice(
        shape=shape, implementation=winner, time_us={name: round(us, 1) for name, us in best.items()}
    )


def _path() -> Path | None:
    try:
        return cache_dir("spmm") / f"{machine_id()}-torch{metadata.version('torch').replace('+', '-')}.json"
    except OSError:
        return None


@functools.cache
def _choices() -> dict[str, Choice]:
    """The machine's choices by shape; empty where there are none or the file is damaged."""
    path = _path()
    try:
        tree = json.loads(path.read_text(encoding="utf-8")) if path is not None else []
        return {entry["shape"]: Choice(**entry) for entry in tree}
    except (OSError, ValueError, TypeError, KeyError):
        return {}


def _write(choices: dict[str, Choice]) -> None:
    """Written beside, then renamed; a cache that cannot be written only costs the next process its time."""
    path = _path()
    if path is None:
        return
    tree = [
        {"shape": choice.shape, "implementation": choice.implementation, "time_us": choice.time_us}
        for choice in choices.values()
    ]
    try:
        with tempfile.NamedTemporaryFile(
            "w", dir=path.parent, delete=False, suffix=".tmp", encoding="utf-8"
        ) as beside:
            json.dump(tree, beside, indent=1)
        os.replace(beside.name, path)
    except OSError as error:
        log.debug("the choice of spmm could not be kept: %s", error)
