"""Why a recipe helped or did not: what its rung is meant for, what share that had, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping

from fasthop.report.explain.aim import Aim, aim
from fasthop.report.explain.cause import causes
from fasthop.report.explain.listing import cause_words, causes_words, percent
from fasthop.report.explain.moved import moves
from fasthop.report.explain.versus import Versus, before_words
from fasthop.report.figures import number
from fasthop.report.words import phrase

SMALL = 0.20
"""A part with less than a fifth of an epoch leaves at most 1.25 times the speed."""
UNCHANGED = 0.95
"""A part that kept 95 % of its time did not get faster."""


def reason_sentences(found: Versus, lang: str) -> list[str]:
    """Why, in one or two sentences; none where the stages are missing, the rung has no part that it is meant for, or
    the stages contradict the timed rounds."""
    part, moved = aim(found), moves(found)
    if part is None or moved is None or found.change == "alone" or not moved.bear(found.change):
        return []
    fields = {
        "target": causes_words(part.kinds, lang),
        "share": percent(part.share),
        "before": before_words(found, lang),
        "from_ms": number(part.before_ms),
        "to_ms": number(part.after_ms),
    }
    if found.change == "faster":
        return _helped(part, sum(m.before_ms - m.after_ms for m in moved.fell), fields, lang)
    first, *more = _did_not(found, part, fields, lang)
    return [phrase(f"lead.{found.change}", lang) + first, *more]


def _helped(part: Aim, gained_ms: float, fields: Mapping[str, str], lang: str) -> list[str]:
    own = part.before_ms - part.after_ms
    if part.after_ms > UNCHANGED * part.before_ms:
        return [phrase("why.beside", lang, **fields)]
    if own < 0.5 * gained_ms:
        return [phrase("why.partly", lang, part=percent(own / gained_ms), **fields)]
    return [phrase("why.hit", lang, **fields)]


def _did_not(found: Versus, part: Aim, fields: Mapping[str, str], lang: str) -> list[str]:
    before, after = causes(found.before), causes(found.run)
    others = [kind for kind in before if kind not in part.kinds and kind != "other"]
    if part.share < SMALL and others:
        largest = others[0]
        text = phrase(
            "why.small",
            lang,
            largest=cause_words(largest, lang),
            largest_share=percent(before[largest] / part.epoch_before_ms),
            **fields,
        )
        kept = after.get(largest, 0.0)
        if kept < UNCHANGED * before[largest]:
            return [text]
        times = {"from_ms": number(before[largest]), "to_ms": number(kept)}
        return [text, phrase("why.kept", lang, largest=cause_words(largest, lang), **times)]
    if part.after_ms > UNCHANGED * part.before_ms:
        return [phrase("why.unhelped", lang, **fields)]
    rest_before, rest_after = (
        part.epoch_before_ms - part.before_ms,
        part.epoch_after_ms - part.after_ms,
    )
    if rest_after > rest_before:
        rest = {"rest_from": number(rest_before), "rest_to": number(rest_after)}
        return [phrase("why.eaten", lang, **rest, **fields)]
    return [phrase("why.little", lang, **fields)]
