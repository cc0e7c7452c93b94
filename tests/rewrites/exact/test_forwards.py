"""Forward passes as people write them: the fast model gives the same numbers, state and randomness, and cuts rows only where
rows stay apart."""

from __future__ import annotations

import copy
import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch_geometric import nn as gnn
from torch_geometric.utils import dropout_edge

from tests.rewrites.exact.graphs import NUM_CLASSES, NUM_FEATURES, NUM_NODES, build, data, first, randomise

W = 8


class Model(nn.Module):
    """Two layers and a linear map, called by `body`; `prepare` adds what that needs."""

    def __init__(self, body, prepare=None):
        super().__init__()
        self.c1, self.c2, self.out = (
            gnn.GCNConv(NUM_FEATURES, W),
            gnn.GCNConv(W, W),
            nn.Linear(W, NUM_CLASSES),
        )
        self.w, self.w3 = nn.Parameter(torch.randn(W)), nn.Parameter(torch.randn(3, W, W))
        self.w_high = nn.Parameter(torch.randn(1, 1, W))
        self.scale, self.history, self.act = 1.0, [], nn.ELU(inplace=True)
        self.body = body
        if prepare is not None:
            prepare(self)

    def forward(self, x, edge_index):
        return self.body(self, x, edge_index, self.c1(x, edge_index))


def assigned(self, x, e, h):
    before = h
    h += self.c2(h.relu(), e)
    return self.out(h + before)


def in_place_of_alias(self, x, e, h):
    g = self.act(F.dropout(h, 0.0, self.training))
    return self.out(self.c2(h, e) + g)


def in_place_of_view(self, x, e, h):
    g = self.act(h.view(-1, 2, W // 2))
    return self.out(self.c2(h, e) + g.reshape(-1, W))


def without_gradients(self, x, e, h):
    with torch.no_grad():
        g = self.c2(h, e)
    return self.out(h + g)


def control_flow(self, x, e, h):
    return self.out(-h if h.sum() > 0 else h)


def counts(self, x, e, h):
    self.scale += 1
    return self.out(h) * self.scale


def remembers(self, x, e, h):
    self.h = h
    return self.out(h)


def appends(self, x, e, h):
    self.history.append(1)
    return self.out(h) * len(self.history)


def updates_buffer(self, x, e, h):
    self.seen += 1
    self.mean.mul_(0.9).add_(h.detach().mean(0) * 0.1)
    return self.out(h + self.mean)


def asks_for_tensor(self, x, e, h):
    return self.out(h) if isinstance(e, torch.Tensor) else self.out(h * 0)


def pools(self, x, e, h):
    v = gnn.global_mean_pool(h, torch.zeros(NUM_NODES, dtype=torch.int64))
    return self.out(h + v)


# name: (body, prepare, whether rows may be cut)
BODIES = {
    "assigned": (assigned, None, False),
    "assigned, seen by none": (lambda s, x, e, h: s.out(s.c2(F.dropout(h, 0.5, s.training).mul(1.0).relu_(), e)), None, False),
    "inplace activation": (lambda s, x, e, h: s.out(s.c2(s.act(h), e)), None, True),
    "inplace activation of what others read": (lambda s, x, e, h: s.out(s.c2(s.act(h), e) + h), None, False),
    "inplace by position": (lambda s, x, e, h: s.out(s.c2(F.elu(h, 1.0, True), e) + h), None, False),
    "inplace of an alias": (in_place_of_alias, None, False),
    "inplace of a view": (in_place_of_view, None, False),
    "inplace of x": (lambda s, x, e, h: s.out(s.c1(F.elu(x * 1, inplace=True), e)), None, True),
    "method in place": (lambda s, x, e, h: s.out(s.c2(h.sigmoid_(), e)), None, False),
    "F.linear by names": (lambda s, x, e, h: F.linear(input=h, weight=s.out.weight), None, False),
    "F.linear of rows": (lambda s, x, e, h: s.out(F.linear(h, h) @ h), None, False),
    "cat by names": (lambda s, x, e, h: s.out(torch.cat(tensors=[h, h], dim=1)[:, :W]), None, False),
    "softmax over nodes": (lambda s, x, e, h: s.out(h * torch.softmax(h @ s.w, dim=-1).unsqueeze(-1)), None, False),
    "batch of matrices": (lambda s, x, e, h: s.out(h + torch.matmul(h, s.w3).sum(dim=1).sum(0)), None, False),
    "dimension in front": (lambda s, x, e, h: s.out(h + (h + s.w_high).mean(dim=1)), None, False),
    "view over rows": (lambda s, x, e, h: s.out(h.view(-1, W // 2).softmax(1).reshape(-1, W)), None, False),
    "mean of nodes": (lambda s, x, e, h: s.out(h - h.mean(0)), None, False),
    "mean of nodes, kept": (lambda s, x, e, h: s.out(h - h.mean(dim=0, keepdim=True)), None, False),
    "norm of rows": (lambda s, x, e, h: s.out(h / (h.norm(2, -1, True) + 1)), None, True),
    "nodes by index": (lambda s, x, e, h: s.out(h[torch.arange(NUM_NODES - 1, -1, -1)]), None, False),
    "cumsum": (lambda s, x, e, h: s.out(h.cumsum(0)), None, False),
    "attention of all to all": (lambda s, x, e, h: s.out((h @ h.t()).softmax(-1) @ h), None, False),
    "virtual node": (pools, None, False),
    "number of nodes": (lambda s, x, e, h: s.out(h / x.size(0)), None, False),
    "embedding a node": (lambda s, x, e, h: s.out(s.c2(h + s.e.weight, e)), lambda s: setattr(s, "e", nn.Embedding(NUM_NODES, W)), False),
    "labels fed in": (lambda s, x, e, h: s.out(s.c2(h + s.y, e)), lambda s: s.register_buffer("y", torch.rand(NUM_NODES, W)), False),
    "linear map of nodes": (lambda s, x, e, h: s.out(h + s.l(h[:, 0])), lambda s: setattr(s, "l", nn.Linear(NUM_NODES, W)), False),
    "tuple": (lambda s, x, e, h: (s.out(h), s.c2(h, e)), None, False),
    "dict": (lambda s, x, e, h: {"logits": s.out(h), "h": [h]}, None, False),
    "one column": (lambda s, x, e, h: s.out(h)[:, 0], None, True),
    "no gradients in a part": (without_gradients, None, False),
    "detached": (lambda s, x, e, h: s.out(s.c2(h.detach(), e)), None, True),
    "control flow": (control_flow, None, False),
    "checkpoint": (lambda s, x, e, h: s.out(checkpoint(s.c2, h, e, use_reentrant=False)), None, False),
    "edges dropped": (lambda s, x, e, h: s.out(s.c2(h, dropout_edge(e, p=0.3, training=s.training)[0])), None, False),
    "edges added": (lambda s, x, e, h: s.out(s.c2(h, torch.cat([e, e.flip(0)], 1))), None, False),
    "noise": (lambda s, x, e, h: s.out(h + torch.randn_like(h)), None, False),
    "coin": (lambda s, x, e, h: s.out(h) * random.random(), None, False),
    "coin of NumPy": (lambda s, x, e, h: s.out(h) * float(np.random.rand()), None, False),
    "generator of its own": (
        lambda s, x, e, h: s.out(h * torch.rand(W, generator=s.g, dtype=h.dtype)),
        lambda s: setattr(s, "g", torch.Generator().manual_seed(1)), False,
    ),
    "counts": (counts, None, False),
    "remembers": (remembers, None, False),
    "appends": (appends, None, False),
    "updates buffers": (updates_buffer, lambda s: (s.register_buffer("seen", torch.zeros(())), s.register_buffer("mean", torch.zeros(W))), False),
    "hook that mixes": (lambda s, x, e, h: s.out(h), lambda s: s.out.register_forward_hook(lambda m, i, o: o - o.mean(0)), False),
    "hook before": (lambda s, x, e, h: s.out(h), lambda s: s.out.register_forward_pre_hook(lambda m, i: (i[0] * 2,)), False),
    "spectral norm": (lambda s, x, e, h: s.out(h), lambda s: nn.utils.parametrizations.spectral_norm(s.out), False),
    "weight norm of a layer": (lambda s, x, e, h: s.out(h), lambda s: nn.utils.parametrizations.weight_norm(s.c1.lin), False),
    "asks for a tensor": (asks_for_tensor, None, True),
    "layer's own map": (lambda s, x, e, h: s.out(s.c1.lin(x) + h), None, True),
    "gin over x, in place": (
        lambda s, x, e, h: s.out(s.g(x, e)),
        lambda s: setattr(s, "g", gnn.GINConv(nn.Sequential(nn.ELU(inplace=True), nn.Linear(NUM_FEATURES, W)))), None,
    ),
    "gin without nn, in place": (
        lambda s, x, e, h: s.l(F.elu(s.g(x, e), inplace=True)),
        lambda s: (setattr(s, "g", gnn.GINConv(nn.Identity())), setattr(s, "l", nn.Linear(NUM_FEATURES, NUM_CLASSES))), None,
    ),
    "list of layers": (lambda s, x, e, h: s.out(s.layers[0](h, e)), lambda s: setattr(s, "layers", [s.c2]), True),
    "dict of layers": (lambda s, x, e, h: s.out(s.d["a"](h, edge_index=e)), lambda s: setattr(s, "d", nn.ModuleDict({"a": gnn.GATConv(W, W)})), True),
    "gat, in place": (lambda s, x, e, h: s.out(s.act(s.a(h, e))), lambda s: setattr(s, "a", gnn.GATConv(W, W // 2, heads=2)), True),
    "Sequential in Sequential": (
        lambda s, x, e, h: s.out(s.q(h, e)),
        lambda s: setattr(s, "q", gnn.Sequential("x, edge_index", [
            (gnn.GCNConv(W, W), "x, edge_index -> h"), nn.ReLU(),
            (gnn.Sequential("x, edge_index", [(gnn.GCNConv(W, W), "x, edge_index -> x")]), "h, edge_index -> h2"),
            (lambda a, b: a + b, "h, h2 -> h"),
        ])), True,
    ),
}  # fmt: skip


def pair(name):
    models = []
    for _ in range(2):
        torch.manual_seed(1)
        models.append(randomise(Model(*BODIES[name][:2])).train())
    return models


def seed():
    torch.manual_seed(5)
    random.seed(5)
    np.random.seed(5)


@pytest.mark.parametrize("rungs", [(), ("cache_norm",)], ids=["all", "cache_norm"])
@pytest.mark.parametrize("name", BODIES)
def test_the_numbers_are_the_users_models(name, rungs):
    """Two steps in train mode and one pass in eval mode: outputs, gradients, buffers, what the forward writes."""
    reference, model = pair(name)
    given = data()
    seed()
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[2]
    before = copy.deepcopy({key: value.clone() for key, value in model.state_dict().items()})
    built = build(model, given, *rungs)
    built.observe(*given.call)
    assert torch.equal(states[0], torch.get_rng_state())
    assert states[1:] == (random.getstate(), np.random.get_state()[2])
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    cuts = BODIES[name][2]
    if cuts is not None:
        assert built.order.is_whole != (cuts and not rungs), built.untraceable or built.mixes
    for step in range(3):
        if step == 2:
            reference.eval(), model.eval()
        seed()
        want = first(reference(given.x.clone(), given.edge_index))
        seed()
        got = first(built.model(*given.call))
        if step < 2 and not built.order.is_whole:
            want = want[given.train_mask]
        torch.testing.assert_close(got, want, rtol=0, atol=1e-9)
        if step < 2:
            cotangent = torch.randn_like(want)
            wanted = torch.autograd.grad(
                (want * cotangent).sum(), list(reference.parameters()), allow_unused=True
            )
            found = torch.autograd.grad((got * cotangent).sum(), list(model.parameters()), allow_unused=True)
            for one, two in zip(wanted, found, strict=True):
                zero = torch.zeros((), dtype=want.dtype)
                torch.testing.assert_close(
                    (zero if two is None else two) + 0 * (zero if one is None else one),
                    (zero if one is None else one) + 0 * (zero if two is None else two),
                    rtol=0, atol=1e-9,
                )  # fmt: skip
    for key, value in reference.state_dict().items():
        torch.testing.assert_close(model.state_dict()[key], value, rtol=0, atol=1e-9)
    assert (built.model.scale, built.model.history) == (reference.scale, reference.history)
    assert hasattr(built.model, "h") == hasattr(reference, "h")
