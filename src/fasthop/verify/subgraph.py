"""A closed subgraph: a part of the graph on which some nodes' outputs are what they are on the whole."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from fasthop.errors import InvalidConfig
from fasthop.graph.check import check_indices
from fasthop.graph.csr import CSR

MOST_TRIES = 40
"""Neighbourhoods looked at while a subgraph grows: some milliseconds each on a graph of two million edges."""

NODE_SIZE = 4
"""How many edges a node counts as in a graph's size: what the 256 x 256 transformation of a node takes, forward and backward,
over what PyG's messages along an edge take."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Reach:
    """What the returned rows depend on, and so how a closed subgraph is cut.

    edge_index: int64 or int32 [2, E]. seeds: int64 [S], the nodes whose rows are returned.
    num_hops: how far a row looks back: a message-passing layer is one hop, and a normalisation that reads the
        source's degree (GCN's) one more.
    csr: the same edges by target, where they are sorted already.
    Raises InvalidConfig for num_hops below 1 or no seeds, InvalidGraph for a seed that is no node.
    """

    edge_index: Tensor
    num_nodes: int
    seeds: Tensor
    num_hops: int
    csr: CSR | None = None

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

    @property
    def size(self) -> int:
        """What a step's cost is taken to grow with: the edges, a node counted as NODE_SIZE of them."""
        return self.num_edges + NODE_SIZE * self.num_nodes

    @cached_property
    def by_target(self) -> CSR:
        """The edges by target, on the CPU; sorted when first asked for. Raises InvalidGraph for a bad index."""
        if self.csr is not None and self.csr.col.device.type == "cpu":
            return self.csr
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

    @property
    def size(self) -> int:
        """As the `size` of the whole graph."""
        return self.num_edges + NODE_SIZE * self.num_nodes


def closed_subgraph(
    reach: Reach,
    *,
    max_size: int,
    generator: torch.Generator,
    num_hops: int | None = None,
) -> Subgraph | None:
    """As many of the seeds as fit, with all that they depend on over num_hops (by default the reach's own);
    max_size bounds the part's `size`.

    Seeds are taken in random order, in groups that are doubled where they fit and halved where they do not; one that
    alone does not fit is passed over. None where none was found in MOST_TRIES tries.
    """
    hops = reach.num_hops if num_hops is None else num_hops
    order = reach.seeds.cpu().unique()
    order = order[torch.randperm(order.numel(), generator=generator)]
    degree = reach.by_target.degree
    nodes = torch.zeros(reach.num_nodes, dtype=torch.bool)
    inner, seeds = nodes.clone(), nodes.clone()
    place, size = 0, 1
    for _ in range(MOST_TRIES):
        if place >= order.numel():
            break
        group = order[place : place + size]
        grown = _closure(reach.by_target, group, hops, max_size // NODE_SIZE)
        if grown is not None:
            all_nodes, all_inner = nodes | grown[0], inner | grown[1]
            if int(degree[all_inner].sum()) + NODE_SIZE * int(all_nodes.sum()) <= max_size:
                nodes, inner = all_nodes, all_inner
                seeds[group] = True
                place, size = place + group.numel(), 2 * size
                continue
        if size == 1:
            place += 1
        size = max(1, group.numel() // 2)
    if not bool(seeds.any()):
        return None
    return _cut(reach, nodes, inner, seeds, hops)


def shrunken(reach: Reach, share: float, *, generator: torch.Generator) -> Subgraph:
    """A graph with that share of the nodes, the edges and the seeds, to learn what a step costs: it keeps how many edges a
    node has, which no closed subgraph does. Its edges are drawn from the graph's and lead between other nodes: it is no part
    of it, and nothing is proven on it. At least one node, edge (where there are any) and seed remain.
    """
    num_nodes = max(1, int(share * reach.num_nodes))
    num_edges = min(reach.num_edges, max(1, int(share * reach.num_edges)))
    num_seeds = min(num_nodes, max(1, int(share * reach.seeds.numel())))
    device = reach.edge_index.device
    e_id = torch.randint(max(reach.num_edges, 1), (num_edges,), generator=generator).to(device)
    return Subgraph(
        n_id=torch.arange(num_nodes, device=device),
        edge_index=reach.edge_index[:, e_id].long() % num_nodes,
        e_id=e_id,
        seeds=torch.arange(num_seeds, device=device),
        num_hops=0,
    )


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
