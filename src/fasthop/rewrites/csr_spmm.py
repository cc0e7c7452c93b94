"""The rung `csr_spmm`: aggregation as the product of a sparse and a dense matrix."""

from __future__ import annotations

from dataclasses import dataclass

from fasthop.rewrites.base import Words
from fasthop.rewrites.exact.rung import ExactRung


@dataclass(frozen=True, kw_only=True)
class CsrSpmm(ExactRung):
    """Layers sum over sorted rows in registers; the gradient reads the transpose, sorted once. Attention is
    computed in the same sweep."""

    name = "csr_spmm"
    words = {  # noqa: RUF012
        "en": Words(
            title="Sparse matrix products",
            does="The edges are sorted by target once; a layer then sums each node's neighbors in registers, attention included, "
            "and its gradient does the same over the transpose.",
            why="No tensor of edges x channels is written and read again, forward or backward.",
            costs="Two sorted copies of the edges, and the kernels' compilation the first time on a machine.",
        ),
        "zh": Words(
            title="稀疏矩阵乘法",
            does="边按目标节点只排序一次；之后每层在寄存器中累加邻居（包括注意力），梯度则在转置矩阵上同样计算。",
            why="前向与反向都不再写出并读回“边数 × 通道数”的张量。",
            costs="两份排好序的边，以及在每台机器上首次使用时编译内核。",
        ),
    }
