"""The end of a row, the same for all passes: what is added, activated, dropped, gated and summed before it is stored.

Forward: v = act(v + init + bias) * drop. Backward: v = (v + init) * drop * act'(y), y the output that the forward pass
stored, from which act' follows for every activation here; a dropped channel has the gradient 0 either way. Then
sums += v and out = v. What is not wanted has the address or the kind 0 in the job: a branch that goes the same way each time.
"""

from __future__ import annotations

import numpy as np
from numba import carray  # pyright: ignore[reportPrivateImportUsage]
from numba.extending import register_jitable

from fasthop.kernels.segment_softmax.arithmetic import exp, gate, multiply, subtract
from fasthop.kernels.segment_softmax.heads import keep
from fasthop.kernels.segment_softmax.job import entry_bits
from fasthop.kernels.spmm.arithmetic import add, divide, larger
from fasthop.kernels.spmm.job import pointer
from fasthop.kernels.spmm.lanes import constant, load, store
from fasthop.kernels.stack.arithmetic import number_at, pointer_like, smaller, where_positive
from fasthop.kernels.stack.job import (
    ACTIVATE,
    BIAS,
    CHANNEL,
    ELU,
    GATE,
    INIT,
    INIT_ROWS,
    KEY,
    LEAKY_RELU,
    NUM_CHUNKS,
    NUM_ROWS,
    OUT,
    RELU,
    SCALE,
    SIGMOID,
    SLOPE,
    STRIDE,
    SUMS,
    TANH,
    THRESHOLD,
    UNSCALE,
    Y,
)

ON = (0,)  # the empty tuple would tell `keep` that nothing is dropped


@register_jitable
def exp_of_minus_size(a, zero):
    """e^-|a|."""
    return exp(smaller(a, subtract(zero, a)))


@register_jitable
def activated(kind, v, slope, x, full, tail):
    """act(v)."""
    zero, one = constant(x, full, tail, 0.0), constant(x, full, tail, 1.0)
    if kind == RELU:
        v = larger(zero, v)
    elif kind == LEAKY_RELU:
        v = gate(v, v, slope)
    elif kind == ELU:
        low = multiply(constant(x, full, tail, slope), subtract(exp(smaller(v, zero)), one))
        v = where_positive(v, v, low)
    elif kind == TANH:
        e = exp_of_minus_size(add(v, v), zero)
        size = divide(subtract(one, e), add(one, e))
        v = where_positive(v, size, subtract(zero, size))
    elif kind == SIGMOID:
        e = exp_of_minus_size(v, zero)
        v = divide(where_positive(v, one, e), add(one, e))
    return v


@register_jitable
def gated(kind, v, y, slope, unscale, x, full, tail):
    """v * act'(z) where y = act(z) / unscale."""
    zero, one = constant(x, full, tail, 0.0), constant(x, full, tail, 1.0)
    if kind == RELU:
        v = where_positive(y, v, zero)
    elif kind == LEAKY_RELU:
        v = where_positive(y, v, multiply(v, constant(x, full, tail, slope)))
    else:
        a = multiply(y, constant(x, full, tail, unscale))
        if kind == ELU:
            v = where_positive(y, v, multiply(v, add(a, constant(x, full, tail, slope))))
        elif kind == TANH:
            v = multiply(v, subtract(one, multiply(a, a)))
        elif kind == SIGMOID:
            v = multiply(v, multiply(a, subtract(one, a)))
    return v


@register_jitable
def row_end(job, out):
    """All that `finish` reads from a job, read once before the rows; `out` is the job's output."""
    size = job[NUM_ROWS] * job[STRIDE]
    init = carray(pointer_like(job[INIT], out), size)
    bias = carray(pointer_like(job[BIAS], out), job[STRIDE])
    y = carray(pointer_like(job[Y], out), size)
    sums = carray(pointer_like(job[SUMS], out), job[NUM_CHUNKS] * job[STRIDE])
    key = np.uint64(0)
    if job[KEY] != 0:
        key = np.uint64(carray(pointer(job[KEY], "int64"), 1)[0])
    has = np.int64(job[BIAS] != 0) + 2 * np.int64(job[KEY] != 0) + 4 * np.int64(job[SUMS] != 0)
    has += 8 * np.int64(job[OUT] != 0)
    return (
        has,
        job[ACTIVATE],
        job[GATE],
        np.uint64(job[STRIDE]),
        np.uint64(job[CHANNEL]),
        np.uint64(job[INIT_ROWS]),
        key,
        np.uint64(job[THRESHOLD]),
        number_at(job, SLOPE),
        number_at(job, SCALE),
        number_at(job, UNSCALE),
        out,
        init,
        bias,
        y,
        sums,
    )


@register_jitable
def start_sums(job, chunk, out, full, tail):
    """Where this chunk's sums over its rows lie, set to 0; only where sums are wanted."""
    at = np.uint64(chunk * job[STRIDE] + job[CHANNEL])
    if job[SUMS] != 0:
        sums = carray(pointer_like(job[SUMS], out), job[NUM_CHUNKS] * job[STRIDE])
        store(sums, at, constant(out, full, tail, 0.0))
    return at


@register_jitable
def finish(v, i, sums_at, full, tail, end):
    """Ends row i with the sum `v`; see the top. end: from `row_end`."""
    (
        has,
        activate,
        gate_kind,
        stride,
        channel,
        init_rows,
        key,
        threshold,
        slope,
        scale,
        unscale,
        out,
        init,
        bias,
        y,
        sums,
    ) = end
    at = i * stride + channel
    if i < init_rows:
        v = add(v, load(init, at, v))
    if has & 1:
        v = add(v, load(bias, channel, v))
    if activate:
        v = activated(activate, v, slope, out, full, tail)
    if has & 2:
        v = multiply(v, keep(entry_bits(key, i), threshold, scale, v, channel, ON))
    if gate_kind:
        v = gated(gate_kind, v, load(y, at, v), slope, unscale, out, full, tail)
    if has & 4:
        store(sums, sums_at, add(load(sums, sums_at, v), v))
    if has & 8:
        store(out, at, v)
