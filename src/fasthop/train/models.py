"""The reference models: GCN, GraphSAGE, GAT and GIN out of PyG's own layers, as a PyG user writes them.

The tutorial's model is `GCN(1433, 16, 7, num_layers=2, dropout=0.0)`. Every model is
`forward(x, edge_index)`; GCN also takes `edge_weight`. They return logits `[N, out_channels]`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn import GATConv, GCNConv, GINConv, SAGEConv


class GCN(torch.nn.Module):
    """Graph convolutional network (Kipf and Welling 2017): dropout, GCNConv, ReLU; no ReLU at the end."""

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 2,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.dropout = dropout
        channels = layer_channels(in_channels, hidden_channels, out_channels, num_layers)
        self.convs = torch.nn.ModuleList([GCNConv(i, o) for i, o in channels])

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        for conv in self.convs[:-1]:
            x = F.dropout(x, p=self.dropout, training=self.training)
            x = conv(x, edge_index, edge_weight).relu()
        x = F.dropout(x, p=self.dropout, training=self.training)
        return self.convs[-1](x, edge_index, edge_weight)


class GraphSAGE(torch.nn.Module):
    """GraphSAGE with the mean of the neighbours (Hamilton, Ying and Leskovec 2017)."""

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 2,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.dropout = dropout
        channels = layer_channels(in_channels, hidden_channels, out_channels, num_layers)
        self.convs = torch.nn.ModuleList([SAGEConv(i, o) for i, o in channels])

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        for conv in self.convs[:-1]:
            x = F.dropout(x, p=self.dropout, training=self.training)
            x = conv(x, edge_index).relu()
        x = F.dropout(x, p=self.dropout, training=self.training)
        return self.convs[-1](x, edge_index)


class GAT(torch.nn.Module):
    """Graph attention network (Velickovic et al. 2018): `heads` heads of `hidden_channels` each, ELU,
    one head in the last layer; dropout on the inputs and on the attention."""

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 2,
        dropout: float = 0.0,
        heads: int = 8,
    ) -> None:
        super().__init__()
        self.dropout = dropout
        self.convs = torch.nn.ModuleList()
        for _ in range(num_layers - 1):
            self.convs.append(GATConv(in_channels, hidden_channels, heads=heads, dropout=dropout))
            in_channels = hidden_channels * heads
        self.convs.append(GATConv(in_channels, out_channels, heads=1, concat=False, dropout=dropout))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        for conv in self.convs[:-1]:
            x = F.dropout(x, p=self.dropout, training=self.training)
            x = F.elu(conv(x, edge_index))
        x = F.dropout(x, p=self.dropout, training=self.training)
        return self.convs[-1](x, edge_index)


class GIN(torch.nn.Module):
    """Graph isomorphism network (Xu et al. 2019): the sum of the neighbours through a two-layer MLP a hop."""

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 2,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.dropout = dropout
        self.convs = torch.nn.ModuleList()
        for i, o in layer_channels(in_channels, hidden_channels, out_channels, num_layers):
            mlp = torch.nn.Sequential(
                torch.nn.Linear(i, hidden_channels), torch.nn.ReLU(), torch.nn.Linear(hidden_channels, o)
            )
            self.convs.append(GINConv(mlp))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        for conv in self.convs[:-1]:
            x = F.dropout(x, p=self.dropout, training=self.training)
            x = conv(x, edge_index).relu()
        x = F.dropout(x, p=self.dropout, training=self.training)
        return self.convs[-1](x, edge_index)


REFERENCE_MODELS: dict[str, Callable[..., torch.nn.Module]] = {
    "gcn": GCN,
    "sage": GraphSAGE,
    "gat": GAT,
    "gin": GIN,
}


def layer_channels(
    in_channels: int, hidden_channels: int, out_channels: int, num_layers: int
) -> list[tuple[int, int]]:
    """The (in, out) widths of each of `num_layers` layers."""
    widths = [in_channels] + [hidden_channels] * (num_layers - 1) + [out_channels]
    return list(pairwise(widths))
