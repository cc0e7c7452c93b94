"""Why a recipe is fast or slow here, in sentences that follow from the figures of a Result.

`cause` says where the time of an epoch goes, `moved` which stages changed, `reason` and `outlook` what follows from that for a
rung, `paragraphs` puts one recipe's sentences together, `whole` and `best` speak of the ladder. What a rung is comes from its own
words, handed in by name; that it helped comes from the run alone.
"""

from __future__ import annotations

from fasthop.report.explain.best import best, best_sentences
from fasthop.report.explain.brief import brief
from fasthop.report.explain.cause import Bottleneck, bottleneck
from fasthop.report.explain.figures_said import memory_change
from fasthop.report.explain.paragraphs import explanations
from fasthop.report.explain.whole import interpretation

__all__ = [
    "Bottleneck",
    "best",
    "best_sentences",
    "bottleneck",
    "brief",
    "explanations",
    "interpretation",
    "memory_change",
]
