"""Parts: what has been read of a graph so far, when some of it may have a fault."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fasthop.graph.checks import MASKS, checks_of
from fasthop.graph.fault import Faults
from fasthop.graph.graph import Graph


@dataclass(kw_only=True, slots=True)
class Parts:
    """A graph's parts as `Graph` has them; None where one did not come or has a fault.

    masks: those that are sound, by name.
    """

    name: str
    num_nodes: int | None = None
    num_classes: int | None = None
    edge_index: Tensor | None = None
    edge_weight: Tensor | None = None
    x: Tensor | None = None
    y: Tensor | None = None
    masks: dict[str, Tensor] = field(default_factory=dict)
    node_ids: np.ndarray | None = None
    class_names: tuple[str, ...] | None = None
    extras: dict[str, Any] = field(default_factory=dict)

    def check(self, faults: Faults) -> None:
        """What `Graph` would refuse at its construction, found for each part by itself; a part that has a
        fault is dropped, so that no figure is made of it."""
        known = {
            "num_nodes": self.num_nodes,
            "num_classes": self.num_classes,
            "edge_index": self.edge_index,
            "edge_weight": self.edge_weight,
            "x": self.x,
            "y": self.y,
            "node_ids": self.node_ids,
            "class_names": self.class_names,
            **self.masks,
        }
        for name, check in checks_of(known):
            before = len(faults.errors)
            with faults.part():
                check()
            if len(faults.errors) > before and name in ("x", "y", "edge_weight"):
                setattr(self, name, None)

    def graph(self, faults: Faults) -> Graph:
        """The graph of whole parts, with what was found as its notes; it checks itself."""
        assert self.num_nodes is not None
        assert self.num_classes is not None
        assert self.edge_index is not None
        assert self.y is not None
        return Graph(
            x=self.x,
            edge_index=self.edge_index,
            edge_weight=self.edge_weight,
            y=self.y,
            **{name: self.masks[name] for name in MASKS},
            num_nodes=self.num_nodes,
            num_classes=self.num_classes,
            name=self.name,
            notes=faults.notes,
            extras=self.extras,
            node_ids=self.node_ids,
            class_names=self.class_names,
        )

    @classmethod
    def of(cls, graph: Graph) -> Parts:
        """The parts of a graph that was checked already."""
        return cls(
            name=graph.name,
            num_nodes=graph.num_nodes,
            num_classes=graph.num_classes,
            edge_index=graph.edge_index,
            edge_weight=graph.edge_weight,
            x=graph.x,
            y=graph.y,
            masks={name: getattr(graph, name) for name in MASKS},
            node_ids=graph.node_ids,
            class_names=graph.class_names,
            extras=dict(graph.extras),
        )

    def make_undirected(self, faults: Faults) -> None:
        """Adds the reverse of each edge that lacks one, with its weight and its attributes, and says so."""
        if self.edge_index is None or self.num_nodes is None:
            return
        from fasthop.graph.both_directions import edges_without_reverse

        # What a reader said of the direction is no longer so.
        faults.findings = [f for f in faults.findings if f.code not in ("edges-directed", "rows-are-sources")]
        lone = edges_without_reverse(self.edge_index, self.num_nodes)
        num_edges = self.edge_index.size(1)
        faults.note(
            "both-directions",
            f"The edges were made undirected: {lone.numel():,} of the {num_edges:,} had no reverse, which was added.",
            f"边已转换为无向：{num_edges} 条边中有 {lone.numel()} 条没有反向边，已补上。",
        )
        if not lone.numel():
            return
        self.edge_index = torch.cat([self.edge_index, self.edge_index[:, lone].flip(0)], dim=1)
        if self.edge_weight is not None:
            self.edge_weight = torch.cat([self.edge_weight, self.edge_weight[lone]])
        for name, value in self.extras.items():
            of_edges = name.startswith("edge") and isinstance(value, Tensor) and value.dim() > 0
            if of_edges and value.layout is torch.strided and value.size(0) == num_edges:
                self.extras[name] = torch.cat([value, value[lone]])
