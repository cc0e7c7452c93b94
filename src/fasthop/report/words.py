"""Every phrase that people read, looked up by key: `phrase("col.time", "zh")`.

The phrases stand in `words_en` and `words_zh`, and those of the page and of `compare` in `words_page_en` and
`words_page_zh`: flat tables with the same keys and the same fields in braces; a test holds them together. Identifiers (recipe names, options, units)
are the same in every language.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fasthop.errors import InvalidConfig
from fasthop.report.words_en import PHRASES as EN
from fasthop.report.words_page_en import PHRASES as PAGE_EN
from fasthop.report.words_page_zh import PHRASES as PAGE_ZH
from fasthop.report.words_zh import PHRASES as ZH

LANGUAGES: Mapping[str, Mapping[str, str]] = {"en": {**EN, **PAGE_EN}, "zh": {**ZH, **PAGE_ZH}}


def check_lang(lang: str) -> str:
    """Returns `lang`; raises InvalidConfig where there are no words in it."""
    if lang not in LANGUAGES:
        raise InvalidConfig(f"lang is {lang!r}; it is one of {', '.join(LANGUAGES)}.")
    return lang


def phrase(key: str, lang: str, **fields: Any) -> str:
    """The phrase `key` in `lang`, with its fields filled in. Raises InvalidConfig for an unknown language."""
    return LANGUAGES[check_lang(lang)][key].format(**fields)


def in_language(texts: Mapping[str, str] | str, lang: str) -> str:
    """The entry of a text kept by language code; the English one where `lang` is missing.
    A plain string is its own entry."""
    if isinstance(texts, str):
        return texts
    return texts.get(lang) or texts.get("en") or next(iter(texts.values()), "")


def sentences(parts: list[str], lang: str) -> str:
    """Sentences in a row: English ones with a space between, Chinese ones without."""
    return ("" if lang == "zh" else " ").join(part for part in parts if part)
