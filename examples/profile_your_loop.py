"""Measure a training loop of your own: PyG's two-layer GCN on the bundled Cora, eager against a twin in bfloat16.

    python examples/profile_your_loop.py [--epochs 50] [--lang en]

Nothing of fasthop is in the loops: `fasthop.profile` takes any function that does one epoch.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.nn import GCN

import fasthop


def make_epoch(data: Data, *, mixed: bool) -> Callable[[], None]:
    """A function that trains for one full-batch epoch, with a model and an optimiser of its own."""
    torch.manual_seed(0)
    model = GCN(data.num_features, hidden_channels=16, num_layers=2, out_channels=7)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)

    def epoch() -> None:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=mixed):
            out = model(data.x, data.edge_index)
            loss = F.cross_entropy(out[data.train_mask], data.y[data.train_mask])  # type: ignore[index]
        loss.backward()
        optimizer.step()

    return epoch


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures two training loops by turns.")
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--lang", choices=("en", "zh"), default="en")
    options = parser.parse_args()

    data = fasthop.load_graph("cora").to_data()
    mine, theirs = make_epoch(data, mixed=False), make_epoch(data, mixed=True)
    print(fasthop.profile(mine, epochs=options.epochs).text(options.lang))
    print()
    comparison = fasthop.profile({"float32": mine, "bfloat16": theirs}, epochs=options.epochs)
    print(comparison.text(options.lang))


if __name__ == "__main__":
    main()
