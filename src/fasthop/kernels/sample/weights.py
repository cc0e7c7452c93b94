"""The arithmetic of unbiased GCN weights, compiled; `train.sample_weights` says what it is for."""

from __future__ import annotations

import numpy as np

from fasthop.kernels.jit import kernel


@kernel
def weighted_degrees(rowptr, col, e_id, edge_weight, separate_loops, fill, loop, degree):
    """degree[v] = loop[v] + sum of w(u, v) over in-edges u != v; loop[v] = w of v's last self-loop, else fill.

    Where loops are not separate, they are edges as all others and loop[v] = 0. w = 1 where
    edge_weight is empty. float64 throughout. "Last" is by place in edge_index, which is the order of
    the entries of a row that have one source.
    """
    weighted = edge_weight.size > 0
    for v in range(rowptr.size - 1):
        own = fill if separate_loops else 0.0
        total = 0.0
        for p in range(rowptr[v], rowptr[v + 1]):
            w = np.float64(edge_weight[e_id[p]]) if weighted else 1.0
            if separate_loops and col[p] == v:
                own = w
            else:
                total += w
        loop[v] = own
        degree[v] = total + own


@kernel
def batch_weights(
    rowptr, inv_sqrt_degree, loop, edge_weight, separate_loops, n_id, source, target, e_id, count, weight, own
):
    """weight[e] = d(u)^-1/2 w(e) d(v)^-1/2 * degree(v) / k(v) for the sampled edge e from u to v;
    own[i] = loop(v) / d(v) for node i = v of the batch.

    degree(v) counts all in-edges of v in the graph, k(v) those in the batch. A self-loop among the
    edges gets 0 where loops are separate: `own` has it, unscaled. count: int64 [n], scratch, zero.
    """
    weighted = edge_weight.size > 0
    for e in range(target.size):
        count[target[e]] += 1
    for e in range(target.size):
        i = target[e]
        u, v = n_id[source[e]], n_id[i]
        if separate_loops and u == v:
            weight[e] = 0.0
            continue
        w = np.float64(edge_weight[e_id[e]]) if weighted else 1.0
        scale = (rowptr[v + 1] - rowptr[v]) / count[i]
        weight[e] = inv_sqrt_degree[u] * w * inv_sqrt_degree[v] * scale
    for i in range(n_id.size):
        v = n_id[i]
        own[i] = inv_sqrt_degree[v] * loop[v] * inv_sqrt_degree[v]
