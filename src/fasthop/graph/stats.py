"""What a graph looks like in figures: for the doctor, the report and the checks of a user's data."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fasthop.graph.check import values_of
from fasthop.graph.csr import CSR
from fasthop.graph.graph import Graph
from fasthop.graph.label_checks import labelled_nodes
from fasthop.graph.parts import Parts


@dataclass(frozen=True, kw_only=True, slots=True)
class GraphStats:
    """Figures of one graph, None where the part that they are about has a fault. Degrees are in-degrees unless
    they say out; shares are from 0 to 1.

    num_isolated: nodes without an edge either way, self-loops aside.
    num_parallel: edges that repeat the source and target of another.
    directed: whether some edge lacks its reverse. num_components: parts that no edge joins, directions aside.
    homophily: share of the edges between labelled nodes (self-loops aside) whose ends are of one class; None
    where there is none, and for multi-label graphs.
    x_density: share of x that is not zero; None without x. class_counts: labelled nodes of each class or with each
    label; train_class_counts: those in train_mask; class_names: the user's own names of the classes, where they have any.
    """

    num_nodes: int | None = None
    num_edges: int | None = None
    num_features: int | None = None
    num_classes: int | None = None
    mean_degree: float | None = None
    min_degree: int | None = None
    median_degree: int | None = None
    max_degree: int | None = None
    min_out_degree: int | None = None
    median_out_degree: int | None = None
    max_out_degree: int | None = None
    num_isolated: int | None = None
    num_self_loops: int | None = None
    num_parallel: int | None = None
    directed: bool | None = None
    num_components: int | None = None
    largest_component: int | None = None
    homophily: float | None = None
    x_density: float | None = None
    class_counts: tuple[int, ...] | None = None
    train_class_counts: tuple[int, ...] | None = None
    class_names: tuple[str, ...] | None = None
    num_unlabelled: int | None = None
    num_train: int | None = None
    num_val: int | None = None
    num_test: int | None = None

    @classmethod
    def of(cls, graph: Graph | Parts) -> GraphStats:
        """Reads the graph once; it builds the graph's CSR and its transpose, which a Graph keeps."""
        parts = Parts.of(graph) if isinstance(graph, Graph) else graph
        figures: dict[str, object] = {
            "num_nodes": parts.num_nodes,
            "num_classes": parts.num_classes,
            "class_names": parts.class_names,
        }
        if parts.x is not None:
            figures |= {"num_features": parts.x.size(1), "x_density": _density(parts.x)}
        elif isinstance(graph, Graph):
            figures["num_features"] = 0
        for name, mask in parts.masks.items():
            figures[f"num_{name.removesuffix('_mask')}"] = int(mask.sum())
        labelled = None
        if parts.y is not None and parts.num_classes is not None:
            labelled = labelled_nodes(parts.y, parts.num_classes)
            figures["class_counts"] = _class_counts(parts.y, labelled, parts.num_classes)
            figures["num_unlabelled"] = labelled.numel() - int(labelled.sum())
            if "train_mask" in parts.masks:
                trained = labelled & parts.masks["train_mask"]
                figures["train_class_counts"] = _class_counts(parts.y, trained, parts.num_classes)
        if parts.edge_index is not None and parts.num_nodes is not None:
            if isinstance(graph, Graph):
                csr, csr_t = graph.csr, graph.csr_t
            else:
                csr = CSR.from_edge_index(parts.edge_index, parts.num_nodes)
                csr_t = csr.transpose()
            figures |= _of_edges(csr, csr_t, parts.y, labelled)
        return cls(**figures)  # pyright: ignore[reportArgumentType]


def _of_edges(csr: CSR, csr_t: CSR, y: Tensor | None, labelled: Tensor | None) -> dict[str, object]:
    row, col, num_nodes = csr.row, csr.col, csr.num_rows
    loops = row == col
    same_row = row[1:] == row[:-1]
    loops_at = torch.bincount(row[loops], minlength=num_nodes)
    linked = (csr.degree > loops_at) | (csr_t.degree > loops_at)
    figures: dict[str, object] = {
        "num_edges": csr.num_edges,
        "mean_degree": csr.num_edges / max(num_nodes, 1),
        "num_isolated": num_nodes - int(linked.sum()),
        "num_self_loops": int(loops.sum()),
        "num_parallel": int((same_row & (col[1:] == col[:-1])).sum()),
        # Both are sorted alike, so a symmetric matrix and its transpose are equal entry by entry.
        "directed": not (torch.equal(csr.rowptr, csr_t.rowptr) and torch.equal(col, csr_t.col)),
    }
    for kind, degree in (("degree", csr.degree), ("out_degree", csr_t.degree)):
        some = degree.numel() > 0
        figures |= {
            f"min_{kind}": int(degree.min()) if some else 0,
            f"median_{kind}": int(degree.median()) if some else 0,
            f"max_{kind}": int(degree.max()) if some else 0,
        }
    figures["num_components"], figures["largest_component"] = _components(csr)
    if y is not None and labelled is not None and y.dim() == 1:
        figures["homophily"] = _homophily(y, labelled, row, col, loops)
    return figures


def _components(csr: CSR) -> tuple[int, int]:
    """The number of weakly connected components, and the nodes of the largest."""
    import numpy as np
    import scipy.sparse
    from scipy.sparse.csgraph import connected_components

    num_nodes = csr.num_rows
    if num_nodes == 0:
        return 0, 0
    ones = np.ones(csr.num_edges, np.int8)
    matrix = scipy.sparse.csr_array(
        (ones, csr.col.cpu().numpy(), csr.rowptr.cpu().numpy()), shape=(num_nodes, num_nodes)
    )
    count, labels = connected_components(matrix, directed=True, connection="weak")
    return int(count), int(np.bincount(labels).max())


def _class_counts(y: Tensor, counted: Tensor, num_classes: int) -> tuple[int, ...]:
    if y.dim() == 2:
        return tuple(int(count) for count in y[counted].sum(dim=0, dtype=torch.float64))
    return tuple(torch.bincount(y[counted], minlength=num_classes).tolist())


def _homophily(y: Tensor, labelled: Tensor, row: Tensor, col: Tensor, loops: Tensor) -> float | None:
    # Classes as int16 where they fit: two int64 gathers of 124 million edges would be 2 GB.
    small = y.to(torch.int16) if int(y.abs().max() if y.numel() else 0) < 2**15 else y
    counted = labelled[row] & labelled[col] & ~loops
    total = int(counted.sum())
    return int(((small[row] == small[col]) & counted).sum()) / total if total else None


def _density(x: Tensor) -> float | None:
    if x.numel() == 0:
        return None
    return int(torch.count_nonzero(values_of(x))) / (x.size(0) * x.size(1))
