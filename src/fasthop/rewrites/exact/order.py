"""NodeOrder: in which order a fast model keeps the nodes, and how many of them each layer needs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fasthop.graph.csr import CSR
from fasthop.graph.reorder import locality_rank


@dataclass(frozen=True, kw_only=True, eq=False)
class NodeOrder:
    """A permutation of the nodes in which what is needed comes first.

    n_id: int64 [N], the node at each place. rank: int64 [N], the place of each node; both None where the order is the
    user's. sizes: how many leading nodes are needed by a value that lies 0, 1, 2, ... hops below the output; beyond the
    last entry, as many as in it. So each set is a prefix of the next one, and taking a subset is a slice.
    """

    num_nodes: int
    n_id: Tensor | None = None
    rank: Tensor | None = None
    sizes: tuple[int, ...]

    @classmethod
    def whole(cls, csr: CSR, *, locality: bool = False) -> NodeOrder:
        """All nodes at every depth: in the user's order, or for `locality` with neighbours near each other."""
        if not locality:
            return cls(num_nodes=csr.num_rows, sizes=(csr.num_rows,))
        rank = locality_rank(csr)
        return cls(num_nodes=csr.num_rows, n_id=torch.argsort(rank), rank=rank, sizes=(csr.num_rows,))

    @classmethod
    def shells(cls, csr: CSR, seeds: Tensor, num_hops: int, *, locality: bool = False) -> NodeOrder:
        """The seeds in ascending order, then the sources of their edges, then the sources of theirs, and so on.

        seeds: bool mask [N]. Within a shell nodes are in the user's order, or for `locality` neighbours lie near each other.
        """
        num_nodes = csr.num_rows
        if bool(seeds.all()):
            return cls.whole(csr, locality=locality)
        depth = torch.full((num_nodes,), num_hops + 1, dtype=torch.int64, device=seeds.device)
        reached = seeds.clone()
        depth[reached] = 0
        sizes = [int(reached.sum())]
        row = csr.row.long()
        col = csr.col.long()
        for hop in range(1, num_hops + 1):
            new = torch.zeros_like(reached)
            new[col[reached[row]]] = True
            new &= ~reached
            depth[new] = hop
            reached |= new
            sizes.append(int(reached.sum()))
            if sizes[-1] == num_nodes or not bool(new.any()):
                break
        within = locality_rank(csr) if locality else torch.arange(num_nodes, device=seeds.device)
        # The output keeps the user's order, so that out[train_mask] and our output are row for row the same.
        within = torch.where(depth == 0, torch.arange(num_nodes, device=seeds.device), within)
        n_id = torch.argsort(depth * num_nodes + within)
        rank = torch.empty_like(n_id)
        rank[n_id] = torch.arange(num_nodes, device=seeds.device)
        return cls(num_nodes=num_nodes, n_id=n_id, rank=rank, sizes=tuple(sizes))

    def size(self, depth: int) -> int:
        """How many leading nodes a value needs that lies `depth` hops below the output."""
        return self.sizes[min(depth, len(self.sizes) - 1)]

    @property
    def is_whole(self) -> bool:
        """Whether every depth has all nodes."""
        return self.sizes[0] == self.num_nodes

    def arranged(self, rows: Tensor, depth: int) -> Tensor:
        """The first `size(depth)` rows of a tensor [N, ...] in this order; the tensor itself where nothing changes."""
        if self.n_id is None:
            return rows
        return rows.index_select(0, self.n_id[: self.size(depth)])
