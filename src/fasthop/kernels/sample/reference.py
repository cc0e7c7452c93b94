"""Neighbor sampling in plain Python: the definition of correct, which the compiled form matches bit for bit."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fasthop.kernels.sample.draw import MASK_64, WEYL, mix_int
from fasthop.kernels.sample.subgraph import SampledSubgraph


def sample(
    rowptr: Tensor,
    col: Tensor,
    e_id: Tensor | None,
    seeds: Tensor,
    num_neighbors: Sequence[int],
    *,
    replace: bool = False,
    key: int = 0,
) -> SampledSubgraph:
    """Samples in-neighbors hop by hop, each node expanded once, when it was first reached.

    rowptr: int64 [N + 1], col: int [E], e_id: int [E] or None for 0 .. E - 1: the edges by target.
    seeds: int64 [B]; a repeated seed keeps a row of its own and is expanded again, and as a source
    it is known by its first row. num_neighbors: one per hop, -1 for all. replace: draw each time from
    all neighbors. key: 64 bits that fix every draw (`draw_key`).
    """
    n_id = seeds.tolist()
    number: dict[int, int] = {}
    for i, v in enumerate(n_id):
        number.setdefault(v, i)
    sources: list[int] = []
    targets: list[int] = []
    edges: list[int] = []
    batch_rowptr = [0]
    num_sampled_nodes, num_sampled_edges = [len(n_id)], []
    begin, end = 0, len(n_id)
    for k in num_neighbors:
        before = len(edges)
        for i in range(begin, end):
            start, stop = int(rowptr[n_id[i]]), int(rowptr[n_id[i] + 1])
            for p in _draw(start, stop - start, k, replace, key, i):
                v = int(col[p])
                if v not in number:
                    number[v] = len(n_id)
                    n_id.append(v)
                sources.append(number[v])
                targets.append(i)
                edges.append(p if e_id is None else int(e_id[p]))
            batch_rowptr.append(len(edges))
        begin, end = end, len(n_id)
        num_sampled_nodes.append(end - begin)
        num_sampled_edges.append(len(edges) - before)
    batch_rowptr += [len(edges)] * (len(n_id) + 1 - len(batch_rowptr))
    return SampledSubgraph(
        n_id=torch.tensor(n_id, dtype=torch.int64),
        edge_index=torch.tensor([sources, targets], dtype=torch.int64),
        e_id=torch.tensor(edges, dtype=torch.int64),
        rowptr=torch.tensor(batch_rowptr, dtype=torch.int64),
        num_sampled_nodes=num_sampled_nodes,
        num_sampled_edges=num_sampled_edges,
    )


def _draw(start: int, degree: int, k: int, replace: bool, key: int, target: int) -> list[int]:
    """The entries that one target takes: all of them, k with replacement, or k by Floyd's method."""
    if k < 0 or (k >= degree and not replace) or degree == 0:
        return list(range(start, start + degree))
    stream = mix_int((key + (target + 1) * int(WEYL)) & MASK_64)
    taken: list[int] = []
    for j in range(k) if replace else range(degree - k, degree):
        stream = (stream + int(WEYL)) & MASK_64
        t = _below(mix_int(stream), degree if replace else j + 1)
        taken.append(j if not replace and t in taken else t)
    return [start + t for t in taken]


def _below(bits: int, bound: int) -> int:
    """A uniform integer in 0 .. bound - 1 (Lemire's multiply and reject, 32 bits)."""
    while ((bits >> 32) * bound) % 2**32 < 2**32 % bound:
        bits = mix_int((bits + int(WEYL)) & MASK_64)
    return ((bits >> 32) * bound) >> 32


def edge_scale(rowptr: Tensor, subgraph: SampledSubgraph) -> Tensor:
    """degree / k of each sampled edge's target, float64 [e]: what makes a sum over the sample unbiased."""
    degree = rowptr.diff()[subgraph.n_id]
    target = subgraph.edge_index[1]
    return degree[target].double() / subgraph.rowptr.diff()[target]
