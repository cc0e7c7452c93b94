"""What a step is fed: a Batch, and the two kinds of Batches: the full graph, and sampled neighbours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from fasthop.graph.graph import Graph
from fasthop.train.batch_weights import BatchWeights


@dataclass(frozen=True, slots=True)
class Batch:
    """The inputs of one step.

    x: [n, F]; edges: edge_index `[2, e]`, or another form of the same graph that PyG layers take.
    edge_weight: [e], or None where the model is not given any.
    y: [n], or [n, C] where a node has several labels. rows: which rows enter the loss: a bool mask [n], or the number of
    leading rows. arguments: further arguments of the model's forward that are not those of the whole graph, by name.
    """

    x: Tensor
    edges: Tensor
    edge_weight: Tensor | None
    y: Tensor
    rows: Tensor | int
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def select(self, out: Tensor) -> Tensor:
        """The rows of a model's output that enter the loss."""
        return out[self.rows] if isinstance(self.rows, Tensor) else out[: self.rows]

    def labels(self) -> Tensor:
        """The labels of those rows."""
        return self.y[self.rows] if isinstance(self.rows, Tensor) else self.y[: self.rows]


class Batches(Protocol):
    """The batches of an epoch: iterate once an epoch."""

    def __iter__(self) -> Iterator[Batch]: ...

    def __len__(self) -> int: ...

    def restart(self, seed: int) -> None:
        """From here on, the epochs are those of `seed`, from the first."""
        ...


class FullBatch:
    """One batch an epoch: the whole graph, the training nodes in the loss."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    @classmethod
    def of(cls, graph: Graph, *, with_weight: bool) -> FullBatch:
        """The graph as it is; its edge weights are handed on if `with_weight`."""
        assert graph.x is not None
        weight = graph.edge_weight if with_weight else None
        return cls(Batch(graph.x, graph.edge_index, weight, graph.y, graph.train_mask))

    def __iter__(self) -> Iterator[Batch]:
        yield self.batch

    def __len__(self) -> int:
        return 1

    def restart(self, seed: int) -> None:
        """A full batch draws nothing."""


class SampledBatches:
    """Neighbour-sampled mini-batches over the training nodes; the first `rows` of each are the seeds.

    weights: what the layers that need corrected weights read (see `BatchWeights`); it is set before
    a batch is handed out. A last batch of one seed is merged with the one before it, because
    BatchNorm cannot be computed over one row. attributes: what of a batch's data the model's forward is given beyond x and
    the edges, by the forward's names.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        num_neighbors: tuple[int, ...],
        batch_size: int,
        device: torch.device,
        with_weight: bool,
        weights: BatchWeights,
        seed: int,
        attributes: Mapping[str, str] | None = None,
    ) -> None:
        self.graph = graph
        self.attributes = dict(attributes or {})
        self.device = device
        self.with_weight = with_weight
        self.weights = weights
        # Here and not above: the baseline never samples, and must not pay for the kernels.
        from fasthop.train.neighbor_loader import NeighborLoader

        self._make = lambda seed: NeighborLoader(
            graph,
            list(num_neighbors),
            input_nodes=graph.train_mask,
            batch_size=batch_size,
            shuffle=True,
            seed=seed,
            merge_last_single=True,
        )
        self.loader = self._make(seed)

    def __iter__(self) -> Iterator[Batch]:
        for data in self.loader:
            edge_index = data.edge_index.to(self.device, non_blocking=True)
            self.weights.bind(data, edge_index)
            weight = data.edge_weight.to(self.device) if self.with_weight else None
            arguments = arguments_of(data, self.attributes, self.device)
            x, y = data.x.to(self.device), data.y.to(self.device)
            yield Batch(x, edge_index, weight, y, data.batch_size, arguments)

    def __len__(self) -> int:
        return len(self.loader)

    def restart(self, seed: int) -> None:
        """Draws the epochs of `seed` from the first."""
        self.loader = self._make(seed)


def arguments_of(data: Any, attributes: Mapping[str, str], device: torch.device) -> dict[str, Any]:
    """A batch's attributes under the names that the forward has for them, on a device."""
    found = {name: data.num_nodes if key == "num_nodes" else data[key] for name, key in attributes.items()}
    return {name: v.to(device) if isinstance(v, Tensor) else v for name, v in found.items()}
