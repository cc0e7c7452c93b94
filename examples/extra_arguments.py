"""A forward that asks for more than x and edge_index, and returns more than logits.

    python examples/extra_arguments.py [--epochs 60]

What the forward asks for under the name of one of the graph's attributes it is given; of other names one says what they
are (`forward_args`). Of several values that it returns, `output` says which is the logits.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import GATConv

import fasthop


class Roads(torch.nn.Module):
    """Attention over the length of roads; positions beside the features; a temperature that is a number."""

    def __init__(self, in_channels: int, out_channels: int, hidden_channels: int = 16) -> None:
        super().__init__()
        self.first = GATConv(in_channels + 2, hidden_channels, edge_dim=1)
        self.last = GATConv(hidden_channels, out_channels, edge_dim=1)

    def forward(
        self, x: Tensor, edge_index: Tensor, edge_attr: Tensor, where: Tensor, *, temperature: float
    ) -> tuple[Tensor, Tensor]:
        hidden = self.first(torch.cat([x, where], dim=1), edge_index, edge_attr).relu()
        return hidden, self.last(hidden, edge_index, edge_attr) / temperature


def towns(num_nodes: int = 500) -> Data:
    """Towns on a map, joined to their nearest; the class is the quarter of the map, which the features hardly tell."""
    generator = torch.Generator().manual_seed(0)
    pos = torch.rand(num_nodes, 2, generator=generator)
    away = torch.cdist(pos, pos).fill_diagonal_(torch.inf)
    length, near = away.topk(6, largest=False)
    y = 2 * (pos[:, 0] > 0.5).long() + (pos[:, 1] > 0.5).long()
    return Data(
        x=torch.randn(num_nodes, 8, generator=generator),
        edge_index=torch.stack([near.flatten(), torch.arange(num_nodes).repeat_interleave(6)]),
        edge_attr=length.flatten().unsqueeze(1),
        pos=pos,
        y=y,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains a model with arguments of its own.")
    parser.add_argument("--epochs", type=int, default=60)
    options = parser.parse_args()

    trained = fasthop.train(
        Roads,
        towns(),
        split="60/20/20",
        forward_args={"where": "pos", "temperature": 0.5},
        output=1,
        epochs=options.epochs,
        evaluate_every=10,
    )
    print(trained)


if __name__ == "__main__":
    main()
