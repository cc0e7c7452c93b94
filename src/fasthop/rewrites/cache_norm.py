"""The rung `cache_norm`: the normalisation of the edges once per graph, not in each forward pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fasthop.graph.note import Note, note
from fasthop.rewrites.base import Words
from fasthop.rewrites.exact.rung import ExactRung, first_left

if TYPE_CHECKING:
    from fasthop.rewrites.exact.build import Built


@dataclass(frozen=True, kw_only=True)
class CacheNorm(ExactRung):
    """Self-loops, degrees and the weights made of them are computed by PyG's own functions, once, and kept for
    the very tensors they were made of."""

    name = "cache_norm"
    words = {  # noqa: RUF012
        "en": Words(
            title="Normalisation kept",
            does="Self-loops, degrees and the normalised edge weights are computed once per graph and not in each forward pass.",
            why="They depend on the graph alone, and the graph stays the same.",
            costs="One weight an edge, kept. Another graph or changed weights are noticed, and computed as before.",
        ),
        "zh": Words(
            title="缓存归一化",
            does="自环、度数和归一化边权重每张图只算一次，而不是每次前向都算。",
            why="它们只取决于图，而图没有变化。",
            costs="每条边多保存一个权重。换了图或改了权重会被发现，并照原样重新计算。",
        ),
    }

    def refusal(self, built: Built) -> Note:
        return first_left(built) or note(
            "No layer of the model normalises the edges.", "模型中没有对边做归一化的层。"
        )
