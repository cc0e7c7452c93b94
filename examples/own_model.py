"""A model of one's own in one file: `fasthop bench` and `fasthop train` take it by its place, `fasthop.train` by its name.

    fasthop bench --model examples/own_model.py:make_model --model-arg hidden_channels=32
    python examples/own_model.py [--data cora] [--epochs 100]

What `make_model` asks for under the names in_channels and out_channels comes from the graph.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor
from torch_geometric.nn import GCNConv, SAGEConv

import fasthop


class Net(torch.nn.Module):
    """A GCN layer, then a GraphSAGE layer with the first one's rows beside what it sums."""

    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int) -> None:
        super().__init__()
        self.first = GCNConv(in_channels, hidden_channels)
        self.second = SAGEConv(hidden_channels, hidden_channels)
        self.last = torch.nn.Linear(2 * hidden_channels, out_channels)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        first = self.first(x, edge_index).relu()
        second = self.second(first, edge_index).relu()
        return self.last(torch.cat([first, second], dim=1))


def make_model(in_channels: int, out_channels: int, hidden_channels: int = 16) -> Net:
    """What the command line calls; a class would do as well."""
    return Net(in_channels, hidden_channels, out_channels)


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains a model of one's own by the fastest exact way.")
    parser.add_argument("--data", default="cora", help="a graph's name")
    parser.add_argument("--epochs", type=int, default=100)
    options = parser.parse_args()

    trained = fasthop.train(
        make_model, options.data, model_args={"hidden_channels": 32}, epochs=options.epochs, evaluate_every=10
    )
    print(trained)


if __name__ == "__main__":
    main()
