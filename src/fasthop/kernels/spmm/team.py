"""A team of threads for one C function: torch's own threads where they can be had.

torch's operators run on the threads of an OpenMP library, which spin for some milliseconds after each
parallel operator. A pool of our own would fight them for the cores. So the team is asked of that very library
(`GOMP_parallel`, which libgomp and the LLVM and Intel libraries export on Linux): on 2 cores, waking
it costs about 2 us. Elsewhere Python threads call the function; ctypes releases the GIL.
Several threads may ask for a team at once: each gets one of its own.
"""

from __future__ import annotations

import ctypes
import functools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

_WORK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def run(function: int, job: int, num_threads: int) -> None:
    """Calls the C function at address `function` with the address `job` on num_threads threads, and waits for all."""
    if num_threads > 1:
        parallel = gomp_parallel()
        if parallel is not None:
            parallel(function, job, num_threads, 0)
            return
        others = [_pool(num_threads).submit(_call(function), job) for _ in range(num_threads - 1)]
        _call(function)(job)
        for other in others:
            other.result()
        return
    _call(function)(job)


@functools.cache
def _call(function: int) -> Any:
    return _WORK(function)


@functools.cache
def _pool(num_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(num_threads - 1, thread_name_prefix="fasthop-spmm")


@functools.cache
def gomp_parallel() -> Any:
    """`GOMP_parallel` of the OpenMP library that torch has loaded; None where there is none."""
    if not torch.backends.openmp.is_available():
        return None
    try:
        loaded = {line.split(maxsplit=5)[-1] for line in Path("/proc/self/maps").read_text().splitlines()}
    except OSError:
        return None
    for path in sorted(loaded):
        name = path.strip().rpartition("/")[2]
        if name.startswith(("libgomp", "libiomp5", "libomp")) and ".so" in name:
            try:
                parallel = ctypes.CDLL(path.strip()).GOMP_parallel
            except (OSError, AttributeError):
                continue
            parallel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
            parallel.restype = None
            return parallel
    return None
