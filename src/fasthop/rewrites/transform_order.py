"""The rung `transform_order`: A (X W) or (A X) W, whichever moves less."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fasthop.graph.note import Note, note
from fasthop.rewrites.base import Words
from fasthop.rewrites.exact.rung import ExactRung, first_left

if TYPE_CHECKING:
    from fasthop.rewrites.exact.build import Built


@dataclass(frozen=True, kw_only=True)
class TransformOrder(ExactRung):
    """Decided for each layer from its widths, its rows and its edges."""

    name = "transform_order"
    words = {  # noqa: RUF012
        "en": Words(
            title="Order of transform and sum",
            does="A layer sums its neighbors before or after its linear map, whichever moves less.",
            why="Both are linear, so the result is the same, and the narrower side is the cheaper one to sum.",
            costs="Nothing; sums are rounded in another order.",
        ),
        "zh": Words(
            title="变换与求和的次序",
            does="每层在线性变换之前或之后对邻居求和，取数据移动较少的次序。",
            why="两者都是线性的，结果相同，而在较窄的一侧求和更便宜。",
            costs="没有代价；只是舍入的次序不同。",
        ),
    }

    def refusal(self, built: Built) -> Note:
        return first_left(built) or note(
            "Every layer has the better order already.", "每一层的次序已经是较好的。"
        )
