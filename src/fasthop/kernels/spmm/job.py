"""A pass compiled for one combination of dtypes and width, as a C function that a team of threads runs.

The C function takes one address, that of a `Job`: int64 words with the sizes and the addresses of the arrays. Every
thread of the team calls it with the same job and takes chunks of rows from a shared counter until none are left.
A chunk holds about equally many entries plus rows, found by bisecting rowptr, so hubs don't stall a thread; a
row is never split, so that the result is the same to the bit for any number of threads.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import (
    carray,  # pyright: ignore[reportPrivateImportUsage]
    cfunc,
    types,
)
from numba.core import config
from numba.extending import intrinsic, register_jitable

from fasthop.jit import cache_dir
from fasthop.kernels.spmm.lanes import MAX_REGISTERS, REGISTER_BYTES, instruction
from fasthop.kernels.spmm.rows import DOT, EXTREMUM_BACK, EXTREMUM_DOT, rows

# The words of a job, in the order in which cpu.py fills them.
COUNTER, NUM_CHUNKS, NUM_ROWS, STRIDE, CHANNEL, FLAG, NUM_ENTRIES = range(7)
ROWPTR, COL, VALUE, A, B, C, OUT = range(7, 14)
NUM_WORDS = 14


@instruction
def take_chunk(typingctx, job):
    """The number of the next chunk that nobody has taken yet; one atomic instruction."""

    def codegen(context, builder, signature, args):
        return builder.atomic_rmw("add", args[0], ir.Constant(ir.IntType(64), 1), "monotonic")

    return types.int64(job), codegen


def _pointer(typingctx, address, kind):
    """The int64 address as a pointer to `kind`: the name of a dtype, known when this is compiled."""
    to = types.CPointer(getattr(types, kind.literal_value))

    def codegen(context, builder, signature, args):
        return builder.inttoptr(args[0], context.get_value_type(to))

    return to(types.int64, kind), codegen


pointer: Callable[..., Any] = intrinsic(prefer_literal=True)(_pointer)


@register_jitable
def chunk_start(rowptr, num_rows, num_entries, chunk, num_chunks):
    """The first row of a chunk: the smallest i with rowptr[i] + i >= chunk / num_chunks of all entries and rows."""
    wanted = (num_entries + num_rows) * chunk // num_chunks
    low, high = 0, num_rows
    while low < high:
        middle = (low + high) // 2
        if rowptr[middle] + middle < wanted:
            low = middle + 1
        else:
            high = middle
    return low


def channels_at_once(which: int, itemsize: int) -> int:
    """The widest block of channels that a pass keeps in registers; a wider x is done in several blocks.

    EXTREMUM_BACK and EXTREMUM_DOT keep two rows in registers, hence half as many channels.
    """
    lane_bytes = max(itemsize, 4)
    registers = MAX_REGISTERS // 2 if which in (EXTREMUM_BACK, EXTREMUM_DOT) else MAX_REGISTERS
    return registers * REGISTER_BYTES // lane_bytes


@functools.cache
def compiled(which: int, x_kind: str, col_kind: str, width: int, is_weighted: bool, runs_ahead: bool) -> int:
    """The address of the C function of a pass: `width` channels of dtype x_kind ("float32", "float64", or "uint16" for
    bfloat16), columns of dtype col_kind. Compiling takes 0.5 to 2 s, once a machine."""
    lane_kind = "float64" if x_kind == "float64" else "float32"
    per_register = REGISTER_BYTES // np.dtype(lane_kind).itemsize
    function = _make(
        (0,) * which,
        (0,) * (width // per_register),
        (0,) * (width % per_register),
        (0,) * is_weighted,
        (0,) * runs_ahead,
        x_kind,
        col_kind,
        lane_kind,
        lane_kind if which in (DOT, EXTREMUM_DOT) else x_kind,
    )
    _KEPT.append(function)
    return function.address


_KEPT: list[Any] = []  # the code lives as long as its CFunc


def _make(which, full, tail, weighted, ahead, x_kind, col_kind, lane_kind, out_kind):
    """The C function of a pass. Only plain numbers and tuples are closed over, so that numba's cache knows it again."""

    def work(job):
        num_rows, num_entries = job[NUM_ROWS], job[NUM_ENTRIES]
        size = num_rows * job[STRIDE]
        rowptr = carray(pointer(job[ROWPTR], "int64"), num_rows + 1)
        col = carray(pointer(job[COL], col_kind), num_entries)
        value = carray(pointer(job[VALUE], lane_kind), num_entries)
        a = carray(pointer(job[A], x_kind), size)
        b = carray(pointer(job[B], x_kind), size)
        c = carray(pointer(job[C], x_kind), size)
        out = carray(pointer(job[OUT], out_kind), size)
        stride, channel, flag = np.uint64(job[STRIDE]), np.uint64(job[CHANNEL]), float(job[FLAG])
        while True:
            chunk = take_chunk(job)
            if chunk >= job[NUM_CHUNKS]:
                return
            first = np.uint64(chunk_start(rowptr, num_rows, num_entries, chunk, job[NUM_CHUNKS]))
            last = np.uint64(chunk_start(rowptr, num_rows, num_entries, chunk + 1, job[NUM_CHUNKS]))
            rows(
                which,
                rowptr,
                col,
                value,
                a,
                b,
                c,
                out,
                first,
                last,
                stride,
                channel,
                flag,
                full,
                tail,
                weighted,
                ahead,
            )

    return compile_job(work)


def compile_job(work: Any) -> Any:
    """Compiles with numba's cache in the folder of all kernels, where one can be written; see jit.py."""
    signature = types.void(types.CPointer(types.int64))
    folder = cache_dir()
    if folder is not None:
        before = config.CACHE_DIR  # pyright: ignore[reportAttributeAccessIssue]
        config.CACHE_DIR = str(folder)  # pyright: ignore[reportAttributeAccessIssue]
        try:
            return cfunc(signature, cache=True, error_model="numpy")(work)
        except OSError:  # a full disk: compile for this process alone
            pass
        finally:
            config.CACHE_DIR = before  # pyright: ignore[reportAttributeAccessIssue]
    return cfunc(signature, error_model="numpy")(work)
