"""The gradient of a weight that sparse features are multiplied by, over the features as they stand: no transpose.

out.T[f] = sum over entries e of feature f of value[e] * grad[row of e]. By the transpose each entry gathers a row of grad
[N, C], which for many nodes leaves the caches; here a row of grad stays in registers while its entries add it to their
rows of an accumulator [F, C], which is small. Each of a fixed number of parts of the rows has an accumulator of its own, and
they are added pairwise, so that the bits are the same for any number of threads.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np
import torch
from numba import (
    carray,  # pyright: ignore[reportPrivateImportUsage]
    types,
)
from torch import Tensor

from fasthop.kernels.spmm import team
from fasthop.kernels.spmm.cpu import KINDS, TEAM_FROM
from fasthop.kernels.spmm.job import chunk_start, compile_job, pointer, take_chunk
from fasthop.kernels.spmm.lanes import (
    MAX_REGISTERS,
    REGISTER_BYTES,
    constant,
    element_address,
    instruction,
    load,
    splat,
    weight,
)

MAX_PARTS = 8
# A part zeroes its accumulator, and that is added to another's: not worth it below so many entries a row of it.
ENTRIES_PER_COLUMN = 64

COUNTER, NUM_PARTS, NUM_ROWS, NUM_COLS, NUM_ENTRIES, STRIDE, CHANNEL, WIDTH = range(8)
ROWPTR, COL, VALUE, GRAD, OUT = range(8, 13)
_Words = ctypes.c_int64 * 13
_1 = np.uint64(1)


@instruction
def accumulate(typingctx, out, offset, scalar, lanes):
    """out[offset:] += scalar * lanes over whole registers, which `out` has room for at an aligned address."""

    def codegen(context, builder, signature, args):
        base = element_address(context, builder, signature.args[0], args[0], args[1])
        factor = splat(builder, args[2], lanes.vector)
        for k in range(lanes.num_registers):
            place = builder.gep(base, [context.get_constant(types.intp, k * lanes.per_register)])
            at = builder.bitcast(place, lanes.vector.as_pointer())
            product = builder.fmul(factor, builder.extract_value(args[3], k), flags=["contract"])
            total = builder.fadd(builder.load(at, align=REGISTER_BYTES), product, flags=["contract"])
            builder.store(total, at, align=REGISTER_BYTES)
        return context.get_dummy_value()

    return types.void(out, types.uint64, lanes.scalar, lanes), codegen


@functools.cache
def _compiled(grad_kind: str, col_kind: str, width: int, is_weighted: bool) -> int:
    """The address of the C function of a block of `width` channels; kinds as in spmm/job.py."""
    lane_kind = "float64" if grad_kind == "float64" else "float32"
    per_register = REGISTER_BYTES // np.dtype(lane_kind).itemsize
    function = _make(
        (0,) * (width // per_register),
        (0,) * (width % per_register),
        (0,) * is_weighted,
        grad_kind,
        col_kind,
        lane_kind,
    )
    _KEPT.append(function)
    return function.address


_KEPT: list[Any] = []  # the code lives as long as its CFunc


def _make(full, tail, weighted, grad_kind, col_kind, lane_kind):
    """The C function. Only plain numbers and tuples are closed over, so that numba's cache knows it again."""

    def work(job):
        num_rows, num_entries, num_parts = job[NUM_ROWS], job[NUM_ENTRIES], job[NUM_PARTS]
        part_size = job[NUM_COLS] * job[WIDTH]
        rowptr = carray(pointer(job[ROWPTR], "int64"), num_rows + 1)
        col = carray(pointer(job[COL], col_kind), num_entries)
        value = carray(pointer(job[VALUE], lane_kind), num_entries)
        grad = carray(pointer(job[GRAD], grad_kind), num_rows * job[STRIDE])
        out = carray(pointer(job[OUT], lane_kind), num_parts * part_size)
        stride, width, channel = np.uint64(job[STRIDE]), np.uint64(job[WIDTH]), np.uint64(job[CHANNEL])
        while True:
            part = take_chunk(job)
            if part >= num_parts:
                return
            if job[CHANNEL] == 0:
                out[part * part_size : (part + 1) * part_size] = 0
            start = np.uint64(part * part_size) + channel
            first = np.uint64(chunk_start(rowptr, num_rows, num_entries, part, num_parts))
            last = np.uint64(chunk_start(rowptr, num_rows, num_entries, part + 1, num_parts))
            for i in range(first, last):
                mine = load(grad, i * stride + channel, constant(grad, full, tail, 0.0))
                for e in range(np.uint64(rowptr[i]), np.uint64(rowptr[i + _1])):
                    accumulate(out, start + np.uint64(col[e]) * width, weight(value, e, mine, weighted), mine)

    return compile_job(work)


def weight_grad(
    grad: Tensor,
    rowptr: Tensor,
    col: Tensor,
    value: Tensor | None,
    num_cols: int,
    num_threads: int | None = None,
) -> Tensor:
    """out[c, f] = sum over entries e of column f of value[e] * grad[row of e, c]: [C, num_cols] in grad's dtype.

    grad: [num_rows, C] float32, float64 or bfloat16, which is summed in float32, as value is. num_threads: None takes
    torch's number, or one for little work. Nothing is checked here.
    """
    grad = grad.contiguous()
    num_rows, num_channels = grad.shape
    num_entries = col.numel()
    out = grad.new_empty(num_channels, num_cols)
    if num_rows == 0 or out.numel() == 0:
        return out.zero_()
    lane_dtype = torch.promote_types(grad.dtype, torch.float32)
    per_register = REGISTER_BYTES // lane_dtype.itemsize
    width = -(-num_channels // per_register) * per_register
    num_parts = _num_parts(num_rows, num_entries, num_cols)
    totals = torch.empty(num_parts, num_cols, width, dtype=lane_dtype)
    words = _Words(
        0,
        num_parts,
        num_rows,
        num_cols,
        num_entries,
        num_channels,
        0,
        width,
        rowptr.data_ptr(),
        col.data_ptr(),
        0 if value is None else value.data_ptr(),
        grad.data_ptr(),
        totals.data_ptr(),
    )
    if num_threads is None:
        num_threads = 1 if num_entries * num_channels < TEAM_FROM else torch.get_num_threads()
    block = MAX_REGISTERS * per_register
    for channel in range(0, num_channels, block):
        function = _compiled(
            KINDS[grad.dtype],
            "int32" if col.dtype == torch.int32 else "int64",
            min(block, num_channels - channel),
            value is not None,
        )
        words[COUNTER], words[CHANNEL] = 0, channel
        team.run(function, ctypes.addressof(words), min(num_threads, num_parts))
    # By NumPy, on this thread: torch would wake its team for each of the sums. With the zeros they take 0.08 ms of PubMed
    # x 64's 2.9.
    sums = totals.numpy()
    while num_parts > 1:
        num_parts //= 2
        sums[:num_parts] += sums[num_parts : 2 * num_parts]
    return out.copy_(totals[0, :, :num_channels].t())


def _num_parts(num_rows: int, num_entries: int, num_cols: int) -> int:
    """A power of two: as many parts as have entries enough for an accumulator of their own."""
    parts = 1
    while (
        parts < MAX_PARTS
        and 2 * parts <= num_rows
        and 2 * parts * ENTRIES_PER_COLUMN * num_cols <= num_entries
    ):
        parts *= 2
    return parts
