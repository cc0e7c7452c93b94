"""What a pass of a stack is told: int64 words with sizes and addresses, one layout for all passes.

As in spmm (see its job.py) a pass is a C function of one address; every thread of a team calls it and takes chunks until
none are left. How rows are cut into chunks depends on the sizes alone, and each chunk sums into a place of its own, so the
bits are the same for any number of threads.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from fasthop.kernels.spmm.job import compile_job

# Sizes. take_chunk counts in the first.
COUNTER, NUM_CHUNKS, NUM_ROWS, STRIDE, CHANNEL, NUM_ENTRIES, INNER, A_ROWS = range(8)
# Arrays. MATRIX is a weight; SUMS [num_chunks, stride] are the sums over a chunk's rows, for a bias's gradient.
ROWPTR, COL, VALUE, A, MATRIX, OUT, INIT, INIT_ROWS, BIAS, Y, KEY, SUMS = range(8, 20)
# What is done to a row before it is stored; 0: nothing.
ACTIVATE, GATE = 20, 21
# Numbers: the activation's slope, dropout's scale 1 / (1 - p) and its inverse as float64, its threshold as uint64.
SLOPE, SCALE, UNSCALE, THRESHOLD = range(22, 26)
# BLAS's 13 arguments and the address of ?gemm.
GEMM, ARGUMENTS = 26, 27
NUM_WORDS = 40

RELU, ELU, LEAKY_RELU, TANH, SIGMOID = range(1, 6)
ACTIVATION = {"relu": RELU, "elu": ELU, "leaky_relu": LEAKY_RELU, "tanh": TANH, "sigmoid": SIGMOID}


@functools.cache
def compiled(make: Callable[..., Any], *shape: Any) -> int:
    """The address of the C function that `make(*shape)` is the body of. Compiling takes 0.3 to 1 s, once a machine."""
    function = compile_job(make(*shape))
    _KEPT.append(function)
    return function.address


_KEPT: list[Any] = []  # the code lives as long as its CFunc
