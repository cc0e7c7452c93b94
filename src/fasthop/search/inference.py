"""Inference: the logits of all nodes from all their neighbours, at once or, where that does not fit, by batches."""

from __future__ import annotations

import torch
from torch import Tensor

from fasthop.rewrites.sample import Sample
from fasthop.rewrites.sampled_layers import num_hops
from fasthop.search.leaner import free_memory, ran_out
from fasthop.train.batching import Batch, SampledBatches, arguments_of
from fasthop.train.evaluate import predict
from fasthop.train.mode import evaluating
from fasthop.train.setup import Setup

BATCH_SIZE = 1024


class Inference:
    """Gives the logits [N, C] in eval mode, in the user's order of nodes; the model's mode is as before afterwards.

    With exact rungs the fast model computes them, else the user's own on the full batch. `by_batches` goes over to batches of
    nodes with all neighbours of as many hops as the model has (Hamilton et al. 2017, without sampling): equal but for the order of
    sums, which the rung `sample` holds against the full batch before it is believed.
    """

    def __init__(self, setup: Setup, baseline: Setup) -> None:
        self._setup, self._baseline = setup, baseline
        self._sampled: Setup | None = None
        self._batch_size = BATCH_SIZE

    @property
    def is_whole(self) -> bool:
        """Whether all nodes are computed at once."""
        return self._sampled is None

    @torch.no_grad()
    def __call__(self) -> Tensor:
        if self._sampled is None:
            try:
                return self._whole()
            except (RuntimeError, MemoryError) as error:
                if not ran_out(error):
                    raise
            free_memory()
            self.by_batches()
        while True:
            try:
                return self._in_batches()
            except (RuntimeError, MemoryError) as error:
                if not ran_out(error) or self._batch_size <= 1:
                    raise
            free_memory()
            self._batch_size //= 2

    def by_batches(self) -> None:
        """From here on by batches. Raises Inapplicable where that would be another model."""
        hops = num_hops(self._baseline.model)
        self._sampled = Sample(num_neighbors=(-1,) * hops, batch_size=self._batch_size).on(self._baseline)

    def _whole(self) -> Tensor:
        setup = self._setup
        if setup.exact is None:
            return predict(setup)
        graph = setup.task.graph
        weight = (graph.edge_weight,) if setup.exact.weighted and graph.edge_weight is not None else ()
        with evaluating(setup.original):
            return setup.model(graph.x, graph.edge_index, *weight)

    def _in_batches(self) -> Tensor:
        from fasthop.train.neighbor_loader import NeighborLoader

        sampled = self._sampled
        assert sampled is not None
        batches = sampled.batches
        assert isinstance(batches, SampledBatches)
        loader = NeighborLoader(
            batches.graph, batches.loader.num_neighbors, batch_size=self._batch_size, num_threads=0
        )
        parts = []
        with evaluating(sampled.original, sampled.model):
            for data in loader:
                edge_index = data.edge_index.to(batches.device)
                batches.weights.bind(data, edge_index)
                weight = data.edge_weight.to(batches.device) if batches.with_weight else None
                arguments = arguments_of(data, batches.attributes, batches.device)
                x, y = data.x.to(batches.device), data.y.to(batches.device)
                batch = Batch(x, edge_index, weight, y, data.batch_size, arguments)
                parts.append(batch.select(sampled.forward(batch)).clone())
        return torch.cat(parts)
