"""The rows of `exact.py`: what is trained, and how many times as fast it is to be. Reads as a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch_geometric.nn import SAGEConv

from fasthop.graph.graph import Graph
from fasthop.train.models import GAT, GCN, GIN, GraphSAGE, layer_channels

ARXIV = "synthetic:arxiv"
QUICK_ARXIV = "synthetic:nodes=6000,degree=14,features=128,classes=40"
PUBMED, CORA = "planetoid:PubMed", "planetoid:Cora"
NO_CUT = ("receptive_field",)
Model = Callable[[Graph, float], torch.nn.Module]


class MaxSAGE(GraphSAGE):
    """GraphSAGE with the maximum of the neighbours."""

    def __init__(self, in_channels: int, hidden: int, out: int, num_layers: int, dropout: float) -> None:
        super().__init__(in_channels, hidden, out, num_layers, dropout)
        channels = layer_channels(in_channels, hidden, out, num_layers)
        self.convs = torch.nn.ModuleList([SAGEConv(i, o, aggr="max") for i, o in channels])


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table.

    model: (graph, dropout) to a fresh model. bar: PyG's time over fasthop's, at least. peak_bar: fasthop's peak over PyG's, at
    most, or None where none is asked for. without: rungs that are left out. against: what PyG is given as edges.
    is_widest: the width is the largest whose baseline fits. kind: "step", or "accelerate" for the scripts.
    """

    name: str
    graph: str
    bar: float
    model: Model
    dropout: float = 0.0
    peak_bar: float | None = None
    without: tuple[str, ...] = ()
    against: str = "edge_index"
    is_widest: bool = False
    kind: str = "step"

    def at_width(self, channels: int) -> Row:
        """A GAT of 8 heads of so many channels."""
        return replace(self, name=f"{self.name} 8x{channels}", model=gat(channels), is_widest=False)


def stack(make: Callable[..., torch.nn.Module], width: int, num_layers: int) -> Model:
    """A model of equal hidden layers."""
    return lambda graph, dropout: make(graph.num_features, width, graph.num_classes, num_layers, dropout)


def gat(channels: int) -> Model:
    """Two layers, 8 heads of so many channels in the first."""
    return stack(GAT, channels, 2)


def table() -> tuple[Row, ...]:
    """The rows, quick ones first."""
    gcn, small_gat = stack(GCN, 16, 2), gat(8)
    small = [
        Row(name=f"gcn-16 {short}{said}", graph=graph, bar=bar, model=gcn, dropout=dropout)
        for short, graph, bar in (("cora", "cora", 25), ("Cora", CORA, 25), ("PubMed", PUBMED, 60))
        for said, dropout in (("", 0.0), (" dropout", 0.5))
    ]
    scripts = [
        Row(
            name=f"accelerate {short}{said}",
            graph=graph,
            bar=bar,
            model=gcn,
            dropout=dropout,
            kind="accelerate",
        )
        for short, graph, bar in (("cora", "cora", 5), ("Cora", CORA, 5), ("PubMed", PUBMED, 20))
        for said, dropout in (("", 0.0), (" dropout", 0.5))
    ]
    deep = stack(GCN, 256, 3)
    return (
        *small,
        *scripts,
        Row(name="gat-8x8 PubMed no receptive_field", graph=PUBMED, bar=5, model=small_gat, peak_bar=1 / 3, without=NO_CUT),
        Row(name="gat-8x8 PubMed", graph=PUBMED, bar=15, model=small_gat, peak_bar=1 / 5),
        Row(name="gcn-32 arxiv", graph=ARXIV, bar=10, model=stack(GCN, 32, 3)),
        Row(name="gcn-256 arxiv", graph=ARXIV, bar=8, model=deep, peak_bar=1 / 4),
        Row(name="gcn-256 arxiv SparseTensor", graph=ARXIV, bar=1.8, model=deep, against="SparseTensor"),
        Row(name="sage-mean-256 arxiv", graph=ARXIV, bar=5, model=stack(GraphSAGE, 256, 3)),
        Row(name="gin-256 arxiv", graph=ARXIV, bar=4, model=stack(GIN, 256, 3)),
        Row(name="sage-max-256 arxiv", graph=ARXIV, bar=8, model=stack(MaxSAGE, 256, 3)),
        Row(name="gat arxiv no receptive_field", graph=ARXIV, bar=4, model=gat(1), peak_bar=1 / 4, without=NO_CUT,
            is_widest=True),
    )  # fmt: skip
