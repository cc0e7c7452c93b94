"""A note: one sentence for the reader of a report, in each language fasthop speaks."""

from __future__ import annotations

Note = dict[str, str]


def note(en: str, zh: str) -> Note:
    """The sentence by language code."""
    return {"en": en, "zh": zh}
