"""Every phrase that people read, looked up by key: `phrase("col.time", "zh")`.

The phrases stand in `words_en` and `words_zh`, those of the page and of `compare` in `words_page_en` and
`words_page_zh`, and those that say why in `words_why_en` and `words_why_zh`: flat tables with the same keys and the same fields in braces; a test holds them together. Identifiers (recipe names, options, units)
are the same in every language.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fasthop.errors import InvalidConfig
from fasthop.report.metric_words import with_metric
from fasthop.report.page.markup import plain
from fasthop.report.words_en import PHRASES as EN
from fasthop.report.words_page_en import PHRASES as PAGE_EN
from fasthop.report.words_page_zh import PHRASES as PAGE_ZH
from fasthop.report.words_why_en import PHRASES as WHY_EN
from fasthop.report.words_why_zh import PHRASES as WHY_ZH
from fasthop.report.words_zh import PHRASES as ZH

LANGUAGES: Mapping[str, Mapping[str, str]] = {
    "en": {**EN, **PAGE_EN, **WHY_EN},
    "zh": {**ZH, **PAGE_ZH, **WHY_ZH},
}


# A phrase has blanks around a field, for names in Latin letters; between Chinese characters there is none.
_BETWEEN_CHINESE = re.compile(
    "(?<=[\u3001-\u303f\u4e00-\u9fff\uff00-\uffef]) (?=[\u3001-\u303f\u4e00-\u9fff\uff00-\uffef])"
)


def check_lang(lang: str) -> str:
    """Returns `lang`; raises InvalidConfig where there are no words in it."""
    if lang not in LANGUAGES:
        raise InvalidConfig(f"lang is {lang!r}; it is one of {', '.join(LANGUAGES)}.")
    return lang


def phrase(key: str, lang: str, **fields: Any) -> str:
    """The phrase `key` in `lang`, with its fields filled in. Raises InvalidConfig for an unknown language.

    A field may come from a file that somebody sent: escape codes for the terminal are taken out of it.
    """
    template = with_metric(LANGUAGES[check_lang(lang)][key], lang)
    text = template.format(**{name: plain(value) for name, value in fields.items()})
    return _BETWEEN_CHINESE.sub("", text) if lang == "zh" else text


def in_language(texts: Mapping[str, str] | str, lang: str) -> str:
    """The entry of a text kept by language code; the English one where `lang` is missing.
    A plain string is its own entry. Escape codes are taken out."""
    if isinstance(texts, str):
        return plain(texts)
    return plain(texts.get(lang) or texts.get("en") or next(iter(texts.values()), ""))


def line(text: object) -> str:
    """A name from a file as one line without escape codes."""
    return " ".join(plain(text).split())


def sentences(parts: list[str], lang: str) -> str:
    """Sentences in a row: English ones with a space between, Chinese ones without."""
    return ("" if lang == "zh" else " ").join(part for part in parts if part)
