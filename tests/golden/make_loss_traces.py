"""Writes loss_traces.json anew: `python -m tests.golden.make_loss_traces`. Only where PyG's own numbers have changed."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from fasthop.train.loop import run_epoch
from fasthop.train.models import REFERENCE_MODELS
from fasthop.train.setup import Setup
from fasthop.train.task import OptimizerConfig, Task
from tests.train.graphs import digraph

PATH = Path(__file__).parent / "loss_traces.json"
NUM_STEPS = 50


def golden_task(name: str, optimizer: str = "adam") -> Task:
    """The task of a trace: a reference model in float64 on a digraph with self-loops and parallel edges, no dropout."""
    graph = digraph(num_nodes=120, num_edges=500, loops=True)
    return Task(
        graph=graph,
        make_model=lambda: REFERENCE_MODELS[name](
            graph.num_features, 6, graph.num_classes, num_layers=3
        ).double(),
        optimizer=OptimizerConfig(name=optimizer, lr=0.01, weight_decay=5e-4),
    )


def losses(setup: Setup, num_steps: int = NUM_STEPS) -> list[float]:
    """The loss of each step."""
    step = setup.step()
    return [float(run_epoch(step, setup.batches)) for _ in range(num_steps)]


def main() -> None:
    """PyG's own traces, as written."""
    traces = {
        name: losses(Setup.baseline(golden_task(name), seed=0, device=torch.device("cpu")))
        for name in REFERENCE_MODELS
    }
    PATH.write_text(json.dumps(traces, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
