"""What a pass of attention is told, and how it is compiled for one combination of dtypes, heads and channels.

As in spmm (see its job.py): a pass is a C function of one address, that of int64 words with sizes and addresses; every
thread of the team calls it and takes chunks of rows, cut by edges, until none are left; a row is never split.
A pass computes a block of heads, as many as fit in the registers; several blocks are several runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba.extending import register_jitable

from fasthop.kernels.sample.draw import WEYL, mix
from fasthop.kernels.spmm.job import compile_job
from fasthop.kernels.spmm.lanes import REGISTER_BYTES

# The words of a job. take_chunk counts in the first.
COUNTER, NUM_CHUNKS, NUM_ROWS, NUM_ENTRIES, STRIDE, HEADS, FIRST_HEAD, CHANNEL = range(8)
KEY, THRESHOLD, REALS, ROWPTR, COL, PERM = range(8, 14)
A, B, C, D, E, F, G, P, Q = range(14, 23)
NUM_WORDS = 23
# The reals of a job.
SLOPE, SCALE = range(2)


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """What a pass is compiled for.

    kind: the dtype of x: "float32", "float64", or "uint16" for bfloat16. col_kind, perm_kind: "int32" or "int64".
    heads: how many heads a block has. channels: how many channels a head has. is_dropped: whether dropout is on.
    """

    kind: str
    col_kind: str
    perm_kind: str
    heads: int
    channels: int
    is_dropped: bool

    @property
    def lane_kind(self) -> str:
        """The dtype that is computed in."""
        return "float64" if self.kind == "float64" else "float32"

    @property
    def widths(self) -> tuple[tuple[int, ...], ...]:
        """Full registers and the rest, as tuples of zeros, of heads * channels and of heads; see lanes.py."""
        per = REGISTER_BYTES // np.dtype(self.lane_kind).itemsize
        row = self.heads * self.channels
        return (0,) * (row // per), (0,) * (row % per), (0,) * (self.heads // per), (0,) * (self.heads % per)


@functools.cache
def compiled(make: Callable[[Shape], Any], shape: Shape) -> int:
    """The address of the C function that `make` makes for a shape. Compiling takes about a second, once a machine."""
    function = compile_job(make(shape))
    _KEPT.append(function)
    return function.address


_KEPT: list[Any] = []  # the code lives as long as its CFunc


@register_jitable
def entry_bits(key, entry):
    """The hash of (key, entry) that dropout draws from; the entry's place in the matrix, not in the transpose."""
    return mix(key + (entry + np.uint64(1)) * WEYL)
