"""Neighbor sampling without pyg-lib or torch-sparse: PyG's loader contract, and a GCN that stays right on it.

    python examples/neighbor_loader.py

Prints what a batch holds, and how far the outputs of a sampled GCN are from the full batch's when every
neighbor is taken, so that any difference is a mistake: once as a loop is usually written, once with the
full graph's weights.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

import fasthop
from fasthop.train.sample_weights import GCNWeights


def show_batches() -> None:
    """One epoch of batches of the bundled Cora: seeds first, then the neighbors hop by hop."""
    data = fasthop.load_graph("cora").to_data()
    loader = fasthop.NeighborLoader(
        data, num_neighbors=[10, 5], batch_size=128, input_nodes=data.train_mask, shuffle=True
    )
    for number, batch in enumerate(loader):
        print(
            f"batch {number}: {batch.batch_size} seeds, {batch.num_nodes} nodes, {batch.num_edges} edges, "
            f"x {list(batch.x.shape)}"
        )


def random_digraph(num_nodes: int = 60, num_edges: int = 240) -> tuple[Tensor, Tensor]:
    """x and edge_index of a directed graph with random edges and features, in float64."""
    generator = torch.Generator().manual_seed(0)
    edge_index = torch.randint(num_nodes, (2, num_edges), generator=generator)
    x = torch.randn(num_nodes, 8, generator=generator, dtype=torch.float64)
    return x, edge_index


def two_layers(convs: list[GCNConv], x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Tensor:
    """A two-layer GCN."""
    hidden = convs[0](x, edge_index, edge_weight).relu()
    return convs[1](hidden, edge_index, edge_weight)


def show_weights() -> None:
    """The largest error at the seeds of a batch that holds all their neighbors."""
    x, edge_index = random_digraph()
    data = Data(x=x, edge_index=edge_index)
    torch.manual_seed(0)
    convs = [GCNConv(8, 8).double(), GCNConv(8, 4).double()]
    full = two_layers(convs, x, edge_index, None)[:4]

    loader = fasthop.NeighborLoader(data, num_neighbors=[-1, -1], batch_size=4, input_nodes=torch.arange(4))
    batch = next(iter(loader))
    naive = two_layers(convs, batch.x, batch.edge_index, None)[:4]

    # The layers' own normalisation off, the full graph's weights in; one self-loop a node comes at the end.
    for conv in convs:
        conv.normalize = False
    edge_weight, loop_weight = GCNWeights(data).for_batch(batch)
    loops = torch.arange(batch.num_nodes).expand(2, -1)
    with_loops = torch.cat([batch.edge_index, loops], dim=1)
    weighted = two_layers(convs, batch.x, with_loops, torch.cat([edge_weight, loop_weight]))[:4]

    print(f"error with the subgraph's degrees: {(naive - full).abs().max().item():.2f}")
    print(f"error with the full graph's weights below 1e-10: {bool((weighted - full).abs().max() < 1e-10)}")


def main() -> None:
    show_batches()
    show_weights()


if __name__ == "__main__":
    main()
