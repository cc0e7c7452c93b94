"""Oddities: what no reader refuses, and what may still make a graph's numbers mean something else."""

from __future__ import annotations

import torch

from fasthop.graph.check import values_of
from fasthop.graph.fault import Faults
from fasthop.graph.parts import Parts
from fasthop.graph.stats import GraphStats

# Beyond this, features as they are drown the rest: the step of Adam is about the learning rate whatever their scale.
LARGE_FEATURE = 1e3
# Below this share of non-zeros a sparse product with the features beats a dense one (see kernels.md).
SPARSE_BELOW = 0.05


def say_oddities(parts: Parts, stats: GraphStats, faults: Faults) -> None:
    """A warning or a note for each oddity that is there."""
    _of_edges(parts, stats, faults)
    _of_labels(parts, stats, faults)
    x = parts.x
    if x is None or not x.numel():
        return
    values = values_of(x)
    largest = float(values.abs().max()) if values.numel() else 0.0
    if largest > LARGE_FEATURE:
        faults.warn(
            "x-large",
            f"The largest value in x is {largest:,.4g}; features of such a scale train badly.",
            f"x 中的最大值为 {largest:,.4g}；这种尺度的特征难以训练。",
            ("Standardise the columns.", "请将各列标准化。"),
        )
    if x.layout is torch.strided and stats.x_density is not None and stats.x_density < SPARSE_BELOW:
        share = 100 * stats.x_density
        faults.note(
            "x-sparse",
            f"{share:.2g} % of x is not zero: the rung sparse_features reads just these.",
            f"x 中仅有 {share:.2g} % 非零：sparse_features 只读取这些值。",
        )


def _of_edges(parts: Parts, stats: GraphStats, faults: Faults) -> None:
    if stats.num_edges == 0 and stats.num_nodes:
        faults.warn(
            "no-edge",
            "The graph has no edges: a model sees each node alone.",
            "图没有边：模型只能看到各个孤立的节点。",
        )
    if stats.num_parallel:
        faults.warn(
            "parallel-edges",
            f"{stats.num_parallel:,} edges repeat another's source and target, and count each time they stand there.",
            f"有 {stats.num_parallel} 条边与其他边的源和目标相同，每次出现都会计入。",
            (
                "Where that is not meant, merge them: torch_geometric.utils.coalesce(edge_index).",
                "若非本意，请合并：torch_geometric.utils.coalesce(edge_index)。",
            ),
        )
    weight = parts.edge_weight
    if weight is not None and weight.numel() and float(weight.detach().min()) < 0:
        at = int(weight.detach().argmin())
        value = float(weight.detach()[at])
        faults.warn(
            "weight-negative",
            f"edge_weight[{at}] is {value:g}, below zero: a GCN's normalisation takes the root of their sums, and may "
            "give NaN.",
            f"edge_weight[{at}] 为 {value:g}，小于零：GCN 的归一化对其和开方，可能得到 NaN。",
        )


def _of_labels(parts: Parts, stats: GraphStats, faults: Faults) -> None:
    for counts, code, en, zh in (
        (stats.class_counts, "class-empty", "no node", "没有节点"),
        (stats.train_class_counts, "class-untrained", "no training node", "没有训练节点"),
    ):
        empty = [number for number, count in enumerate(counts or ()) if not count]
        if not empty:
            continue
        first = empty[0] if parts.class_names is None else f"{empty[0]} ({parts.class_names[empty[0]]})"
        faults.warn(
            code,
            f"{len(empty):,} of the {len(counts or ()):,} classes have {en}: the first is class {first}.",
            f"{len(counts or ())} 个类别中有 {len(empty)} 个{zh}：第一个是类别 {first}。",
        )
        break  # a class without nodes has no training node either
