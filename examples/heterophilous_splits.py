"""A heterophilous graph with ten splits: trains on each, and prints the mean accuracy with its standard deviation.

    python examples/heterophilous_splits.py [--data graph.npz] [--splits 10] [--epochs 60]

Without --data it makes a small file in the layout that heterophilous benchmarks are published in: node_features,
node_labels, edges [E, 2] with each undirected edge once, and train_masks, val_masks, test_masks of shape [10, N].
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch_geometric.nn import GraphSAGE

import fasthop


def make_file(path: Path, num_nodes: int = 400, num_classes: int = 4, num_splits: int = 10) -> None:
    """A graph in which most edges join a class to the next one, so that neighbours are seldom of one class."""
    random = np.random.default_rng(0)
    labels = random.integers(0, num_classes, num_nodes)
    features = random.normal(size=(num_nodes, 16)).astype(np.float32)
    features[np.arange(num_nodes), labels] += 1.0
    source = random.integers(0, num_nodes, 6 * num_nodes)
    target = random.integers(0, num_nodes, 6 * num_nodes)
    linked = (labels[target] == (labels[source] + 1) % num_classes) | (random.random(source.size) < 0.1)
    pairs = np.stack([np.minimum(source, target), np.maximum(source, target)], axis=1)[linked]
    edges = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)
    masks = np.zeros((3, num_splits, num_nodes), dtype=bool)
    for split in range(num_splits):
        order = random.permutation(num_nodes)
        for part, nodes in enumerate(np.split(order, [num_nodes // 2, 3 * num_nodes // 4])):
            masks[part, split, nodes] = True
    np.savez(
        path,
        node_features=features,
        node_labels=labels,
        edges=edges,
        train_masks=masks[0],
        val_masks=masks[1],
        test_masks=masks[2],
    )


def accuracy_on_split(path: Path, split: int, epochs: int) -> float:
    """Trains a GraphSAGE on one split; the test accuracy, in percent, of the epoch that was best in validation."""
    graph = fasthop.load_graph(path, split=split)
    data = graph.to_data()
    torch.manual_seed(split)
    model = GraphSAGE(graph.num_features, hidden_channels=32, num_layers=2, out_channels=graph.num_classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    fast = fasthop.accelerate(model, data)
    best_val = best_test = 0.0
    for _ in range(epochs):
        fast.model.train()
        optimizer.zero_grad()
        out = fast.model(fast.data.x, fast.data.edge_index)
        F.cross_entropy(out[fast.data.train_mask], fast.data.y[fast.data.train_mask]).backward()
        optimizer.step()
        fast.model.eval()
        with torch.no_grad():
            right = (fast.model(graph.x, graph.edge_index).argmax(dim=1) == graph.y).double()
        val, test = (100 * float(right[mask].mean()) for mask in (graph.val_mask, graph.test_mask))
        if val > best_val:
            best_val, best_test = val, test
    return best_test


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains on each split of a heterophilous graph.")
    parser.add_argument("--data", type=Path, help="an .npz file in the heterophilous layout")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=60)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.data or Path(folder) / "small.npz"
        if options.data is None:
            make_file(path)
        graph = fasthop.load_graph(path, split=0)
        for said in graph.notes:
            print(said["en"])
        accuracies = []
        for split in range(options.splits):
            accuracies.append(accuracy_on_split(path, split, options.epochs))
            print(f"split {split}: test accuracy {accuracies[-1]:.1f} %")
    spread = statistics.stdev(accuracies) if len(accuracies) > 1 else 0.0
    print(f"over {len(accuracies)} splits: {statistics.mean(accuracies):.1f} ± {spread:.1f} %")


if __name__ == "__main__":
    main()
