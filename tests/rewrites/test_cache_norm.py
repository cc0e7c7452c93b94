"""The rung `cache_norm`: acts where a layer normalises, says why elsewhere, and trains as PyG does."""

from __future__ import annotations

import pytest
from torch_geometric import nn as gnn

from fasthop.rewrites.cache_norm import CacheNorm
from tests.rewrites.exact.tasks import Net, losses, refusal, setup_of


def test_it_trains_as_pyg_does():
    assert losses(CacheNorm().on(setup_of(Net))) == pytest.approx(losses(setup_of(Net)), rel=1e-9)


def test_it_normalises_once(monkeypatch):
    from fasthop.rewrites.layers import prepared

    calls = []
    original = prepared.gcn_norm
    monkeypatch.setattr(prepared, "gcn_norm", lambda *a: calls.append(1) or original(*a))
    setup = CacheNorm().on(setup_of(Net))
    losses(setup)
    assert len(calls) == 1


def test_it_refuses_where_nothing_is_normalised():
    assert "No layer of the model normalises" in refusal(CacheNorm(), setup_of(lambda: Net(gnn.SAGEConv)))
    assert "TransformerConv" in refusal(CacheNorm(), setup_of(lambda: Net(gnn.TransformerConv)))
