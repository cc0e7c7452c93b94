"""Which implementation serves which shape: measured once a machine, kept, and pinned where bits must stay."""

from __future__ import annotations

import functools
import json
import logging
import os
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import torch
from torch import Tensor

from fasthop.cache import cache_dir
from fasthop.errors import InvalidConfig
from fasthop.kernels.spmm import cpu, mkl, reference
from fasthop.machine.fingerprint import machine_id

log = logging.getLogger("fasthop.kernels")

IMPLEMENTATIONS = ("auto", "numba", "mkl", "reference")
# MKL must win by this much, so that two near-equals do not change places from machine to machine.
MARGIN = 0.9
_SECONDS_PER_CHOICE = 0.1
_MAX_ROUNDS = 10
_lock = threading.Lock()


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """What was chosen for one kind of call, and the best time of each candidate.

    shape: the kind of call in words, as `shape_of` gives it. implementation: "numba" or "mkl".
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
    name, and where MKL is asked for what it does not do."""
    for tensor in (x, rowptr, col, value):
        if tensor is not None and tensor.device.type != "cpu":
            raise InvalidConfig(
                f"spmm has kernels for the CPU, and got a tensor on {tensor.device}; move x and the matrix to the CPU."
            )
    if implementation == "auto":
        implementation = choose(x, rowptr, col, value, reduce).implementation
    if implementation == "numba":
        return cpu.spmm(x, rowptr, col, value, reduce)
    if implementation == "mkl":
        if not mkl.serves(x, reduce):
            raise InvalidConfig(
                f"MKL does not do reduce={reduce!r} in {x.dtype} here; take implementation='numba' or 'auto'."
            )
        return mkl.spmm(x, rowptr, col, value, reduce)
    if implementation == "reference":
        return reference.spmm(x, rowptr, col, value, reduce)
    raise InvalidConfig(f"implementation is one of {', '.join(IMPLEMENTATIONS)}, and got {implementation!r}.")


def choose(x: Tensor, rowptr: Tensor, col: Tensor, value: Tensor | None, reduce: str) -> Choice:
    """The choice for this kind of call: known, or read from the machine's cache, or measured now (about 0.1 s, at
    least two calls of each) and kept. Where only one implementation serves, nothing is measured."""
    if not mkl.serves(x, reduce) or col.numel() == 0 or x.numel() == 0:
        return _ONLY_NUMBA
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
    )
    choice = _seen.get(key)
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
    return (
        f"{str(x.dtype).removeprefix('torch.')} x {x.size(1)}, {'weighted' if value is not None else 'unweighted'}, "
        f"{str(col.dtype).removeprefix('torch.')}, rows 2^{rowptr.numel().bit_length()}, "
        f"columns 2^{x.size(0).bit_length()}, entries 2^{col.numel().bit_length()}, {torch.get_num_threads()} threads"
    )


def forget() -> None:
    """Forgets the choices of this process, so that the next call reads the machine's cache again."""
    _choices.cache_clear()
    _seen.clear()


_seen: dict[tuple[object, ...], Choice] = {}
_ONLY_NUMBA = Choice(shape="any", implementation="numba", time_us={})


def _measure(shape: str, x: Tensor, rowptr: Tensor, col: Tensor, value: Tensor | None) -> Choice:
    candidates: dict[str, Callable[[], Tensor]] = {
        "numba": lambda: cpu.spmm(x, rowptr, col, value, "sum"),
        "mkl": lambda: mkl.spmm(x, rowptr, col, value, "sum"),
    }
    for call in candidates.values():
        call()
    best = dict.fromkeys(candidates, float("inf"))
    end = time.perf_counter() + _SECONDS_PER_CHOICE
    for round_ in range(_MAX_ROUNDS):
        if round_ and time.perf_counter() > end:
            break
        for name, call in candidates.items():
            start = time.perf_counter()
            call()
            best[name] = min(best[name], (time.perf_counter() - start) * 1e6)
    winner = "mkl" if best["mkl"] < MARGIN * best["numba"] else "numba"
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
