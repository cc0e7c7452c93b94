"""Mean cross-entropy and its gradient in one pass over the logits.

loss = (1 / n) sum_i (log sum_c exp z[i, c] - z[i, label_i]);  OUT[i] = (softmax(z[i]) - one_hot(label_i)) / n
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import carray  # pyright: ignore[reportPrivateImportUsage]

from fasthop.kernels.segment_softmax.arithmetic import exp, multiply, subtract
from fasthop.kernels.spmm.arithmetic import add
from fasthop.kernels.spmm.job import channels_at_once, pointer, take_chunk
from fasthop.kernels.spmm.lanes import constant, load, store
from fasthop.kernels.spmm.rows import SUM
from fasthop.kernels.stack.arithmetic import highest_channel, registers, sum_channels
from fasthop.kernels.stack.job import COL, MATRIX, NUM_CHUNKS, NUM_ROWS, OUT, STRIDE, SUMS, A

_1 = np.uint64(1)


def cross_entropy(kind: str, width: int) -> Any:
    """A: logits [n, width]; COL: labels, int64 [n]; SUMS: float64 [num_chunks], a chunk's part of the loss;
    MATRIX [num_chunks, width]: the sums over a chunk's rows of OUT, which are a bias's gradient."""
    if width > channels_at_once(SUM, 8 if kind == "float64" else 4):
        return _wide(kind)
    full, tail = registers(width, kind)

    def work(job):
        num_rows, stride = np.uint64(job[NUM_ROWS]), np.uint64(job[STRIDE])
        a = carray(pointer(job[A], kind), job[NUM_ROWS] * job[STRIDE])
        labels = carray(pointer(job[COL], "int64"), job[NUM_ROWS])
        out = carray(pointer(job[OUT], kind), job[NUM_ROWS] * job[STRIDE])
        losses = carray(pointer(job[SUMS], "float64"), job[NUM_CHUNKS])
        sums = carray(pointer(job[MATRIX], kind), job[NUM_CHUNKS] * job[STRIDE])
        share = 1.0 / np.float64(num_rows)
        num_chunks = np.uint64(job[NUM_CHUNKS])
        while True:
            chunk = np.uint64(take_chunk(job))
            if chunk >= num_chunks:
                return
            loss, product = 0.0, 1.0
            total_grad, sums_at = constant(a, full, tail, 0.0), chunk * stride
            store(sums, sums_at, total_grad)
            for i in range(num_rows * chunk // num_chunks, num_rows * (chunk + _1) // num_chunks):
                at = i * stride
                z = load(a, at, constant(a, full, tail, 0.0))
                highest = highest_channel(z)
                label = at + np.uint64(labels[i])
                e = exp(subtract(z, constant(a, full, tail, highest)))
                total = np.float64(sum_channels(e))
                # One logarithm for many rows: each factor lies between 1 and the number of channels.
                product *= total
                if product > 1e200:
                    loss += math.log(product)
                    product = 1.0
                loss += np.float64(highest) - np.float64(a[label])
                grad = multiply(e, constant(a, full, tail, share / total))
                total_grad = add(total_grad, grad)
                store(out, at, grad)
                out[label] -= share
                sums[sums_at + np.uint64(labels[i])] -= share
            store(sums, sums_at, add(load(sums, sums_at, total_grad), total_grad))
            losses[chunk] = (loss + math.log(product)) * share

    return work


def _wide(kind: str) -> Any:
    """Rows that do not fit in the registers, channel by channel."""

    def work(job):
        num_rows, stride = np.uint64(job[NUM_ROWS]), np.uint64(job[STRIDE])
        a = carray(pointer(job[A], kind), job[NUM_ROWS] * job[STRIDE])
        labels = carray(pointer(job[COL], "int64"), job[NUM_ROWS])
        out = carray(pointer(job[OUT], kind), job[NUM_ROWS] * job[STRIDE])
        losses = carray(pointer(job[SUMS], "float64"), job[NUM_CHUNKS])
        sums = carray(pointer(job[MATRIX], kind), job[NUM_CHUNKS] * job[STRIDE])
        share = 1.0 / np.float64(num_rows)
        num_chunks = np.uint64(job[NUM_CHUNKS])
        while True:
            chunk = np.uint64(take_chunk(job))
            if chunk >= num_chunks:
                return
            loss = 0.0
            sums_at = chunk * stride
            for j in range(stride):
                sums[sums_at + j] = 0.0
            for i in range(num_rows * chunk // num_chunks, num_rows * (chunk + _1) // num_chunks):
                at = i * stride
                highest = a[at]
                for j in range(at, at + stride):
                    highest = max(highest, a[j])
                total = 0.0
                for j in range(at, at + stride):
                    out[j] = math.exp(a[j] - highest)
                    total += out[j]
                label = at + np.uint64(labels[i])
                loss += math.log(total) + (np.float64(highest) - np.float64(a[label]))
                for j in range(at, at + stride):
                    out[j] *= share / total
                out[label] -= share
                for j in range(stride):
                    sums[sums_at + j] += out[at + j]
            losses[chunk] = loss * share

    return work
