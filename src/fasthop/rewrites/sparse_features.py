"""The rung `sparse_features`: a bag-of-words input stays sparse through the first linear layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fasthop.graph.note import Note, note
from fasthop.rewrites.base import Words
from fasthop.rewrites.exact.rung import ExactRung, first_left

if TYPE_CHECKING:
    from fasthop.rewrites.exact.build import Built


@dataclass(frozen=True, kw_only=True)
class SparseFeaturesRung(ExactRung):
    """The non-zeros of x times the first weight, and the weight's gradient by the transpose; dropout on the non-zeros, one
    draw for all who read it."""

    name = "sparse_features"
    words = {  # noqa: RUF012
        "en": Words(
            title="Sparse features",
            does="The first linear map multiplies the non-zeros of x only, and so does its gradient; dropout falls on the non-zeros.",
            why="In bags of words 98 to 99 of 100 entries are zero, and a dense product multiplies them all.",
            costs="A sorted copy of the non-zeros. Dropout draws other numbers from the same distribution.",
        ),
        "zh": Words(
            title="稀疏特征",
            does="第一个线性层只与 x 的非零元素相乘，梯度亦然；dropout 也只作用于非零元素。",
            why="词袋特征中约 98% 至 99% 是零，而稠密乘法会全部计算。",
            costs="一份排好序的非零元素。dropout 抽取的随机数不同，但分布相同。",
        ),
    }

    def refusal(self, built: Built) -> Note:
        from fasthop.rewrites.exact.constant import SPARSE_BELOW, density

        x = built.model.original_x
        share = 100.0 * (density(x) if not x.is_sparse and not x.is_sparse_csr else 0.0)
        if share >= 100.0 * SPARSE_BELOW:
            return note(
                f"{share:.0f} % of x are non-zero; a product by non-zeros gains below {100 * SPARSE_BELOW:.0f} %.",
                f"x 的非零元素占 {share:.0f}%；低于 {100 * SPARSE_BELOW:.0f}% 时按非零元素相乘才有好处。",
            )
        return (
            first_left(built)
            or built.untraceable
            or note("No linear map of the model reads x directly.", "模型中没有直接读取 x 的线性层。")
        )
