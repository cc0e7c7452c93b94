"""One hop of neighbor sampling, compiled: how many edges, then which, then their nodes' new numbers."""

from __future__ import annotations

import numpy as np

from fasthop.jit import kernel
from fasthop.kernels.sample.draw import WEYL, below, mix

ONE = np.uint64(1)
# Up to this many draws a repeat is found by looking through them; beyond, in a table of marks.
SCAN_UP_TO = 32


@kernel
def count_hop(rowptr, n_id, begin, end, num_neighbors, replace, batch_rowptr):
    """batch_rowptr[i + 1] = batch_rowptr[i] + (number of edges that target i will get), begin <= i < end.

    deg without a limit (num_neighbors < 0); else min(num_neighbors, deg) without replacement, and
    num_neighbors with replacement where deg > 0. Returns the largest degree met.
    """
    total = batch_rowptr[begin]
    largest = np.int64(0)
    for i in range(np.uint64(begin), np.uint64(end)):
        v = np.uint64(n_id[i])
        degree = rowptr[v + ONE] - rowptr[v]
        largest = max(largest, degree)
        if num_neighbors < 0 or (degree <= num_neighbors and not replace) or degree == 0:
            total += degree
        else:
            total += num_neighbors
        batch_rowptr[i + ONE] = total
    return largest


@kernel
def draw_hop(rowptr, n_id, begin, end, num_neighbors, replace, key, batch_rowptr, marks, position):
    """Which entries of the CSR each target takes: position[e] for the edges of targets begin .. end - 1.

    All of a row in its order where they are all taken. With replacement, independent uniform draws.
    Without, Floyd's method (Bentley and Floyd, "A sample of brilliance", CACM 1987): for
    j = deg - k .. deg - 1 take a uniform t of 0 .. j, or j itself where t is already taken; every
    subset of k comes out with equal probability. marks: uint8 scratch, as long as the largest
    degree, all zero before and after.
    """
    for i in range(begin, end):
        first = batch_rowptr[i]
        count = batch_rowptr[i + 1] - first
        if count == 0:
            continue
        v = n_id[i]
        start = rowptr[v]
        degree = rowptr[v + 1] - start
        if num_neighbors < 0 or (count == degree and not replace):
            for j in range(count):
                position[first + j] = start + j
            continue
        stream = mix(key + np.uint64(i + 1) * WEYL)
        if replace:
            for j in range(count):
                stream += WEYL
                position[first + j] = start + np.int64(below(mix(stream), np.uint64(degree)))
        elif degree <= 64:
            taken = np.uint64(0)
            for j in range(degree - count, degree):
                stream += WEYL
                t = below(mix(stream), np.uint64(j + 1))
                t = np.uint64(j) if (taken >> t) & ONE else t
                taken |= ONE << t
                position[first] = start + np.int64(t)
                first += 1
        elif count <= SCAN_UP_TO:
            here = first
            for j in range(degree - count, degree):
                stream += WEYL
                p = start + np.int64(below(mix(stream), np.uint64(j + 1)))
                repeated = False
                for e in range(first, here):
                    repeated |= position[e] == p
                position[here] = start + j if repeated else p
                here += 1
        else:
            here = first
            for j in range(degree - count, degree):
                stream += WEYL
                t = np.int64(below(mix(stream), np.uint64(j + 1)))
                if marks[t]:
                    t = j
                marks[t] = 1
                position[here] = start + t
                here += 1
            for e in range(first, here):
                marks[position[e] - start] = 0


@kernel
def number_hop(col, e_id, begin, end, position, local, n_id, num_nodes, source, edge):
    """Reads the drawn entries begin .. end - 1 and gives each new node the next number.

    source[e] = the batch's number of col[position[e]]; edge[e] = e_id[position[e]] (the position
    itself where e_id is empty). local: int32 [N], a node's number in the batch, -1 where it has
    none. Returns the number of nodes. n_id needs room for one node more than the batch gets.

    Three habits make it 2 to 3 times as fast as the plain loop (15 ns an edge down to 5-7): reads of
    `col` and `e_id` in a loop of their own, so that many cache misses are under way at once; no
    branch on "is it new", which would be mispredicted at every second edge (the candidate is
    written first and counted afterwards); unsigned indices, for which numba emits no wrap-around.
    """
    first = np.uint64(begin)
    last = np.uint64(end)
    if e_id.size > 0:
        for e in range(first, last):
            p = np.uint64(position[e])
            source[e] = col[p]
            edge[e] = e_id[p]
    else:
        for e in range(first, last):
            source[e] = col[np.uint64(position[e])]
            edge[e] = position[e]
    count = np.int64(num_nodes)
    for e in range(first, last):
        v = source[e]
        number = np.int64(local[np.uint64(v)])
        new = number >> np.int64(63)  # all ones where `number` is negative, else 0
        number = number ^ ((number ^ count) & new)
        local[np.uint64(v)] = number
        n_id[np.uint64(count)] = v
        count -= new
        source[e] = number
    return count


@kernel
def number_seeds(seeds, local, n_id):
    """The seeds become nodes 0 .. B - 1 in their order; of a repeated one the first place is its number."""
    for i in range(seeds.size):
        v = seeds[i]
        n_id[i] = v
        if local[v] < 0:
            local[v] = i


@kernel
def forget(local, n_id, num_nodes):
    """Makes `local` all -1 again by undoing the batch's nodes only."""
    for i in range(num_nodes):
        local[n_id[i]] = -1


@kernel
def expand_targets(batch_rowptr, num_targets, target):
    """target[e] = i for batch_rowptr[i] <= e < batch_rowptr[i + 1]."""
    for i in range(num_targets):
        for e in range(batch_rowptr[i], batch_rowptr[i + 1]):
            target[e] = i


@kernel
def fill_edge_scale(rowptr, n_id, batch_rowptr, num_targets, scale):
    """scale[e] = degree(n_id[i]) / k(i) for the edges e of target i, k(i) being how many it was given."""
    for i in range(num_targets):
        first = batch_rowptr[i]
        last = batch_rowptr[i + 1]
        if last > first:
            v = n_id[i]
            value = (rowptr[v + 1] - rowptr[v]) / (last - first)
            for e in range(first, last):
                scale[e] = value
