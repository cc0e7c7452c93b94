"""Planted errors: each is what a rewrite gets wrong in practice, and the judge must catch it."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn
from torch_geometric import nn as gnn

from fasthop.rewrites.exact import build as building
from fasthop.rewrites.exact import row_sets
from fasthop.rewrites.exact.constant import Constant
from fasthop.rewrites.exact.known import KnownGraph
from fasthop.rewrites.exact.order import NodeOrder
from fasthop.rewrites.layers import prepared
from tests.rewrites.exact.graphs import candidate, data, randomise, verdict
from tests.rewrites.exact.models import HIDDEN, Net, gin


def transposed(monkeypatch):
    original = KnownGraph._sorted
    monkeypatch.setattr(
        KnownGraph, "_sorted", lambda self, edge_index, value: original(self, edge_index.flip(0), value)
    )


def without_self_loops(monkeypatch):
    original = prepared.gcn_norm
    monkeypatch.setattr(
        prepared, "gcn_norm", lambda e, w, n, improved, loops, flow, dtype: original(e, w, n, improved, False, flow, dtype)
    )  # fmt: skip


def without_an_edge(monkeypatch):
    original = KnownGraph.edges
    monkeypatch.setattr(
        KnownGraph, "edges", lambda self, weighted: (original(self, weighted)[0][:, 1:], None)
    )


def parallel_edges_once(monkeypatch):
    original = KnownGraph.edges
    monkeypatch.setattr(
        KnownGraph, "edges", lambda self, weighted: (torch.unique(original(self, weighted)[0], dim=1), None)
    )


def of_another_graph(monkeypatch):
    original, other = KnownGraph.edges, data(seed=9).edge_index
    monkeypatch.setattr(KnownGraph, "edges", lambda self, weighted: (other, original(self, weighted)[1]))


def pruned_norms(monkeypatch):
    original = row_sets.module_is_row_local
    monkeypatch.setattr(
        row_sets,
        "module_is_row_local",
        lambda module: isinstance(module, gnn.GraphNorm | nn.BatchNorm1d) or original(module),
    )


def out_of_place(monkeypatch):
    """Two training nodes come back in each other's place."""
    original = NodeOrder.shells.__func__

    def shells(cls, *args, **options):
        order = original(cls, *args, **options)
        n_id = torch.cat([order.n_id[:2].flip(0), order.n_id[2:]])
        return dataclasses.replace(order, n_id=n_id, rank=torch.argsort(n_id))

    monkeypatch.setattr(NodeOrder, "shells", classmethod(shells))


def rows_swapped(monkeypatch):
    original = building.arranged_constant

    def swapped(x, order, depth, options, acted):
        if order.is_whole:
            return original(x, order, depth, options, acted)
        other = x.clone()
        other[order.n_id[:2]] = x[order.n_id[:2].flip(0)]
        return original(other, order, depth, options, acted)

    monkeypatch.setattr(building, "arranged_constant", swapped)


def bias_twice(monkeypatch):
    original = Constant.linear
    monkeypatch.setattr(
        Constant, "linear",
        lambda self, weight, bias=None: original(self, weight, bias) + (0 if bias is None else bias),
    )  # fmt: skip


def no_gradient_of_the_first_weight(monkeypatch):
    original = Constant.linear
    monkeypatch.setattr(
        Constant, "linear", lambda self, weight, bias=None: original(self, weight.detach(), bias)
    )


def net(conv=gnn.GCNConv, **options):
    return lambda: Net(conv, **options)


MUTANTS = {
    "transposed": (transposed, net()),
    "transposed, sage": (transposed, net(gnn.SAGEConv)),
    "transposed, gat": (transposed, net(lambda i, o: gnn.GATConv(i, o))),
    "without self-loops": (without_self_loops, net()),
    "without an edge": (without_an_edge, net()),
    "without an edge, max": (without_an_edge, net(lambda i, o: gnn.SAGEConv(i, o, aggr="max"))),
    "parallel edges once": (parallel_edges_once, net()),
    "of another graph": (of_another_graph, net()),
    "pruned GraphNorm": (pruned_norms, net(norm=lambda: gnn.GraphNorm(HIDDEN))),
    "pruned BatchNorm": (pruned_norms, net(gin, norm=lambda: nn.BatchNorm1d(HIDDEN))),
    "nodes out of place": (out_of_place, net()),
    "rows swapped": (rows_swapped, net(gnn.SAGEConv)),
    "bias twice": (bias_twice, net(before=True)),
    "no gradient of the first weight": (no_gradient_of_the_first_weight, net()),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_error_is_caught(name, monkeypatch):
    plant, make = MUTANTS[name]
    torch.manual_seed(1)
    model, given = randomise(make()), data()
    assert verdict(model, given).passed
    # Where rows are cut, the kernels refuse a matrix of other edges before there is a number.
    whole = plant in (transposed, of_another_graph)
    maker = candidate(model, given, *(("csr_spmm", "cache_norm", "first_hop") if whole else ()))
    plant(monkeypatch)
    found = verdict(model, given, maker)
    assert not found.passed, "nothing was noticed"
    assert "off by" in found.reason["en"] or "only" in found.reason["en"], found.reason


def test_a_first_hop_kept_under_dropout_is_caught_by_its_draws(monkeypatch):
    """With dropout off, as proofs run, a product kept in spite of dropout is right; with it on, it never changes."""
    model, given = randomise(Net(gnn.GCNConv, input_dropout=0.5)), data()
    maker = candidate(model, given)

    def drawn_twice():
        forward = maker(torch.float64, None).forward
        return forward(), forward()

    assert not torch.equal(*drawn_twice())
    monkeypatch.setattr(Constant, "dropout", lambda self, p: self)
    assert torch.equal(*drawn_twice())
