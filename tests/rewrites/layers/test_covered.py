from __future__ import annotations

from torch_geometric.nn import GCNConv, TransformerConv

from fasthop.rewrites.layers.covered import COVERED
from tests.rewrites.layers.against_pyg import reason


def test_every_layer_of_the_table_is_there_once():
    names = [fast.covers.__name__ for fast in COVERED]
    assert len(names) == len(set(names)) == 13
    assert all(fast.__name__ == f"Fast{name}" for fast, name in zip(COVERED, names, strict=True))


def test_others_and_subclasses_are_refused():
    class Own(GCNConv):
        pass

    assert reason(TransformerConv(2, 2)) == "TransformerConv is not one of the layers that are covered."
    assert reason(Own(2, 2)) == "Own is not one of the layers that are covered."
