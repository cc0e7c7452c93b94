"""The one compiled call: a walk over the passes of a tape, each called in turn, by a team of threads where it pays."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np
import torch
from numba import carray  # pyright: ignore[reportPrivateImportUsage]

from fasthop.kernels.spmm import team
from fasthop.kernels.spmm.job import pointer
from fasthop.kernels.stack.arithmetic import call_job, call_team
from fasthop.kernels.stack.job import COUNTER, compiled

# The words of a walk: GOMP_parallel's address (0: none), how many threads, and the entries: function, job, whether a team.
PARALLEL, NUM_THREADS, NUM_ENTRIES, ENTRIES = range(4)


def walk() -> Any:
    """Sets each job's counter back and calls its function."""

    def work(job):
        entries = carray(pointer(job[ENTRIES], "int64"), 3 * job[NUM_ENTRIES])
        has_team = job[PARALLEL] != 0 and job[NUM_THREADS] > 1
        for k in range(job[NUM_ENTRIES]):
            function, its_job = entries[3 * k], entries[3 * k + 1]
            carray(pointer(its_job, "int64"), 1)[COUNTER] = 0
            if has_team and entries[3 * k + 2] != 0:
                call_team(job[PARALLEL], function, its_job, job[NUM_THREADS])
            else:
                call_job(function, its_job)

    return work


class Walk:
    """A call over the entries first to last of a tape's; calling it takes 1 us and what the passes take."""

    __slots__ = ("_address", "_call", "_words", "entries")

    def __init__(self, entries: np.ndarray, first: int, last: int) -> None:
        self.entries = entries  # they are read at each call
        self._words = (ctypes.c_int64 * 4)(
            parallel_address(),
            torch.get_num_threads(),
            last - first,
            entries.ctypes.data + first * entries.strides[0],
        )
        self._address = ctypes.addressof(self._words)
        self._call = _caller()

    def __call__(self) -> None:
        self._words[NUM_THREADS] = torch.get_num_threads()
        self._call(self._address)


@functools.cache
def parallel_address() -> int:
    """The address of torch's `GOMP_parallel`, or 0."""
    parallel = team.gomp_parallel()
    return 0 if parallel is None else ctypes.cast(parallel, ctypes.c_void_p).value or 0


@functools.cache
def _caller() -> Any:
    # ctypes lets other threads of Python run meanwhile.
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(compiled(walk))
