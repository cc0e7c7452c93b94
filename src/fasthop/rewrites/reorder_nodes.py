"""The rung `reorder_nodes`: an order of the nodes in which neighbors lie near each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fasthop.graph.note import Note, note
from fasthop.rewrites.base import Words
from fasthop.rewrites.exact.rung import ExactRung, first_left

if TYPE_CHECKING:
    from fasthop.rewrites.exact.build import Built


@dataclass(frozen=True, kw_only=True)
class ReorderNodes(ExactRung):
    """See graph/reorder.py. The output keeps the user's order."""

    name = "reorder_nodes"
    words = {  # noqa: RUF012
        "en": Words(
            title="Nodes reordered",
            does="Inside, nodes are kept in an order in which those around one hub lie side by side.",
            why="A sum over neighbors then finds more of their rows in the processor's caches.",
            costs="Sorting once, and where all rows come back, putting the output into the user's order. A graph whose order "
            "was good already loses by it.",
        ),
        "zh": Words(
            title="重排节点",
            does="在内部把围绕同一枢纽的节点排在一起。",
            why="这样对邻居求和时，更多的行已在处理器缓存中。",
            costs="排序一次；若要返回全部行，还需把输出恢复成用户的次序。原本次序就好的图会因此变慢。",
        ),
    }

    def refusal(self, built: Built) -> Note:
        return (
            first_left(built)
            or built.untraceable
            or built.mixes
            or note("Nothing to reorder.", "没有可重排的内容。")
        )
