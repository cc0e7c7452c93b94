"""What one atomic addition takes on a CPU: torch.compile writes a scatter as one for each number, eager torch does not."""

from __future__ import annotations

import functools
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

_WIDTH, _ROWS, _NODES, _TURNS = 16, 1 << 17, 1 << 13, 5


def measure_atomic_ns(num_threads: int) -> float:
    """Nanoseconds a number: out[index[row], channel] += x[row, channel] by all threads at once, each addition a compare and exchange.

    That is the code that torch.compile's C++ has for `index_add`, the backward pass of a gather (its `atomic_add`), and the larger part
    of why compiling a PyG model does not pay on a CPU. Threads take rows of `out` from each other's caches, so that two of
    them are hardly quicker than one.
    """
    kernel = _compiled()
    index = np.random.default_rng(0).integers(_NODES, size=_ROWS)
    x, out = np.ones((_ROWS, _WIDTH), np.float32), np.zeros((_NODES, _WIDTH), np.float32)
    parts = np.array_split(np.arange(_ROWS), num_threads)
    samples = []
    with ThreadPoolExecutor(num_threads) as pool:
        for _ in range(_TURNS + 1):  # the first compiles and starts the threads
            start = time.perf_counter_ns()
            list(
                pool.map(
                    lambda part: kernel(out, index[part[0] : part[-1] + 1], x[part[0] : part[-1] + 1]), parts
                )
            )
            samples.append(time.perf_counter_ns() - start)
    return statistics.median(samples[1:]) / x.size


@functools.cache
def _compiled() -> Any:
    import numba
    from numba import types
    from numba.extending import intrinsic

    @intrinsic
    def add(typing: Any, array: Any, row: Any, channel: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            values, row, channel, value = arguments
            data = context.make_array(signature.args[0])(context, builder, values).data
            place = builder.add(builder.mul(row, row.type(_WIDTH)), channel)
            builder.atomic_rmw("fadd", builder.gep(data, [place]), value, "monotonic")
            return context.get_dummy_value()

        return types.void(array, types.int64, types.int64, types.float32), generate

    @numba.njit(nogil=True)
    def scatter(out: Any, index: Any, x: Any) -> None:
        for row in range(index.size):
            for channel in range(_WIDTH):
                add(out, np.int64(index[row]), np.int64(channel), x[row, channel])  # type: ignore[call-arg]

    return scatter
