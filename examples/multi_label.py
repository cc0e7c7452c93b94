"""Several labels a node: y of zeros and ones [N, C], the loss bce, and metrics over labels.

    python examples/multi_label.py [--epochs 100]

A graph with such a y is trained with bce and judged by ROC-AUC without being told so. A row of NaN stands for a node
without labels.
"""

from __future__ import annotations

import argparse

import torch
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE

import fasthop


def interests(num_nodes: int = 600, num_labels: int = 5) -> Data:
    """People with interests, who know people that share some of them; what is written about them hints at both."""
    generator = torch.Generator().manual_seed(0)
    y = (torch.rand(num_nodes, num_labels, generator=generator) < 0.3).float()
    pairs = torch.randint(0, num_nodes, (2, 20 * num_nodes), generator=generator)
    shared = (y[pairs[0]] * y[pairs[1]]).sum(dim=1)
    edges = pairs[:, shared > 0]
    x = y @ torch.randn(num_labels, 16, generator=generator)
    x = x + 3 * torch.randn(num_nodes, 16, generator=generator)
    part = torch.rand(num_nodes, generator=generator)
    y[part > 0.9] = torch.nan  # nobody asked these
    return Data(
        x=x,
        edge_index=torch.cat([edges, edges.flip(0)], dim=1),
        y=y,
        train_mask=part < 0.5,
        val_mask=(part >= 0.5) & (part < 0.7),
        test_mask=(part >= 0.7) & (part <= 0.9),
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Trains a GraphSAGE on a graph whose nodes have several labels."
    )
    parser.add_argument("--epochs", type=int, default=100)
    options = parser.parse_args()

    data = interests()
    torch.manual_seed(0)
    model = GraphSAGE(data.num_features, hidden_channels=16, num_layers=2, out_channels=data.y.size(1))  # type: ignore[union-attr]
    fast = fasthop.accelerate(model, data)
    before = fast.evaluate("roc_auc")
    trained = fast.train(epochs=options.epochs, lr=0.01)
    print(f"loss {trained.losses[0]:.3f} at first, {trained.losses[-1]:.3f} at last")
    for metric in ("roc_auc", "average_precision", "macro_f1"):
        print(f"{metric} on the test nodes: {fast.evaluate(metric).test:.1f} %")
    print(f"better than untrained: {fast.evaluate('roc_auc').test > before.test}")


if __name__ == "__main__":
    main()
