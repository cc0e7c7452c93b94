"""The degree-corrected block model behind synthetic graphs (Karrer and Newman 2011), drawn link by link.

    P(link u - v) ~ w(u) w(v) B(class u, class v),  w(rank r in its class) = (r + r0)^(-2/3)

so that degrees fall off with the exponent 1 + 3/2 = 2.5. A rank is drawn by inverting the integral
of w, which for this exponent is a cube and so needs no table: with a = r0^(1/3), b = (n + r0)^(1/3)

    r = floor((a + U (b - a))^3 - r0),  U uniform in [0, 1)

The kernels are serial: the same seed gives the same bits whatever the number of threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fasthop.jit import kernel

Array = NDArray[Any]
# A link is redrawn within its classes this often before other classes are drawn for it: the homophily
# stays as asked where a dense block holds most of its pairs already, and a full block ends the search.
TRIES_PER_LINK = 64
TRIES_IN_ALL = 50


def block_model(
    sizes: Array, offsets: Array, node: Array, num_links: int, homophily: float, seed: int
) -> tuple[Array, Array] | None:
    """The links as a symmetric CSR without loops and parallel edges: rowptr int64, col int32, ascending.

    sizes: int64 [C], nodes of each class; offsets: float64 [C], the r0 of each class.
    node: int32 [N], the node of each (class, rank), classes one after another.
    None where the classes are too small for so many links.
    """
    first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    # Open addressing stays quick up to a load of about 0.6; 8 bytes a slot.
    table = np.zeros(1 << int(np.ceil(np.log2(max(num_links, 8) / 0.6))), np.uint64)
    if not _draw(first, offsets, node, num_links, homophily, np.uint64(seed), table):
        return None
    rowptr = np.zeros(node.size + 1, np.int64)
    unsorted = np.empty(2 * num_links, np.int32)
    _rows_of_table(table, rowptr, unsorted)
    del table  # a gigabyte for 60 million links
    col = np.empty_like(unsorted)
    _sort_symmetric(rowptr, unsorted, rowptr[:-1].copy(), col)
    return rowptr, col


def hub_offset(size: int, degree: float, max_degree: float) -> float:
    """The r0 at which the first node of a class of `size` nodes expects at most `max_degree` links."""

    def expected(r0: float) -> float:
        whole = np.cbrt(size + r0) - np.cbrt(r0)
        return size * degree * float((np.cbrt(1 + r0) - np.cbrt(r0)) / whole)

    low, high = 0.0, 1.0
    if expected(low) <= max_degree:
        return low
    while expected(high) > max_degree and high < 1e12:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if expected(middle) > max_degree else (low, middle)
    return high


@kernel
def _mixed(state: np.uint64) -> np.uint64:
    """splitmix64's finaliser (Steele, Lea and Flood 2014): 64 well-mixed bits of a counter."""
    z = state
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def _uniform(state: np.uint64) -> float:
    return np.float64(_mixed(state) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@kernel
def _class_of(first: Array, place: int) -> int:
    low, high = 0, first.size - 1
    while high - low > 1:
        middle = (low + high) // 2
        if first[middle] <= place:
            low = middle
        else:
            high = middle
    return low


@kernel
def _rank(u: float, size: int, r0: float, low: float, high: float) -> int:
    root = low + u * (high - low)
    return min(max(int(root * root * root - r0), 0), size - 1)


@kernel
def _draw(
    first: Array, offsets: Array, node: Array, num_links: int, homophily: float, seed: np.uint64, table: Array
) -> bool:
    """Fills the hash table with `num_links` different keys (smaller node << 32 | larger node) + 1."""
    step = np.uint64(0x9E3779B97F4A7C15)
    state = _mixed(seed + step)
    num_nodes, num_classes = node.size, first.size - 1
    low, high = np.empty(num_classes), np.empty(num_classes)
    for c in range(num_classes):
        low[c] = np.cbrt(offsets[c])
        high[c] = np.cbrt(first[c + 1] - first[c] + offsets[c])
    slots = np.uint64(table.size - 1)
    num_tries = 0
    for _ in range(num_links):
        tries_left = 0
        source_class = target_class = 0
        while True:
            num_tries += 1
            if num_tries > TRIES_IN_ALL * num_links + 10000:
                return False
            if tries_left == 0:
                tries_left = TRIES_PER_LINK
                state += step
                source_class = _class_of(first, int(_uniform(state) * num_nodes))
                state += step
                target_class = source_class
                if _uniform(state) >= homophily and num_classes > 1:
                    while target_class == source_class:
                        state += step
                        target_class = _class_of(first, int(_uniform(state) * num_nodes))
            tries_left -= 1
            state += step
            s, t = source_class, target_class
            u = node[first[s] + _rank(_uniform(state), first[s + 1] - first[s], offsets[s], low[s], high[s])]
            state += step
            v = node[first[t] + _rank(_uniform(state), first[t + 1] - first[t], offsets[t], low[t], high[t])]
            if u == v:
                continue
            key = (np.uint64(min(u, v)) << np.uint64(32) | np.uint64(max(u, v))) + np.uint64(1)
            slot = _mixed(key) & slots
            while table[slot] != 0 and table[slot] != key:
                slot = (slot + np.uint64(1)) & slots
            if table[slot] == 0:
                table[slot] = key
                break
    return True


@kernel
def _rows_of_table(table: Array, rowptr: Array, col: Array) -> None:
    """Both directions of every link by row, in the table's order."""
    mask = np.uint64(0xFFFFFFFF)
    for slot in range(table.size):
        if table[slot] != 0:
            key = table[slot] - np.uint64(1)
            rowptr[np.int64(key >> np.uint64(32)) + 1] += 1
            rowptr[np.int64(key & mask) + 1] += 1
    for i in range(1, rowptr.size):
        rowptr[i] += rowptr[i - 1]
    free = rowptr[:-1].copy()
    for slot in range(table.size):
        if table[slot] != 0:
            key = table[slot] - np.uint64(1)
            u, v = np.int64(key >> np.uint64(32)), np.int64(key & mask)
            col[free[u]] = v
            free[u] += 1
            col[free[v]] = u
            free[v] += 1


@kernel
def _sort_symmetric(rowptr: Array, unsorted: Array, free: Array, col: Array) -> None:
    """The rows in ascending order: transposing sorts, and a symmetric matrix is its own transpose."""
    for i in range(rowptr.size - 1):
        for entry in range(rowptr[i], rowptr[i + 1]):
            j = unsorted[entry]
            col[free[j]] = i
            free[j] += 1
