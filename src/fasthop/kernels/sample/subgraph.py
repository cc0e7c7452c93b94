"""SampledSubgraph: what one draw of the sampler gives; and the check of num_neighbors."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from fasthop.errors import InvalidConfig


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SampledSubgraph:
    """The nodes and edges that the seeds' computation reads.

    n_id: int64 [n], the nodes; the seeds first and in their order, then hop by hop as they were reached.
    edge_index: int64 [2, e], (source, target) as places in n_id; ascending by target, hence hop by hop.
    e_id: int64 [e], each edge's place in the user's edge_index.
    rowptr: int64 [n + 1], the same edges by target: those of target i are rowptr[i] to rowptr[i + 1].
    num_sampled_nodes: [L + 1], the seeds, then the nodes first reached at each hop.
    num_sampled_edges: [L], the edges of each hop.
    """

    n_id: Tensor
    edge_index: Tensor
    e_id: Tensor
    rowptr: Tensor
    num_sampled_nodes: list[int]
    num_sampled_edges: list[int]


def checked_num_neighbors(num_neighbors: Any) -> tuple[int, ...]:
    """One int per hop, -1 for all neighbors; raises InvalidConfig for anything else."""
    if isinstance(num_neighbors, dict):
        raise InvalidConfig(
            "num_neighbors is a dict, one list an edge type; heterogeneous graphs are not supported: "
            "give one list of ints, such as [15, 10]."
        )
    if hasattr(num_neighbors, "get_mapped_values"):  # PyG's NumNeighbors
        num_neighbors = num_neighbors.get_mapped_values()
    if isinstance(num_neighbors, str) or not isinstance(num_neighbors, Iterable):
        raise InvalidConfig(f"num_neighbors is {num_neighbors!r}; give one int per hop, such as [15, 10].")
    values = list(num_neighbors)
    if not values:
        raise InvalidConfig("num_neighbors is empty; give one int per hop, such as [15, 10] for two layers.")
    checked = []
    for hop, value in enumerate(values):
        try:
            number = operator.index(value)
        except TypeError:
            number = None
        if number is None or isinstance(value, bool) or number < -1:
            raise InvalidConfig(
                f"num_neighbors[{hop}] is {value!r}; each must be an int of at least 0, or -1 for all neighbors."
            )
        checked.append(number)
    return tuple(checked)
