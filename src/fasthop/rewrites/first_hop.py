"""The rung `first_hop`: the aggregation of the constant input, once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fasthop.graph.note import Note, note
from fasthop.rewrites.base import Words
from fasthop.rewrites.exact.rung import ExactRung, first_left

if TYPE_CHECKING:
    from fasthop.rewrites.exact.build import Built


@dataclass(frozen=True, kw_only=True)
class FirstHop(ExactRung):
    """A X of the known graph and the known x is kept, where nothing random, learnable or stateful comes before it."""

    name = "first_hop"
    words = {  # noqa: RUF012
        "en": Words(
            title="First hop kept",
            does="What the first layer aggregates is the input itself, so the aggregated input is computed once and kept.",
            why="Neither the graph nor x changes from step to step, and a linear layer may be applied after the sum.",
            costs="One more matrix of the size of x. It stands only where no dropout comes before the first aggregation.",
        ),
        "zh": Words(
            title="缓存第一跳",
            does="第一层聚合的就是输入本身，因此聚合后的输入只计算一次并保留。",
            why="图和 x 在各步之间都不变，而线性层可以放在求和之后。",
            costs="多保存一个与 x 同样大小的矩阵。只有第一次聚合之前没有 dropout 时才成立。",
        ),
    }

    def refusal(self, built: Built) -> Note:
        return first_left(built) or note(
            "No layer aggregates x itself: something random or learned comes before the first hop, or the "
            "product has more non-zeros than x and the graph together.",
            "没有一层直接聚合 x：第一跳之前有随机或可学习的运算，或者乘积的非零元素多于 x 与图之和。",
        )
