"""FastData: the tensors that a fast model is called with, and the labels of the rows that it returns in train mode."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from fasthop.graph.graph import Graph
from fasthop.rewrites.exact.build import Built


class FastData:
    """What the training loop reads in place of `data`.

    x, edge_index, edge_weight: the user's own tensors (edge_weight None where the model is given none).
    y, train_mask: of the rows that `fast.model` returns in train mode: all nodes, or the training nodes alone in
    their order, and then train_mask is True throughout. num_nodes: of the graph.
    Evaluation reads the user's own `data`: in eval mode all rows come back in its order.
    """

    def __init__(self, graph: Graph, built: Built | None, edge_weight: Tensor | None) -> None:
        assert graph.x is not None
        self.x, self.edge_index, self.edge_weight = graph.x, graph.edge_index, edge_weight
        self.num_nodes = graph.num_nodes
        self.num_classes = graph.num_classes
        if built is None or built.order.is_whole:
            self.y, self.train_mask = graph.y, graph.train_mask
        else:
            self.y = graph.y[graph.train_mask]
            self.train_mask = graph.train_mask[graph.train_mask]

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """What the model is called with, in order."""
        if self.edge_weight is None:
            return self.x, self.edge_index
        return self.x, self.edge_index, self.edge_weight

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"fast.data has no {name!r}: it holds what a training step reads (x, edge_index, edge_weight, y, train_mask). "
            f"Evaluation reads your own data, such as data.{name}."
        )

    def __repr__(self) -> str:
        return f"FastData(x={list(self.x.shape)}, edge_index={list(self.edge_index.shape)}, rows={self.y.size(0)})"
