"""What a graph looks like in figures: for the doctor, the report and the checks of a user's data."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fasthop.graph.check import values_of
from fasthop.graph.graph import Graph


@dataclass(frozen=True, kw_only=True, slots=True)
class GraphStats:
    """Figures of one graph. Degrees are in-degrees; shares are from 0 to 1.

    num_isolated: nodes without an edge either way, self-loops aside.
    num_parallel: edges that repeat the source and target of another.
    directed: whether some edge lacks its reverse. homophily: share of the edges between labelled nodes
    (self-loops aside) whose ends are of one class; None where there is none, and for multi-label graphs.
    x_density: share of x that is not zero; None without x. class_counts: labelled nodes of each class or with each label.
    """

    num_nodes: int
    num_edges: int
    num_features: int
    num_classes: int
    mean_degree: float
    median_degree: int
    max_degree: int
    num_isolated: int
    num_self_loops: int
    num_parallel: int
    directed: bool
    homophily: float | None
    x_density: float | None
    class_counts: tuple[int, ...]
    num_unlabelled: int
    num_train: int
    num_val: int
    num_test: int

    @classmethod
    def of(cls, graph: Graph) -> GraphStats:
        """Reads the graph once; it builds the graph's CSR and its transpose, which stay cached."""
        csr, csr_t = graph.csr, graph.csr_t
        row, col, degree = csr.row, csr.col, csr.degree
        loops = row == col
        same_row = row[1:] == row[:-1]
        loops_at = torch.bincount(row[loops], minlength=graph.num_nodes)
        linked = (degree > loops_at) | (csr_t.degree > loops_at)
        labelled = graph.labelled
        return cls(
            num_nodes=graph.num_nodes,
            num_edges=graph.num_edges,
            num_features=graph.num_features,
            num_classes=graph.num_classes,
            mean_degree=graph.num_edges / max(graph.num_nodes, 1),
            median_degree=int(degree.median()) if degree.numel() else 0,
            max_degree=int(degree.max()) if degree.numel() else 0,
            num_isolated=graph.num_nodes - int(linked.sum()),
            num_self_loops=int(loops.sum()),
            num_parallel=int((same_row & (col[1:] == col[:-1])).sum()),
            # Both are sorted alike, so a symmetric matrix and its transpose are equal entry by entry.
            directed=not (torch.equal(csr.rowptr, csr_t.rowptr) and torch.equal(col, csr_t.col)),
            homophily=None if graph.is_multilabel else _homophily(graph.y, labelled, row, col, loops),
            x_density=_density(graph.x),
            class_counts=_class_counts(graph, labelled),
            num_unlabelled=graph.num_nodes - int(labelled.sum()),
            num_train=int(graph.train_mask.sum()),
            num_val=int(graph.val_mask.sum()),
            num_test=int(graph.test_mask.sum()),
        )


def _class_counts(graph: Graph, labelled: Tensor) -> tuple[int, ...]:
    if graph.is_multilabel:
        return tuple(int(count) for count in graph.y[labelled].sum(dim=0, dtype=torch.float64))
    return tuple(torch.bincount(graph.y[labelled], minlength=graph.num_classes).tolist())


def _homophily(y: Tensor, labelled: Tensor, row: Tensor, col: Tensor, loops: Tensor) -> float | None:
    # Classes as int16 where they fit: two int64 gathers of 124 million edges would be 2 GB.
    small = y.to(torch.int16) if int(y.abs().max() if y.numel() else 0) < 2**15 else y
    counted = labelled[row] & labelled[col] & ~loops
    total = int(counted.sum())
    return int(((small[row] == small[col]) & counted).sum()) / total if total else None


def _density(x: Tensor | None) -> float | None:
    if x is None or x.numel() == 0:
        return None
    return int(torch.count_nonzero(values_of(x))) / (x.size(0) * x.size(1))
