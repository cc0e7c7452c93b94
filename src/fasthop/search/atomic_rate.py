"""What one atomic addition takes on a CPU: torch.compile adds rows up by one for each number, eager torch does not."""

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
    of why compiling a PyG model does not pay on a CPU: 7.2 ns on one thread here and 3.6 on two, where torch's own takes 1 to 3.
    """
    kernel = atomic_add_rows()
    index = np.random.default_rng(0).integers(_NODES, size=_ROWS)
    x, out = np.ones((_ROWS, _WIDTH), np.float32), np.zeros((_NODES, _WIDTH), np.float32)
    parts = list(zip(np.array_split(index, num_threads), np.array_split(x, num_threads), strict=True))
    samples = []
    with ThreadPoolExecutor(num_threads) as pool:
        for _ in range(_TURNS + 1):  # the first compiles and starts the threads
            start = time.perf_counter_ns()
            list(pool.map(lambda part: kernel(out, *part), parts))
            samples.append(time.perf_counter_ns() - start)
    return statistics.median(samples[1:]) / x.size


@functools.cache
def atomic_add_rows() -> Any:
    """The kernel (out [n, 16], index [m], x [m, 16]): out[index] += x, both float32, safe on several threads at once."""
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
