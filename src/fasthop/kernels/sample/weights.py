"""The arithmetic of unbiased GCN weights, compiled; `train.sample_weights` says what it is for."""

from __future__ import annotations

import numpy as np

from fasthop.jit import kernel


@kernel
def weighted_degrees(rowptr, col, e_id, edge_weight, separate_loops, fill, loop, degree):
    """degree[v] = loop[v] + sum of w(u, v) over in-edges u != v; loop[v] = w of v's last self-loop, else fill.

    Where loops are not separate, they are edges as all others and loop[v] = 0. w = 1 where
    edge_weight is empty. float64 throughout. "Last" is by place in edge_index, which is the order of
    the entries of a row that have one source. Returns how many self-loops there are.
    """
    num_loops = 0
    weighted = edge_weight.size > 0
    for v in range(rowptr.size - 1):
        own = fill if separate_loops else 0.0
        total = 0.0
        for p in range(rowptr[v], rowptr[v + 1]):
            w = np.float64(edge_weight[e_id[p]]) if weighted else 1.0
            is_loop = col[p] == v
            num_loops += is_loop
            if separate_loops and is_loop:
                own = w
            else:
                total += w
        loop[v] = own
        degree[v] = total + own
    return num_loops


@kernel
def batch_weights(
    rowptr, inv_sqrt_degree, loop, edge_weight, drop_loops, n_id, source, target, e_id, scratch, weight, own
):
    """weight[e] = d(u)^-1/2 w(e) d(v)^-1/2 * degree(v) / k(v) for the sampled edge e from u to v;
    own[i] = loop(v) / d(v) for node i = v of the batch.

    degree(v) counts all in-edges of v in the graph, k(v) those in the batch. With drop_loops a
    self-loop among the edges gets 0: `own` has it, unscaled. scratch: float64 [2, n], zero.
    """
    inv, factor = scratch[0], scratch[1]
    for e in range(np.uint64(target.size)):
        factor[np.uint64(target[e])] += 1.0
    # All that depends on a node alone is looked up once a node, so that the edges read the batch only.
    for i in range(np.uint64(n_id.size)):
        v = np.uint64(n_id[i])
        inv[i] = inv_sqrt_degree[v]
        own[i] = inv[i] * loop[v] * inv[i]
        if factor[i] > 0.0:
            factor[i] = inv[i] * (rowptr[v + np.uint64(1)] - rowptr[v]) / factor[i]
    for e in range(np.uint64(target.size)):
        weight[e] = inv[np.uint64(source[e])] * factor[np.uint64(target[e])]
    if edge_weight.size > 0:
        for e in range(np.uint64(target.size)):
            weight[e] *= edge_weight[np.uint64(e_id[e])]
    if drop_loops:
        for e in range(np.uint64(target.size)):
            if n_id[np.uint64(source[e])] == n_id[np.uint64(target[e])]:
                weight[e] = 0.0
