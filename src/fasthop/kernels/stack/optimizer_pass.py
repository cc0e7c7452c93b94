"""Adam, AdamW and SGD over a flat run of parameters, as torch.optim has them, in one pass.

Adam (Kingma and Ba 2015): g += decay * p; m += (1 - b1)(g - m); v = b2 v + (1 - b2) g^2;
p -= lr / (1 - b1^t) * m / (sqrt(v) / sqrt(1 - b2^t) + eps). AdamW (Loshchilov and Hutter 2019): p *= 1 - lr * decay in
place of the first. SGD: g += decay * p; m = g at first, then momentum m + (1 - dampening) g; p -= lr * (m, or g + momentum m).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import carray  # pyright: ignore[reportPrivateImportUsage]

from fasthop.kernels.segment_softmax.arithmetic import add_product, multiply, subtract
from fasthop.kernels.spmm.arithmetic import add
from fasthop.kernels.spmm.job import pointer, take_chunk
from fasthop.kernels.spmm.lanes import REGISTER_BYTES, constant, load, store
from fasthop.kernels.stack.arithmetic import number_at, update_of
from fasthop.kernels.stack.job import NUM_CHUNKS

# The words of this job; take_chunk counts in the first, NUM_CHUNKS is the second. STEPS is how many were taken before.
SIZE, STEPS, P, G, M, V = range(2, 8)
LR, DECAY, BETA1, BETA2, EPS, MOMENTUM, DAMPENING = range(8, 15)
NESTEROV = 15
"""1 for Nesterov's momentum, else 0."""

_0, _1 = np.uint64(0), np.uint64(1)


def adam(kind: str, is_decoupled: bool) -> Any:
    """A register at a time; SIZE is a whole number of registers."""
    per = REGISTER_BYTES // (8 if kind == "float64" else 4)
    full, tail = (0,), ()
    step = np.uint64(per)

    def work(job):
        size = job[SIZE]
        p, g = carray(pointer(job[P], kind), size), carray(pointer(job[G], kind), size)
        m, v = carray(pointer(job[M], kind), size), carray(pointer(job[V], kind), size)
        taken = np.float64(job[STEPS] + 1)
        beta1, beta2, lr, decay = (
            number_at(job, BETA1),
            number_at(job, BETA2),
            number_at(job, LR),
            number_at(job, DECAY),
        )
        rate = constant(p, full, tail, -lr / (1.0 - beta1**taken))
        per_root_2 = constant(p, full, tail, 1.0 / math.sqrt(1.0 - beta2**taken))
        eps = constant(p, full, tail, number_at(job, EPS))
        new_1, new_2 = constant(p, full, tail, 1.0 - beta1), constant(p, full, tail, 1.0 - beta2)
        old_2 = constant(p, full, tail, beta2)
        pull = constant(p, full, tail, decay)
        shrunk = constant(p, full, tail, 1.0 - lr * decay)
        num_blocks, num_chunks = np.uint64(size) // step, np.uint64(job[NUM_CHUNKS])
        while True:
            chunk = np.uint64(take_chunk(job))
            if chunk >= num_chunks:
                return
            for block in range(num_blocks * chunk // num_chunks, num_blocks * (chunk + _1) // num_chunks):
                at = block * step
                value, grad = load(p, at, rate), load(g, at, rate)
                if is_decoupled:
                    value = multiply(value, shrunk)
                else:
                    grad = add_product(pull, value, grad)
                first = load(m, at, rate)
                first = add_product(subtract(grad, first), new_1, first)
                second = add(multiply(load(v, at, rate), old_2), multiply(multiply(grad, grad), new_2))
                store(m, at, first)
                store(v, at, second)
                store(p, at, add_product(rate, update_of(first, second, per_root_2, eps), value))

    return work


def sgd(kind: str, has_momentum: bool) -> Any:
    """SIZE numbers, computed in float64; LLVM takes them by registers."""

    def work(job):
        size = job[SIZE]
        p, g = carray(pointer(job[P], kind), size), carray(pointer(job[G], kind), size)
        m = carray(pointer(job[M], kind), size)
        lr, decay = number_at(job, LR), number_at(job, DECAY)
        momentum, new = number_at(job, MOMENTUM), 1.0 - number_at(job, DAMPENING)
        is_first, is_nesterov = job[STEPS] == 0, job[NESTEROV] != 0
        num_chunks = job[NUM_CHUNKS]
        while True:
            chunk = take_chunk(job)
            if chunk >= num_chunks:
                return
            for j in range(
                np.uint64(size * chunk // num_chunks), np.uint64(size * (chunk + 1) // num_chunks)
            ):
                grad = g[j] + decay * p[j]
                if has_momentum:
                    moved = grad if is_first else momentum * m[j] + new * grad
                    m[j] = moved
                    grad = grad + momentum * moved if is_nesterov else moved
                p[j] -= lr * grad

    return work
