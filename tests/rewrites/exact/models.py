"""The matrix: models by name, and of each the rungs that must act and those that must refuse, with a word of the reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric import nn as gnn

from tests.rewrites.exact.graphs import ALL, NUM_CLASSES, NUM_FEATURES

HIDDEN = 8
N, S, F_, H, R, _, P = ALL


class Net(nn.Module):
    """Layers with a norm, an activation and dropout between them, perhaps with residuals, jumping knowledge, linear maps
    before and after, and more heads."""

    def __init__(
        self,
        conv: Callable[..., nn.Module],
        *,
        depth: int = 2,
        norm: Callable[[], nn.Module] = nn.Identity,
        dropout: float = 0.0,
        input_dropout: float = 0.0,
        residual: bool = False,
        jk: str | None = None,
        before: bool = False,
        after: bool = True,
        shared: bool = False,
        heads: int = 1,
    ) -> None:
        super().__init__()
        self.before = nn.Linear(NUM_FEATURES, HIDDEN) if before else None
        widths = [HIDDEN if before else NUM_FEATURES] + [HIDDEN] * (depth - 1)
        self.convs = nn.ModuleList([conv(width, HIDDEN) for width in widths])
        if shared:
            self.convs.append(self.convs[-1])
        self.norms = nn.ModuleList([norm() for _ in self.convs])
        self.jk = None if jk is None else gnn.JumpingKnowledge(jk, HIDDEN, len(self.convs))
        width = HIDDEN * (len(self.convs) if jk == "cat" else 1)
        self.after = (
            nn.Sequential(nn.Linear(width, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, NUM_CLASSES))
            if after
            else None
        )
        self.others = nn.ModuleList([nn.Linear(width, 2) for _ in range(heads - 1)])
        self.dropout, self.input_dropout, self.residual = dropout, input_dropout, residual

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Any:
        weights = () if edge_weight is None else (edge_weight,)
        x = F.dropout(x, self.input_dropout, self.training)
        if self.before is not None:
            x = self.before(x).tanh()
        kept = []
        for i, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            h = norm(conv(x, edge_index, *weights)).relu()
            h = F.dropout(h, self.dropout, self.training)
            x = h + x if self.residual and i > 0 else h
            kept.append(x)
        if self.jk is not None:
            x = self.jk(kept)
        out = x if self.after is None else self.after(x)
        return (out, *(head(x) for head in self.others)) if len(self.others) else out


class GCNII(nn.Module):
    """GCN2Conv, whose layers all read the first one's input."""

    def __init__(self, depth: int = 3, **options: Any) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(NUM_FEATURES, HIDDEN), nn.Linear(HIDDEN, NUM_CLASSES)
        self.convs = nn.ModuleList(
            [gnn.GCN2Conv(HIDDEN, alpha=0.2, theta=0.5, layer=i + 1, **options) for i in range(depth)]
        )

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = x_0 = self.first(x).relu()
        for conv in self.convs:
            h = conv(h, x_0, edge_index).relu()
        return self.last(h)


class Appnp(nn.Module):
    """Predict, then propagate."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.lin, self.prop = nn.Linear(NUM_FEATURES, NUM_CLASSES), gnn.APPNP(K=4, alpha=0.1, **options)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.prop(self.lin(x), edge_index)


class Mixed(nn.Module):
    """Two kinds of layers side by side, one of them not covered where asked."""

    def __init__(self, other: Callable[..., nn.Module]) -> None:
        super().__init__()
        self.a, self.b = gnn.GCNConv(NUM_FEATURES, HIDDEN), other(NUM_FEATURES, HIDDEN)
        self.out = gnn.SAGEConv(2 * HIDDEN, NUM_CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.out(torch.cat([self.a(x, edge_index), self.b(x, edge_index)], 1).relu(), edge_index)


def gin(i: int, o: int, **options: Any) -> nn.Module:
    return gnn.GINConv(nn.Sequential(nn.Linear(i, o), nn.ReLU(), nn.Linear(o, o)), **options)


def heads(conv: Callable[..., nn.Module], **options: Any) -> Callable[..., nn.Module]:
    return lambda i, o: conv(i, o // 2, heads=2, **options)


def of(conv: Callable[..., nn.Module], **options: Any) -> Callable[..., nn.Module]:
    return lambda i, o: conv(i, o, **options)


def basic(kind: Any, **options: Any) -> Callable[[], nn.Module]:
    depth = options.pop("num_layers", 2)
    return lambda: kind(NUM_FEATURES, HIDDEN, depth, NUM_CLASSES, **options)


def net(conv: Callable[..., nn.Module], **options: Any) -> Callable[[], nn.Module]:
    return lambda: Net(conv, **options)


@dataclass(frozen=True, kw_only=True)
class Case:
    """make: the model. acts, refuses: of the seven rungs together; the value is a part of the reason. weighted: called
    with edge weights, too. Rungs that are in neither may do as they find best."""

    make: Callable[[], nn.Module]
    acts: tuple[str, ...]
    refuses: dict[str, str]
    weighted: bool = False


def case(make: Callable[[], nn.Module], *acts: str, weighted: bool = False, **refuses: str) -> Case:
    return Case(make=make, acts=acts, refuses=refuses, weighted=weighted)


FREE = (S, R, P)
"""What acts on every model whose rows stay apart."""
COUPLED = {R: "known to leave the nodes' rows apart", P: "known to leave the nodes' rows apart"}
NO_NORM = {N: "No layer of the model normalises"}
DROPPED = {H: "something random or learned comes before"}
