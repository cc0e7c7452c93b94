"""What the rungs say of themselves, by language and name, as the interpretation takes it."""

from __future__ import annotations

from fasthop.report.words import LANGUAGES, phrase, sentences


def rung_words() -> dict[str, dict[str, str]]:
    """{"en": {rung name: what it does and the idea of it}, "zh": ...}. Imports torch."""
    from fasthop.rewrites.ladder import RUNGS

    found: dict[str, dict[str, str]] = {lang: {} for lang in LANGUAGES}
    for rung in RUNGS:
        for lang, words in rung.words.items():
            found.setdefault(lang, {})[rung.name] = sentences(
                [words.does, phrase("explain.idea", lang, why=words.why)], lang
            )
    return found
