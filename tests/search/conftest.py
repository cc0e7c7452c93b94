"""Small ladders, so that the tests of the contest take seconds."""

from __future__ import annotations

import pytest

from fasthop.rewrites import ladder as ladders
from fasthop.rewrites.amp import Amp
from fasthop.rewrites.ladder import Recipe
from fasthop.search.config import BenchConfig
from tests.train.graphs import digraph


@pytest.fixture
def small_ladder(monkeypatch):
    """The tutorial's ladder without compilation, under its name."""

    def small(sample):
        return (
            Recipe(name="baseline"),
            Recipe(name="sample", rungs=(sample,)),
            Recipe(name="sample+amp", rungs=(sample, Amp())),
        )

    monkeypatch.setitem(ladders.LADDERS, "tutorial", small)


@pytest.fixture
def quick():
    """A BenchConfig that takes a second: a digraph of 60 nodes, one thread, little of everything."""

    def make(**options):
        import torch

        options = {"data": digraph(dtype=torch.float32), "threads": 1, "rounds": 6, "epochs": 4, "seeds": 2,
                   "round_s": 0.01, "time_limit_s": 60.0, **options}  # fmt: skip
        return BenchConfig(**options)

    return make
