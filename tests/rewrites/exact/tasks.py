"""A setup to put rungs on, and what a rung's model gives against PyG's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric import nn as gnn

from fasthop.graph.graph import Graph
from fasthop.rewrites.base import Inapplicable, Rung
from fasthop.train.setup import Setup
from fasthop.train.task import Task
from tests.rewrites.exact.graphs import NUM_CLASSES, NUM_FEATURES, data


class Net(nn.Module):
    """Two layers, something before, between and in front of the first."""

    def __init__(
        self, conv: Any = gnn.GCNConv, *, norm: Any = nn.Identity, dropout: float = 0.0, hidden: int = 8
    ) -> None:
        super().__init__()
        self.c1, self.norm, self.c2 = conv(NUM_FEATURES, hidden), norm(), conv(hidden, NUM_CLASSES)
        self.dropout = dropout

    def forward(self, x: Any, edge_index: Any) -> Any:
        x = F.dropout(x, self.dropout, self.training)
        return self.c2(self.norm(self.c1(x, edge_index)).relu(), edge_index)


def setup_of(make: Callable[[], nn.Module], *, dense: bool = False) -> Setup:
    """The baseline on the random graph. dense: with an x of no zeros."""
    given = data()
    generator = torch.Generator().manual_seed(4)
    graph = Graph(
        x=given.x + 1.0 if dense else given.x,
        edge_index=given.edge_index,
        y=torch.randint(0, NUM_CLASSES, (given.x.size(0),), generator=generator),
        num_nodes=given.x.size(0),
        num_classes=NUM_CLASSES,
        train_mask=given.train_mask,
        val_mask=~given.train_mask,
        test_mask=~given.train_mask,
        name="random",
    )
    return Setup.baseline(
        Task(graph=graph, make_model=lambda: make().double()), seed=0, device=torch.device("cpu")
    )


def losses(setup: Setup, num_steps: int = 5) -> list[float]:
    """Of training from the seed."""
    setup.restart(0)
    step = setup.step()
    return [float(step(batch)) for _ in range(num_steps) for batch in setup.batches]


def refusal(rung: Rung, setup: Setup) -> str:
    """Why it does not apply, in English; both languages are there."""
    with pytest.raises(Inapplicable) as raised:
        rung.on(setup)
    reason = raised.value.reason
    assert reason["zh"].endswith("。")
    return reason["en"]
