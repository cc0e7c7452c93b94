"""Parts, shares and lists in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fasthop.report.figures import fixed
from fasthop.report.words import LANGUAGES, phrase

ALL_BUT_PRODUCTS = ("aggregate", "elementwise", "overhead")


def percent(share: float) -> str:
    """A share in percent without digits after the point, below 1 % with one."""
    return fixed(100 * share, 0 if share >= 0.0095 else 1)


def listed(items: Sequence[str], lang: str) -> str:
    """a, b and c."""
    if len(items) < 2:
        return "".join(items)
    first, last = phrase("list.comma", lang).join(items[:-1]), items[-1]
    return phrase("list.and", lang, first=first, last=last)


def clauses(items: Sequence[str], lang: str) -> str:
    """Parts of a sentence that have verbs of their own, in a row."""
    return listed(items, lang) if lang == "en" else "，".join(items)


def cause_words(kind: str, lang: str) -> str:
    """A cause as a sentence names it. One that has no words is its own."""
    return phrase(f"cause.{kind}", lang) if f"cause.{kind}" in LANGUAGES[lang] else kind


def causes_words(kinds: Iterable[str], lang: str) -> str:
    """Several causes as one list."""
    kinds = tuple(kinds)
    if kinds == ALL_BUT_PRODUCTS:
        return phrase("cause.all_but_products", lang)
    return listed([cause_words(kind, lang) for kind in kinds], lang)


def stage_words(stage: str, lang: str) -> str:
    """A stage as a sentence names it: "aggregation in the forward pass"."""
    head, dot, kind = stage.partition(".")
    if dot and f"within.{head}" in LANGUAGES[lang]:
        return phrase(f"within.{head}", lang, part=cause_words(kind, lang))
    return phrase(f"alone.{stage}", lang) if f"alone.{stage}" in LANGUAGES[lang] else cause_words(stage, lang)
