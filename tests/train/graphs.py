"""Small graphs for the tests of training: directed, with what goes wrong in practice."""

from __future__ import annotations

from dataclasses import replace

import torch

from fasthop.graph.graph import Graph


def digraph(
    num_nodes: int = 60,
    num_edges: int = 240,
    num_features: int = 8,
    num_classes: int = 3,
    *,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
    weighted: bool = False,
    loops: bool = True,
) -> Graph:
    """A random digraph with self-loops, parallel edges and, in its last three nodes, isolated ones."""
    generator = torch.Generator().manual_seed(seed)
    edges = torch.randint(0, num_nodes - 3, (2, num_edges), generator=generator)
    if loops:
        edges = torch.cat([edges, torch.tensor([[0, 5, 5], [0, 5, 5]])], dim=1)
    else:
        edges = edges[:, edges[0] != edges[1]]
    edges = torch.cat([edges, edges[:, :4]], dim=1)
    weight = torch.rand(edges.size(1), generator=generator, dtype=dtype) + 0.5 if weighted else None
    masks = torch.zeros(3, num_nodes, dtype=torch.bool)
    order = torch.randperm(num_nodes, generator=generator)
    for mask, nodes in zip(masks, order.split(num_nodes // 3), strict=False):
        mask[nodes] = True
    return Graph(
        x=torch.randn(num_nodes, num_features, generator=generator, dtype=dtype),
        edge_index=edges,
        edge_weight=weight,
        y=torch.randint(0, num_classes, (num_nodes,), generator=generator),
        train_mask=masks[0],
        val_mask=masks[1],
        test_mask=masks[2],
        num_nodes=num_nodes,
        num_classes=num_classes,
        name="digraph",
    )


def several_labels(num_classes: int = 3, *, dtype: torch.dtype = torch.float32) -> Graph:
    """The digraph with several labels a node; the last node has none."""
    graph = digraph(dtype=dtype)
    generator = torch.Generator().manual_seed(1)
    y = (torch.rand(graph.num_nodes, num_classes, generator=generator) < 0.4).float()
    unlabelled = ~(graph.train_mask | graph.val_mask | graph.test_mask)
    y[unlabelled] = float("nan")
    return replace(graph, y=y, num_classes=num_classes)
