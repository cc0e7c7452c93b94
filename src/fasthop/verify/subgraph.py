"""A closed subgraph: a part of the graph on which some nodes' outputs are what they are on the whole."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from fasthop.errors import InvalidConfig
from fasthop.graph.check import check_indices
from fasthop.graph.csr import CSR

MOST_TRIES = 64
"""Neighbourhoods looked at while a subgraph grows: some milliseconds each on a graph of two million edges."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Reach:
    """What the returned rows depend on, and so how a closed subgraph is cut.

    edge_index: int64 or int32 [2, E]. seeds: int64 [S], the nodes whose rows are returned.
    num_hops: how far a row looks back: a message-passing layer is one hop, and a normalisation that reads the
        source's degree (GCN's) one more.
    Raises InvalidConfig for num_hops below 1 or no seeds, InvalidGraph for a seed that is no node.
    """

    edge_index: Tensor
    num_nodes: int
    seeds: Tensor
    num_hops: int

    def __post_init__(self) -> None:
        if self.num_hops < 1:
            raise InvalidConfig(
                f"num_hops is {self.num_hops!r}; a subgraph of a graph's model has at least 1 hop."
            )
        if self.seeds.numel() == 0:
            raise InvalidConfig(
                "there are no seeds, and a proof compares the rows of some nodes; name at least one."
            )
        check_indices(self.seeds, self.num_nodes, "seeds")

    @property
    def num_edges(self) -> int:
        """Number of edges of the whole graph."""
        return self.edge_index.size(1)

    @cached_property
    def csr(self) -> CSR:
        """The edges by target, on the CPU; sorted when first asked for. Raises InvalidGraph for a bad index."""
        return CSR.from_edge_index(self.edge_index.cpu(), self.num_nodes)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Subgraph:
    """A part of a graph with nodes numbered anew; parallel edges and self-loops are kept, in their order.

    n_id: int64 [n], the original id of each node, ascending. edge_index: int64 [2, e] in new ids.
    e_id: int64 [e], each edge's place in the original edge_index, ascending. seeds: int64 [s] in new ids, ascending.
    num_hops: every node less than num_hops away from a seed has all its incoming edges.
    """

    n_id: Tensor
    edge_index: Tensor
    e_id: Tensor
    seeds: Tensor
    num_hops: int

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self.n_id.numel()

    @property
    def num_edges(self) -> int:
        """Number of edges."""
        return self.e_id.numel()


def closed_subgraph(
    reach: Reach,
    *,
    max_nodes: int,
    max_edges: int,
    generator: torch.Generator,
    num_hops: int | None = None,
) -> Subgraph | None:
    """As many of the seeds as fit, with all that they depend on over num_hops (by default the reach's own).

    Seeds are taken in random order, in groups that are halved where they do not fit; one that alone does not fit is
    passed over. None where none was found in MOST_TRIES tries.
    """
    hops = reach.num_hops if num_hops is None else num_hops
    order = reach.seeds.cpu().unique()
    order = order[torch.randperm(order.numel(), generator=generator)]
    degree = reach.csr.degree
    nodes = torch.zeros(reach.num_nodes, dtype=torch.bool)
    inner, seeds = nodes.clone(), nodes.clone()
    place, size = 0, order.numel()
    for _ in range(MOST_TRIES):
        if place >= order.numel():
            break
        group = order[place : place + size]
        grown = _closure(reach.csr, group, hops, max_nodes)
        if grown is not None:
            all_nodes, all_inner = nodes | grown[0], inner | grown[1]
            if int(all_nodes.sum()) <= max_nodes and int(degree[all_inner].sum()) <= max_edges:
                nodes, inner = all_nodes, all_inner
                seeds[group] = True
                place += group.numel()
                continue
        if size == 1:
            place += 1
        size = max(1, min(size, group.numel()) // 2)
    if not bool(seeds.any()):
        return None
    return _cut(reach, nodes, inner, seeds, hops)


def _closure(csr: CSR, seeds: Tensor, num_hops: int, max_nodes: int) -> tuple[Tensor, Tensor] | None:
    """(nodes within num_hops, those nearer than num_hops) as masks; None beyond max_nodes."""
    nodes = torch.zeros(csr.num_rows, dtype=torch.bool)
    nodes[seeds] = True
    inner, frontier, degree = nodes.clone(), seeds, csr.degree
    for hop in range(num_hops):
        if hop:
            inner |= nodes
        count = degree[frontier]
        first = torch.repeat_interleave(csr.rowptr[frontier] - (count.cumsum(0) - count), count)
        sources = csr.col[first + torch.arange(first.numel())].long()
        frontier = sources[~nodes[sources]].unique()
        nodes[frontier] = True
        if int(nodes.sum()) > max_nodes:
            return None
    return nodes, inner


def _cut(reach: Reach, nodes: Tensor, inner: Tensor, seeds: Tensor, num_hops: int) -> Subgraph:
    n_id = nodes.nonzero().flatten()
    new_id = torch.full((reach.num_nodes,), -1, dtype=torch.int64)
    new_id[n_id] = torch.arange(n_id.numel())
    edge_index = reach.edge_index.cpu().long()
    e_id = inner[edge_index[1]].nonzero().flatten()
    device = reach.edge_index.device
    return Subgraph(
        n_id=n_id.to(device),
        edge_index=new_id[edge_index[:, e_id]].to(device),
        e_id=e_id.to(device),
        seeds=new_id[seeds.nonzero().flatten()].to(device),
        num_hops=num_hops,
    )
