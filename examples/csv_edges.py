"""An edge list with string ids: written as CSV, loaded, trained on, and predicted by the same ids.

    python examples/csv_edges.py [--folder my_graph] [--epochs 100] [--out predictions.csv]

Without --folder it makes a small one: edges.csv (source,target) and nodes.csv (id, features, label, split).
"""

from __future__ import annotations

import argparse
import csv
import random
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch_geometric.nn import GCN

import fasthop

TEAMS = ("red", "green", "blue")


def make_folder(folder: Path, num_people: int = 240) -> None:
    """People who mostly know others of their own team; every fourth has no label, and is to be predicted."""
    draw = random.Random(0)
    people = [f"person-{draw.randrange(16**6):06x}" for _ in range(num_people)]
    people = list(dict.fromkeys(people))
    team = {name: draw.choice(TEAMS) for name in people}
    with (folder / "nodes.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "age", "height", "label", "split"])
        for number, name in enumerate(people):
            taste = TEAMS.index(team[name])
            features = [f"{draw.gauss(taste, 1):.3f}", f"{draw.gauss(-taste, 1):.3f}"]
            known = number % 4 != 0
            part = draw.choice(["train", "train", "val", "test"]) if known else ""
            rows.writerow([name, *features, team[name] if known else "", part])
    with (folder / "edges.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["source", "target"])
        for _ in range(5 * num_people):
            first, second = draw.sample(people, 2)
            if team[first] == team[second] or draw.random() < 0.1:
                rows.writerow([first, second])


def train(graph: fasthop.Graph, epochs: int) -> torch.Tensor:
    """Trains a GCN; the logits [N, C] of all nodes."""
    torch.manual_seed(0)
    model = GCN(graph.num_features, hidden_channels=16, num_layers=2, out_channels=graph.num_classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    fast = fasthop.accelerate(model, graph.to_data())
    for _ in range(epochs):
        fast.model.train()
        optimizer.zero_grad()
        out = fast.model(fast.data.x, fast.data.edge_index)
        F.cross_entropy(out[fast.data.train_mask], fast.data.y[fast.data.train_mask]).backward()
        optimizer.step()
    fast.model.eval()
    with torch.no_grad():
        return fast.model(graph.x, graph.edge_index)


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains on an edge list with string ids.")
    parser.add_argument("--folder", type=Path, help="a folder with edges.csv and nodes.csv")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--out", type=Path, help="a CSV file for the predictions")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        if options.folder is None:
            make_folder(folder)
        graph = fasthop.load_graph(folder, undirected=True)
    assert graph.node_ids is not None
    for said in graph.notes:
        print(said["en"])

    logits = train(graph, options.epochs)
    confidence, label = logits.softmax(dim=1).max(dim=1)
    right = label == graph.y
    print(f"test accuracy {100 * float(right[graph.test_mask].double().mean()):.1f} %")

    names = graph.class_names or tuple(str(number) for number in range(graph.num_classes))
    rows = [
        (str(graph.node_ids[node]), names[int(label[node])], f"{float(confidence[node]):.3f}")
        for node in range(graph.num_nodes)
        if not graph.labelled[node]
    ]
    for row in rows[:3]:
        print(*row)
    print(f"{len(rows)} nodes without a label were predicted")
    if options.out is not None:
        with options.out.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("id", "label", "confidence"), *rows])


if __name__ == "__main__":
    main()
