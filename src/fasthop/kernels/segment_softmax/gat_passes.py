"""The passes of GAT: scores that are a sum of a number of the source and one of the target.

For entry e of row i with column j: z = a_src[j] + a_dst[i]; p = exp(leaky(z) - m[i]) / s[i]; out[i] = sum d p x[j],
d what dropout gives the entry. For the gradient g to out, with delta[i] = g[i] . out[i]:

    dz = p (d g[i] . x[j] - delta[i]) leaky'(z),    dx[j] = sum d p g[i],    da_src[j] = sum dz,    da_dst[i] = sum dz

so one sweep over the transpose is enough: p is computed anew, and nothing but dz has a number for each entry. delta
is the softmax's own sum over the row, because the sum over e of d p (g[i] . x[j]) is g[i] . out[i] (the identity of
FlashAttention; Dao et al. 2022, appendix B.2).

Each `make` returns a C function's body. Arrays are 1-D: rows of [heads, channels] at i * stride, of [heads] at i * heads,
of [k, heads] at i * k * heads. Widths and switches are told by types (see lanes.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray  # pyright: ignore[reportPrivateImportUsage]

from fasthop.kernels.segment_softmax.arithmetic import add_product, exp, gate, multiply, subtract
from fasthop.kernels.segment_softmax.heads import keep, spread, sum_by_head
from fasthop.kernels.segment_softmax.job import (
    CHANNEL,
    COL,
    FIRST_HEAD,
    HEADS,
    KEY,
    NUM_CHUNKS,
    NUM_ENTRIES,
    NUM_ROWS,
    PERM,
    REALS,
    ROWPTR,
    SCALE,
    SLOPE,
    STRIDE,
    THRESHOLD,
    A,
    B,
    C,
    D,
    E,
    F,
    G,
    Shape,
    entry_bits,
)
from fasthop.kernels.spmm.arithmetic import add, divide, larger
from fasthop.kernels.spmm.job import chunk_start, pointer, take_chunk
from fasthop.kernels.spmm.lanes import constant, load, prefetch, store
from fasthop.kernels.spmm.rows import AHEAD

_1, _2, _3, _4 = (np.uint64(k) for k in range(1, 5))
ALWAYS = (0,)  # fetch ahead: 10 to 15 % quicker on PubMed, as quick on Cora


def forward(shape: Shape) -> Any:
    """A a_src, B a_dst, C x -> D out, E [rows, 2, heads]: m and 1 / s (0 and 0 for a row without entries)."""
    kind, col_kind, lane_kind = shape.kind, shape.col_kind, shape.lane_kind
    full, tail, full_h, tail_h = shape.widths
    dropped = (0,) * shape.is_dropped

    def work(job):
        num_rows, num_entries = job[NUM_ROWS], job[NUM_ENTRIES]
        stride, heads = np.uint64(job[STRIDE]), np.uint64(job[HEADS])
        first_head, channel = np.uint64(job[FIRST_HEAD]), np.uint64(job[CHANNEL])
        key, threshold = np.uint64(job[KEY]), np.uint64(job[THRESHOLD])
        reals = carray(pointer(job[REALS], "float64"), 2)
        slope, scale = reals[SLOPE], reals[SCALE]
        rowptr = carray(pointer(job[ROWPTR], "int64"), num_rows + 1)
        col = carray(pointer(job[COL], col_kind), num_entries)
        a_src = carray(pointer(job[A], lane_kind), num_entries)
        a_dst = carray(pointer(job[B], lane_kind), num_entries)
        x = carray(pointer(job[C], kind), num_entries)
        out = carray(pointer(job[D], kind), num_entries)
        stats = carray(pointer(job[E], lane_kind), num_entries)
        reach = np.uint64(max(num_entries - np.int64(AHEAD), 0))
        while True:
            chunk = take_chunk(job)
            if chunk >= job[NUM_CHUNKS]:
                return
            first = np.uint64(chunk_start(rowptr, num_rows, num_entries, chunk, job[NUM_CHUNKS]))
            last = np.uint64(chunk_start(rowptr, num_rows, num_entries, chunk + 1, job[NUM_CHUNKS]))
            for i in range(first, last):
                start, end = np.uint64(rowptr[i]), np.uint64(rowptr[i + _1])
                mine = load(a_dst, i * heads + first_head, constant(a_dst, full_h, tail_h, 0.0))
                highest = constant(a_dst, full_h, tail_h, -np.inf if end > start else 0.0)
                for e in range(start, end):
                    z = add(load(a_src, np.uint64(col[e]) * heads + first_head, mine), mine)
                    highest = larger(highest, gate(z, z, slope))
                total = constant(x, full, tail, 0.0)
                weights = constant(a_dst, full_h, tail_h, 0.0)
                for e in range(start, end):
                    j = np.uint64(col[e])
                    if e < reach:
                        prefetch(x, np.uint64(col[e + AHEAD]) * stride + channel, total, ALWAYS)
                    z = add(load(a_src, j * heads + first_head, mine), mine)
                    w = exp(subtract(gate(z, z, slope), highest))
                    weights = add(weights, w)
                    if len(dropped):
                        bits = entry_bits(key, e)
                        w = multiply(w, keep(bits, threshold, scale, mine, first_head, dropped))
                    total = add_product(spread(w, total), load(x, j * stride + channel, total), total)
                share = constant(a_dst, full_h, tail_h, 0.0)
                if end > start:
                    share = divide(constant(a_dst, full_h, tail_h, 1.0), weights)
                store(out, i * stride + channel, multiply(total, spread(share, total)))
                store(stats, i * _2 * heads + first_head, highest)
                store(stats, (i * _2 + _1) * heads + first_head, share)

    return work


def pack(shape: Shape) -> Any:
    """A a_dst, B stats, C grad, D out -> E [rows, 4, heads]: a_dst, m, 1 / s and delta, side by side for `backward`."""
    kind, lane_kind = shape.kind, shape.lane_kind
    full, tail, full_h, tail_h = shape.widths

    def work(job):
        num_rows, num_entries = job[NUM_ROWS], job[NUM_ENTRIES]
        stride, heads = np.uint64(job[STRIDE]), np.uint64(job[HEADS])
        first_head, channel = np.uint64(job[FIRST_HEAD]), np.uint64(job[CHANNEL])
        rowptr = carray(pointer(job[ROWPTR], "int64"), num_rows + 1)
        a_dst = carray(pointer(job[A], lane_kind), num_entries)
        stats = carray(pointer(job[B], lane_kind), num_entries)
        grad = carray(pointer(job[C], kind), num_entries)
        out = carray(pointer(job[D], kind), num_entries)
        packed = carray(pointer(job[E], lane_kind), num_entries)
        while True:
            chunk = take_chunk(job)
            if chunk >= job[NUM_CHUNKS]:
                return
            first = np.uint64(chunk_start(rowptr, num_rows, num_entries, chunk, job[NUM_CHUNKS]))
            last = np.uint64(chunk_start(rowptr, num_rows, num_entries, chunk + 1, job[NUM_CHUNKS]))
            for i in range(first, last):
                zero = constant(a_dst, full_h, tail_h, 0.0)
                row = constant(grad, full, tail, 0.0)
                g, y = load(grad, i * stride + channel, row), load(out, i * stride + channel, row)
                at = i * _4 * heads + first_head
                store(packed, at, load(a_dst, i * heads + first_head, zero))
                store(packed, at + heads, load(stats, i * _2 * heads + first_head, zero))
                store(packed, at + _2 * heads, load(stats, (i * _2 + _1) * heads + first_head, zero))
                store(packed, at + _3 * heads, sum_by_head(multiply(g, y), zero))

    return work


def backward(shape: Shape) -> Any:
    """Of the transpose, whose entry e is entry PERM[e]: A a_src, B packed, C x, D grad -> E dx, F [columns, heads] da_src,
    G [entries, heads] dz in the matrix's order."""
    kind, col_kind, lane_kind, perm_kind = shape.kind, shape.col_kind, shape.lane_kind, shape.perm_kind
    full, tail, full_h, tail_h = shape.widths
    dropped = (0,) * shape.is_dropped

    def work(job):
        num_rows, num_entries = job[NUM_ROWS], job[NUM_ENTRIES]
        stride, heads = np.uint64(job[STRIDE]), np.uint64(job[HEADS])
        first_head, channel = np.uint64(job[FIRST_HEAD]), np.uint64(job[CHANNEL])
        key, threshold = np.uint64(job[KEY]), np.uint64(job[THRESHOLD])
        reals = carray(pointer(job[REALS], "float64"), 2)
        slope, scale = reals[SLOPE], reals[SCALE]
        rowptr = carray(pointer(job[ROWPTR], "int64"), num_rows + 1)
        col = carray(pointer(job[COL], col_kind), num_entries)
        perm = carray(pointer(job[PERM], perm_kind), num_entries)
        a_src = carray(pointer(job[A], lane_kind), num_entries)
        packed = carray(pointer(job[B], lane_kind), num_entries)
        x = carray(pointer(job[C], kind), num_entries)
        grad = carray(pointer(job[D], kind), num_entries)
        dx = carray(pointer(job[E], kind), num_entries)
        da_src = carray(pointer(job[F], lane_kind), num_entries)
        dz_of = carray(pointer(job[G], lane_kind), num_entries)
        reach = np.uint64(max(num_entries - np.int64(AHEAD), 0))
        while True:
            chunk = take_chunk(job)
            if chunk >= job[NUM_CHUNKS]:
                return
            first = np.uint64(chunk_start(rowptr, num_rows, num_entries, chunk, job[NUM_CHUNKS]))
            last = np.uint64(chunk_start(rowptr, num_rows, num_entries, chunk + 1, job[NUM_CHUNKS]))
            for j in range(first, last):
                mine = load(a_src, j * heads + first_head, constant(a_src, full_h, tail_h, 0.0))
                sum_dz = constant(a_src, full_h, tail_h, 0.0)
                total = constant(x, full, tail, 0.0)
                row = load(x, j * stride + channel, total)
                for e in range(np.uint64(rowptr[j]), np.uint64(rowptr[j + _1])):
                    i = np.uint64(col[e])
                    if e < reach:
                        i_ahead = np.uint64(col[e + AHEAD])
                        at = i_ahead * _4 * heads + first_head
                        prefetch(grad, i_ahead * stride + channel, total, ALWAYS)
                        prefetch(packed, at, mine, ALWAYS)
                        prefetch(packed, at + _2 * heads, mine, ALWAYS)
                        prefetch(dz_of, np.uint64(perm[e + AHEAD]) * heads + first_head, mine, ALWAYS)
                    at = i * _4 * heads + first_head
                    z = add(mine, load(packed, at, mine))
                    p = exp(subtract(gate(z, z, slope), load(packed, at + heads, mine)))
                    p = multiply(p, load(packed, at + _2 * heads, mine))
                    g = load(grad, i * stride + channel, total)
                    along = sum_by_head(multiply(g, row), mine)
                    place = np.uint64(perm[e])
                    alpha = p
                    if len(dropped):
                        factor = keep(entry_bits(key, place), threshold, scale, mine, first_head, dropped)
                        along, alpha = multiply(along, factor), multiply(p, factor)
                    dz = gate(z, multiply(p, subtract(along, load(packed, at + _3 * heads, mine))), slope)
                    sum_dz = add(sum_dz, dz)
                    store(dz_of, place * heads + first_head, dz)
                    total = add_product(spread(alpha, total), g, total)
                store(dx, j * stride + channel, total)
                store(da_src, j * heads + first_head, sum_dz)

    return work


def sum_of_rows(shape: Shape) -> Any:
    """A [entries, heads] -> B [rows, heads]: the sum over each row's entries."""
    lane_kind = shape.lane_kind
    _, _, full_h, tail_h = shape.widths

    def work(job):
        num_rows, num_entries, heads = job[NUM_ROWS], job[NUM_ENTRIES], np.uint64(job[HEADS])
        first_head = np.uint64(job[FIRST_HEAD])
        rowptr = carray(pointer(job[ROWPTR], "int64"), num_rows + 1)
        each = carray(pointer(job[A], lane_kind), num_entries)
        out = carray(pointer(job[B], lane_kind), num_rows)
        while True:
            chunk = take_chunk(job)
            if chunk >= job[NUM_CHUNKS]:
                return
            first = np.uint64(chunk_start(rowptr, num_rows, num_entries, chunk, job[NUM_CHUNKS]))
            last = np.uint64(chunk_start(rowptr, num_rows, num_entries, chunk + 1, job[NUM_CHUNKS]))
            for i in range(first, last):
                total = constant(each, full_h, tail_h, 0.0)
                for e in range(np.uint64(rowptr[i]), np.uint64(rowptr[i + _1])):
                    total = add(total, load(each, e * heads + first_head, total))
                store(out, i * heads + first_head, total)

    return work
