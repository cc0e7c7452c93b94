"""Evaluation by full-neighbour inference: the same for every recipe, in the model's own precision."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fasthop.graph.graph import Graph
from fasthop.train.batching import FullBatch
from fasthop.train.metric import ACCURACY, Metric
from fasthop.train.mode import evaluating
from fasthop.train.setup import Setup
from fasthop.train.task import takes_edge_weight


@dataclass(frozen=True, kw_only=True, slots=True)
class Accuracies:
    """The metric of a task on each mask, in percent: with accuracy, of the nodes whose largest logit is at their label."""

    train: float
    val: float
    test: float


@torch.no_grad()
def predict(setup: Setup) -> Tensor:
    """The logits `[N, C]` of every node from all its neighbours, in eval mode, by the user's own model."""
    model = setup.original
    graph = setup.task.graph
    with_weight = graph.edge_weight is not None and takes_edge_weight(model)
    batch = FullBatch.of(graph, with_weight=with_weight).batch
    with evaluating(model):
        if batch.edge_weight is not None:
            return model(batch.x, batch.edges, edge_weight=batch.edge_weight)
        return model(batch.x, batch.edges)


def evaluate(setup: Setup) -> Accuracies:
    """The task's metric on the three masks; NaN for an empty one."""
    return accuracies_of(predict(setup), setup.task.graph, setup.task.metric)


def accuracies_of(out: Tensor, graph: Graph, metric: Metric = ACCURACY) -> Accuracies:
    """The metric of logits [N, C] on the graph's three masks; NaN for an empty one."""

    def percent(mask: Tensor) -> float:
        return metric(out[mask], graph.y[mask])

    return Accuracies(
        train=percent(graph.train_mask), val=percent(graph.val_mask), test=percent(graph.test_mask)
    )
