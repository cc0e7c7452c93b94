"""A model with a bit of everything that a user may change, its fast form, and that both say the same."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric import nn as gnn

from tests.rewrites.exact.graphs import NUM_CLASSES, NUM_FEATURES, build, data, randomise


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.norm, self.c2 = (
            gnn.GCNConv(NUM_FEATURES, 8),
            nn.BatchNorm1d(8),
            gnn.GCNConv(8, NUM_CLASSES),
        )
        self.norm.eval()  # frozen, so that rows stay apart
        self.dropout, self.act, self.options, self.temperature = (
            0.0,
            torch.relu,
            {"scale": 1.0},
            torch.tensor(1.0),
        )

    def forward(self, x, edge_index, edge_weight=None):
        h = self.act(self.norm(self.c1(x, edge_index, edge_weight)))
        h = F.dropout(h, self.dropout, self.training)
        return self.c2(h, edge_index, edge_weight) * self.options["scale"] * self.temperature


def made(prepare=None):
    torch.manual_seed(1)
    model, given = randomise(Net()), data()
    if prepare is not None:
        prepare(model, given)
    return model, given, build(model, given).model


def train(model):
    model.train()
    model.norm.eval()


def assert_same(model, given, fast, *, modes=(True, False), tolerance=1e-9):
    """In train mode the training nodes' rows and their gradients; in eval mode all rows."""
    for mode in modes:
        train(model) if mode else model.eval()
        torch.manual_seed(2)
        want = model(*given.call)
        torch.manual_seed(2)
        got = fast(*given.call)
        want = want[given.train_mask] if mode else want
        torch.testing.assert_close(got, want, rtol=0, atol=tolerance)
        parameters = [p for p in model.parameters() if p.requires_grad]
        cotangent = torch.randn_like(want)
        for one, two in zip(
            torch.autograd.grad((want * cotangent).sum(), parameters),
            torch.autograd.grad((got * cotangent).sum(), parameters),
            strict=True,
        ):
            torch.testing.assert_close(two, one, rtol=0, atol=tolerance)
