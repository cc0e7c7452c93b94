"""Graphs that several tests need, and a cache of their own."""

from __future__ import annotations

import warnings

import pytest
import torch

with warnings.catch_warnings():
    # PyG scripts some of its classes at import, which torch 2.13 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from torch_geometric.data import Data


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """No test reads or fills the user's own cache."""
    place = tmp_path / "cache"
    monkeypatch.setenv("FASTHOP_CACHE", str(place))
    return place


@pytest.fixture
def path_data():
    """A directed path 0 -> 1 -> 2 -> 3 with an isolated node 4; two classes."""

    def make(**changes):
        fields = {
            "x": torch.arange(10.0).view(5, 2),
            "edge_index": torch.tensor([[0, 1, 2], [1, 2, 3]]),
            "y": torch.tensor([0, 1, 0, 1, 0]),
            "train_mask": torch.tensor([True, True, False, False, False]),
            "val_mask": torch.tensor([False, False, True, False, False]),
            "test_mask": torch.tensor([False, False, False, True, True]),
        }
        return Data(**{key: value for key, value in (fields | changes).items() if value is not None})

    return make
