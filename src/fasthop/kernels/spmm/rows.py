"""The passes over the rows of a CSR matrix that spmm and its gradients are made of.

All have one signature, and `rows` picks the pass by the length of its first argument, a tuple. Arrays are
1-D and C-contiguous; row i of a matrix starts at i * stride, and the block of channels that this call
computes at `channel`; `full`, `tail`, `weighted` and `ahead` are told by their types (see lanes.py).

| pass | a, b, c | out |
|---|---|---|
| SUM | x | out[i] = sum over e of value[e] x[col[e]], divided by the number of entries where flag is 1 |
| EXTREMUM | x | out[i] = flag * max over e of flag * value[e] x[col[e]]: flag 1 for max, -1 for min; 0 without entries |
| SHARE | x, y, grad | out[i] = grad[i] / (how many entries of row i equal y[i], one more where y[i] is 0) |
| EXTREMUM_BACK | x, y, share | of the transpose: out[j] = sum over e of value[e] share[i] where value[e] x[j] = y[i], i = col[e] |
| DOT | x, grad | out[e] += dot(grad[i], x[col[e]]) |
| EXTREMUM_DOT | x, y, share | out[e] += dot(share[i] where value[e] x[col[e]] = y[i], x[col[e]]) |

"One more where y is 0" is torch's: the output of `scatter_reduce` starts as zeros that do not take part, and
its backward counts them as one more entry that ties wherever the result is 0. PyG's max and min inherit it.
"""

from __future__ import annotations

import numpy as np
from numba.extending import overload

from fasthop.kernels.spmm.arithmetic import (
    add,
    divide,
    dot,
    equal,
    larger,
    message,
    multiply_add,
    where_equal,
)
from fasthop.kernels.spmm.lanes import constant, load, prefetch, store, weight

SUM, EXTREMUM, SHARE, EXTREMUM_BACK, DOT, EXTREMUM_DOT = range(6)
# Entries by which the prefetch runs ahead. Of 4, 8 and 16 the last was quickest on the arxiv shape at widths 32 and 256.
AHEAD = np.uint64(16)
_1 = np.uint64(1)
_0 = np.uint64(0)


def rows(
    which, rowptr, col, value, a, b, c, out, first, last, stride, channel, flag, full, tail, weighted, ahead
):
    """Runs pass number len(which) over the rows first to last; only inside numba's functions."""
    raise NotImplementedError("rows runs inside compiled kernels only")


def _sum(
    which, rowptr, col, value, a, b, c, out, first, last, stride, channel, flag, full, tail, weighted, ahead
):
    reach = np.uint64(max(col.size - np.int64(AHEAD), 0))
    for i in range(first, last):
        start, end = np.uint64(rowptr[i]), np.uint64(rowptr[i + _1])
        total = constant(a, full, tail, 0.0)
        for e in range(start, end):
            if e < reach:
                prefetch(a, np.uint64(col[e + AHEAD]) * stride + channel, total, ahead)
            x = load(a, np.uint64(col[e]) * stride + channel, total)
            total = multiply_add(weight(value, e, total, weighted), x, total)
        if flag != 0.0 and end > start + _1:
            total = divide(total, constant(a, full, tail, float(end - start)))
        store(out, i * stride + channel, total)


def _extremum(
    which, rowptr, col, value, a, b, c, out, first, last, stride, channel, flag, full, tail, weighted, ahead
):
    reach = np.uint64(max(col.size - np.int64(AHEAD), 0))
    for i in range(first, last):
        start, end = np.uint64(rowptr[i]), np.uint64(rowptr[i + _1])
        best = constant(a, full, tail, -np.inf if end > start else 0.0)
        sign = weight(value, _0, best, ())
        if flag < 0:
            sign = -sign
        for e in range(start, end):
            if e < reach:
                prefetch(a, np.uint64(col[e + AHEAD]) * stride + channel, best, ahead)
            x = load(a, np.uint64(col[e]) * stride + channel, best)
            best = larger(best, message(sign * weight(value, e, best, weighted), x, a))
        if flag < 0 and end > start:
            best = message(sign, best, a)
        store(out, i * stride + channel, best)


def _share(
    which, rowptr, col, value, a, b, c, out, first, last, stride, channel, flag, full, tail, weighted, ahead
):
    reach = np.uint64(max(col.size - np.int64(AHEAD), 0))
    for i in range(first, last):
        zero = constant(a, full, tail, 0.0)
        y = load(b, i * stride + channel, zero)
        count = equal(y, zero)
        for e in range(np.uint64(rowptr[i]), np.uint64(rowptr[i + _1])):
            if e < reach:
                prefetch(a, np.uint64(col[e + AHEAD]) * stride + channel, count, ahead)
            x = load(a, np.uint64(col[e]) * stride + channel, count)
            count = add(count, equal(message(weight(value, e, count, weighted), x, a), y))
        store(out, i * stride + channel, divide(load(c, i * stride + channel, count), count))


def _extremum_back(
    which, rowptr, col, value, a, b, c, out, first, last, stride, channel, flag, full, tail, weighted, ahead
):
    reach = np.uint64(max(col.size - np.int64(AHEAD), 0))
    for j in range(first, last):
        total = constant(a, full, tail, 0.0)
        x = load(a, j * stride + channel, total)
        for e in range(np.uint64(rowptr[j]), np.uint64(rowptr[j + _1])):
            if e < reach:
                prefetch(b, np.uint64(col[e + AHEAD]) * stride + channel, total, ahead)
                prefetch(c, np.uint64(col[e + AHEAD]) * stride + channel, total, ahead)
            i = np.uint64(col[e]) * stride + channel
            factor = weight(value, e, total, weighted)
            mine = where_equal(message(factor, x, a), load(b, i, total), load(c, i, total))
            total = multiply_add(factor, mine, total)
        store(out, j * stride + channel, total)


def _dot(
    which, rowptr, col, value, a, b, c, out, first, last, stride, channel, flag, full, tail, weighted, ahead
):
    reach = np.uint64(max(col.size - np.int64(AHEAD), 0))
    for i in range(first, last):
        grad = load(b, i * stride + channel, constant(a, full, tail, 0.0))
        for e in range(np.uint64(rowptr[i]), np.uint64(rowptr[i + _1])):
            if e < reach:
                prefetch(a, np.uint64(col[e + AHEAD]) * stride + channel, grad, ahead)
            out[e] += dot(grad, load(a, np.uint64(col[e]) * stride + channel, grad))


def _extremum_dot(
    which, rowptr, col, value, a, b, c, out, first, last, stride, channel, flag, full, tail, weighted, ahead
):
    reach = np.uint64(max(col.size - np.int64(AHEAD), 0))
    for i in range(first, last):
        y = load(b, i * stride + channel, constant(a, full, tail, 0.0))
        share = load(c, i * stride + channel, y)
        for e in range(np.uint64(rowptr[i]), np.uint64(rowptr[i + _1])):
            if e < reach:
                prefetch(a, np.uint64(col[e + AHEAD]) * stride + channel, y, ahead)
            x = load(a, np.uint64(col[e]) * stride + channel, y)
            out[e] += dot(where_equal(message(weight(value, e, y, weighted), x, a), y, share), x)


_PASSES = (_sum, _extremum, _share, _extremum_back, _dot, _extremum_dot)


@overload(rows)
def _pick(
    which, rowptr, col, value, a, b, c, out, first, last, stride, channel, flag, full, tail, weighted, ahead
):
    return _PASSES[which.count]
