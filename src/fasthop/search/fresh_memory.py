"""Memory that a step asks the system for anew, page by page, because the C library has given it back after the last one."""

from __future__ import annotations

import mmap
import statistics
import sys
import time
from collections.abc import Sequence

from fasthop.search.predict_trace import Call

PAGE_BYTES = 4096
LARGEST_KEPT_BYTES = 32 << 20
"""glibc takes each larger block from the system and gives it back (mallopt(3), M_MMAP_THRESHOLD: at most 32 MB on 64 bits); the
rates of operators are measured at such sizes, too, and have that in them."""
_NUM_PAGES, _TURNS = 2048, 5


def fresh_bytes(calls: Sequence[Call]) -> int:
    """Bytes of new pages in a step of these operators, blocks beyond LARGEST_KEPT_BYTES left out.

    glibc trims the top of its heap where more than twice the largest block that was freed lies there unused (M_TRIM_THRESHOLD follows
    the threshold of mmap); at the end of a step all of it does. So what the step's peak has beyond that is new memory
    each time. Measured: GAT on 55,000 edges 38 MB of pages an epoch, 36 by this; a GIN 0.7 MB, 0 by this; with
    memory that is kept (mallopt) the GAT's epoch takes 30 in place of 42 ms. 0 where the C library is another.
    """
    if not sys.platform.startswith("linux"):
        return 0
    born: dict[int, tuple[int, int]] = {}
    last: dict[int, int] = {}
    known: set[int] = set()
    for place, call in enumerate(calls):
        for shape in call.reads:
            if shape.memory not in born:
                known.add(shape.memory)  # a parameter, an input, state: there before the step
            last[shape.memory] = place
        for shape in call.writes:
            last[shape.memory] = place
            if shape.memory not in known and shape.memory not in born and not call.is_view:
                born[shape.memory] = (place, shape.num_bytes)
    changes = [0] * (len(calls) + 1)
    largest = 0
    for memory, (place, num_bytes) in born.items():
        if num_bytes > LARGEST_KEPT_BYTES:
            continue
        largest = max(largest, num_bytes)
        changes[place] += num_bytes
        changes[last[memory] + 1] -= num_bytes
    live = peak = 0
    for change in changes:
        live += change
        peak = max(peak, live)
    return max(peak - 2 * largest, 0)


def measure_page_us() -> float:
    """Microseconds that a page of new memory takes when it is first written to."""
    samples = []
    for _ in range(_TURNS):
        with mmap.mmap(-1, _NUM_PAGES * PAGE_BYTES) as memory:
            start = time.perf_counter_ns()
            for place in range(0, len(memory), PAGE_BYTES):
                memory[place] = 1
            first = time.perf_counter_ns()
            for place in range(0, len(memory), PAGE_BYTES):
                memory[place] = 2
            samples.append((2 * first - start - time.perf_counter_ns()) / 1e3 / _NUM_PAGES)
    return max(statistics.median(samples), 0.0)
