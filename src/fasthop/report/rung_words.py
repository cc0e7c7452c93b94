"""What the rungs say of themselves, by language and name, as the interpretation takes it."""

from __future__ import annotations

from fasthop.report.words import LANGUAGES, sentences


def rung_words() -> dict[str, dict[str, str]]:
    """{"en": {rung name: what it does and why it helps}, "zh": ...}. Imports torch."""
    from fasthop.rewrites.ladder import RUNGS

    found: dict[str, dict[str, str]] = {lang: {} for lang in LANGUAGES}
    for rung in RUNGS:
        for lang, words in rung.words.items():
            found.setdefault(lang, {})[rung.name] = sentences([words.does, words.why], lang)
    return found
