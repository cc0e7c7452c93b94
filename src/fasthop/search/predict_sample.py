"""How large the batches of neighbour sampling will be, found by drawing a few of them by degrees alone."""

from __future__ import annotations

import torch
from torch import Tensor

from fasthop.graph.graph import Graph
from fasthop.search.predict_rehearsal import Sizes

NUM_DRAWN = 2


def batch_sizes(
    graph: Graph, *, num_neighbors: tuple[int, ...], batch_size: int, seed: int = 0
) -> list[tuple[int, Sizes]]:
    """(how many, their sizes) of an epoch's batches over the training nodes: the whole ones, and the last where it is smaller.

    The sizes of a few batches drawn for it, rounded. A node with more in-edges than the fan-out takes that many which follow
    each other in its list, from a random one on: as many edges as a true draw has, and about as many nodes.
    """
    generator = torch.Generator().manual_seed(seed)
    seeds = graph.train_mask.nonzero().view(-1)
    source, target = (part.long() for part in graph.edge_index)
    order = target.argsort(stable=True)
    col, degree = source[order], torch.bincount(target, minlength=graph.num_nodes)
    start = degree.cumsum(0) - degree
    whole, rest = divmod(seeds.numel(), batch_size)
    if whole and rest == 1:  # the loader joins a batch of one row to the one before
        whole, rest = whole - 1, batch_size + 1
    found = []
    for count, size in ((whole, batch_size), (1, rest)):
        if not count or not size:
            continue
        drawn = [
            _draw(seeds[torch.randperm(seeds.numel(), generator=generator)[:size]], col, start, degree, num_neighbors,
                  generator)
            for _ in range(NUM_DRAWN)
        ]  # fmt: skip
        nodes, edges = (round(sum(part) / NUM_DRAWN) for part in zip(*drawn, strict=True))
        found.append((count, Sizes(num_nodes=nodes, num_edges=max(edges, 1), num_rows=size)))
    return found


def _draw(
    seeds: Tensor,
    col: Tensor,
    start: Tensor,
    degree: Tensor,
    num_neighbors: tuple[int, ...],
    generator: torch.Generator,
) -> tuple[int, int]:
    """(nodes, edges) of one batch: a node's in-edges are drawn once, when it is first reached."""
    reached = torch.zeros(degree.numel(), dtype=torch.bool)
    reached[seeds] = True
    frontier, num_nodes, num_edges = seeds, seeds.numel(), 0
    for fan_out in num_neighbors:
        d = degree[frontier]
        taken = d if fan_out < 0 else d.clamp(max=fan_out)
        offset = (torch.rand(d.numel(), generator=generator) * d).long()
        number = torch.arange(int(taken.sum())) - torch.repeat_interleave(taken.cumsum(0) - taken, taken)
        node = torch.repeat_interleave(torch.arange(d.numel()), taken)
        place = start[frontier][node] + (offset[node] + number) % d[node].clamp(min=1)
        num_edges += place.numel()
        neighbors = col[place].unique()
        frontier = neighbors[~reached[neighbors]]
        reached[frontier] = True
        num_nodes += frontier.numel()
    return num_nodes, num_edges
