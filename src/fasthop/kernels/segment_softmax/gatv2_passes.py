"""The passes of GATv2: scores that weigh the leaky sum of the source's row and the target's, channel by channel.

For entry e of row i with column j: u = x_l[j] + x_r[i]; score = att . leaky(u) by head; w = exp(score - m[i]), p = w / s[i];
out[i] = sum d p x_l[j], d what dropout gives the entry. For the gradient g to out, with delta[i] = g[i] . out[i]:

    ds = p (d g[i] . x_l[j] - delta[i]),    datt = sum ds leaky(u),    dx_r[i] = att sum ds leaky'(u),
    dx_l[j] = sum d p g[i] + att sum ds leaky'(u)

w [entries, heads] is kept from the forward pass, because computing it anew costs a whole row each time; `by_row` leaves
ds and d p for `by_column`, which sweeps over the transpose. Arrays as in gat_passes.py.
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
    P,
    Q,
    Shape,
    entry_bits,
)
from fasthop.kernels.spmm.arithmetic import add, divide, larger
from fasthop.kernels.spmm.job import chunk_start, pointer, take_chunk
from fasthop.kernels.spmm.lanes import constant, load, prefetch, store
from fasthop.kernels.spmm.rows import AHEAD

_1, _2 = np.uint64(1), np.uint64(2)
ALWAYS = (0,)  # fetch ahead: see gat_passes.py


def forward(shape: Shape) -> Any:
    """A x_l, B x_r, C att [heads, channels] -> D out, E w [entries, heads], F [rows, heads] 1 / s (0 without entries)."""
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
        x_l = carray(pointer(job[A], kind), num_entries)
        x_r = carray(pointer(job[B], kind), num_entries)
        att = carray(pointer(job[C], lane_kind), num_entries)
        out = carray(pointer(job[D], kind), num_entries)
        weight = carray(pointer(job[E], lane_kind), num_entries)
        shares = carray(pointer(job[F], lane_kind), num_entries)
        zero, none = constant(att, full_h, tail_h, 0.0), constant(x_l, full, tail, 0.0)
        factors = load(att, channel, none)
        reach = np.uint64(max(num_entries - np.int64(AHEAD), 0))
        while True:
            chunk = take_chunk(job)
            if chunk >= job[NUM_CHUNKS]:
                return
            first = np.uint64(chunk_start(rowptr, num_rows, num_entries, chunk, job[NUM_CHUNKS]))
            last = np.uint64(chunk_start(rowptr, num_rows, num_entries, chunk + 1, job[NUM_CHUNKS]))
            for i in range(first, last):
                start, end = np.uint64(rowptr[i]), np.uint64(rowptr[i + _1])
                mine = load(x_r, i * stride + channel, none)
                highest = constant(att, full_h, tail_h, -np.inf)
                for e in range(start, end):
                    if e < reach:
                        prefetch(x_l, np.uint64(col[e + AHEAD]) * stride + channel, none, ALWAYS)
                    u = add(load(x_l, np.uint64(col[e]) * stride + channel, none), mine)
                    score = sum_by_head(multiply(factors, gate(u, u, slope)), zero)
                    highest = larger(highest, score)
                    store(weight, e * heads + first_head, score)
                # The row's x_l are in the nearest cache now, unless this is a hub.
                total, weights = none, zero
                for e in range(start, end):
                    w = exp(subtract(load(weight, e * heads + first_head, zero), highest))
                    store(weight, e * heads + first_head, w)
                    weights = add(weights, w)
                    if len(dropped):
                        w = multiply(w, keep(entry_bits(key, e), threshold, scale, zero, first_head, dropped))
                    row = load(x_l, np.uint64(col[e]) * stride + channel, none)
                    total = add_product(spread(w, none), row, total)
                share = zero
                if end > start:
                    share = divide(constant(att, full_h, tail_h, 1.0), weights)
                store(out, i * stride + channel, multiply(total, spread(share, none)))
                store(shares, i * heads + first_head, share)

    return work


def by_row(shape: Shape) -> Any:
    """A x_l, B x_r, C att, D grad, E out, F w, G 1 / s -> P dx_r, Q [entries, 2, heads] ds and d p,
    PERM [chunks, heads, channels] the chunk's part of datt."""
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
        x_l = carray(pointer(job[A], kind), num_entries)
        x_r = carray(pointer(job[B], kind), num_entries)
        att = carray(pointer(job[C], lane_kind), num_entries)
        grad = carray(pointer(job[D], kind), num_entries)
        out = carray(pointer(job[E], kind), num_entries)
        weight = carray(pointer(job[F], lane_kind), num_entries)
        shares = carray(pointer(job[G], lane_kind), num_entries)
        dx_r = carray(pointer(job[P], kind), num_entries)
        pairs = carray(pointer(job[Q], lane_kind), num_entries)
        datt = carray(pointer(job[PERM], lane_kind), num_entries)
        zero, none = constant(att, full_h, tail_h, 0.0), constant(x_l, full, tail, 0.0)
        factors = load(att, channel, none)
        reach = np.uint64(max(num_entries - np.int64(AHEAD), 0))
        while True:
            chunk = take_chunk(job)
            if chunk >= job[NUM_CHUNKS]:
                return
            first = np.uint64(chunk_start(rowptr, num_rows, num_entries, chunk, job[NUM_CHUNKS]))
            last = np.uint64(chunk_start(rowptr, num_rows, num_entries, chunk + 1, job[NUM_CHUNKS]))
            sum_att = none
            for i in range(first, last):
                mine, g = load(x_r, i * stride + channel, none), load(grad, i * stride + channel, none)
                share = load(shares, i * heads + first_head, zero)
                delta = sum_by_head(multiply(g, load(out, i * stride + channel, none)), zero)
                total = none
                for e in range(np.uint64(rowptr[i]), np.uint64(rowptr[i + _1])):
                    if e < reach:
                        prefetch(x_l, np.uint64(col[e + AHEAD]) * stride + channel, none, ALWAYS)
                    row = load(x_l, np.uint64(col[e]) * stride + channel, none)
                    along = sum_by_head(multiply(g, row), zero)
                    p = multiply(load(weight, e * heads + first_head, zero), share)
                    alpha = p
                    if len(dropped):
                        factor = keep(entry_bits(key, e), threshold, scale, zero, first_head, dropped)
                        along, alpha = multiply(along, factor), multiply(p, factor)
                    ds = multiply(p, subtract(along, delta))
                    store(pairs, e * _2 * heads + first_head, ds)
                    store(pairs, (e * _2 + _1) * heads + first_head, alpha)
                    u = add(row, mine)
                    wide = spread(ds, none)
                    sum_att = add_product(wide, gate(u, u, slope), sum_att)
                    total = add(total, gate(u, wide, slope))
                store(dx_r, i * stride + channel, multiply(factors, total))
            store(datt, np.uint64(chunk) * stride + channel, sum_att)

    return work


def by_column(shape: Shape) -> Any:
    """Of the transpose, whose entry e is entry PERM[e]: A x_l, B x_r, C att, D grad, E [entries, 2, heads] -> F dx_l."""
    kind, col_kind, lane_kind, perm_kind = shape.kind, shape.col_kind, shape.lane_kind, shape.perm_kind
    full, tail, full_h, tail_h = shape.widths

    def work(job):
        num_rows, num_entries = job[NUM_ROWS], job[NUM_ENTRIES]
        stride, heads = np.uint64(job[STRIDE]), np.uint64(job[HEADS])
        first_head, channel = np.uint64(job[FIRST_HEAD]), np.uint64(job[CHANNEL])
        slope = carray(pointer(job[REALS], "float64"), 2)[SLOPE]
        rowptr = carray(pointer(job[ROWPTR], "int64"), num_rows + 1)
        col = carray(pointer(job[COL], col_kind), num_entries)
        perm = carray(pointer(job[PERM], perm_kind), num_entries)
        x_l = carray(pointer(job[A], kind), num_entries)
        x_r = carray(pointer(job[B], kind), num_entries)
        att = carray(pointer(job[C], lane_kind), num_entries)
        grad = carray(pointer(job[D], kind), num_entries)
        pairs = carray(pointer(job[E], lane_kind), num_entries)
        dx_l = carray(pointer(job[F], kind), num_entries)
        zero, none = constant(att, full_h, tail_h, 0.0), constant(x_l, full, tail, 0.0)
        factors = load(att, channel, none)
        reach = np.uint64(max(num_entries - np.int64(AHEAD), 0))
        while True:
            chunk = take_chunk(job)
            if chunk >= job[NUM_CHUNKS]:
                return
            first = np.uint64(chunk_start(rowptr, num_rows, num_entries, chunk, job[NUM_CHUNKS]))
            last = np.uint64(chunk_start(rowptr, num_rows, num_entries, chunk + 1, job[NUM_CHUNKS]))
            for j in range(first, last):
                mine = load(x_l, j * stride + channel, none)
                total, through_score = none, none
                for e in range(np.uint64(rowptr[j]), np.uint64(rowptr[j + _1])):
                    if e < reach:
                        ahead_at = np.uint64(col[e + AHEAD]) * stride + channel
                        prefetch(x_r, ahead_at, none, ALWAYS)
                        prefetch(grad, ahead_at, none, ALWAYS)
                        prefetch(pairs, np.uint64(perm[e + AHEAD]) * _2 * heads + first_head, zero, ALWAYS)
                    at = np.uint64(col[e]) * stride + channel
                    place = np.uint64(perm[e]) * _2
                    u = add(mine, load(x_r, at, none))
                    ds = spread(load(pairs, place * heads + first_head, zero), none)
                    alpha = spread(load(pairs, (place + _1) * heads + first_head, zero), none)
                    through_score = add(through_score, gate(u, ds, slope))
                    total = add_product(alpha, load(grad, at, none), total)
                store(dx_l, j * stride + channel, add_product(factors, through_score, total))

    return work
