"""The phrases of both languages stay together, and are all used."""

from __future__ import annotations

import re
import string
from pathlib import Path

import pytest

from fasthop.errors import InvalidConfig
from fasthop.report.words import LANGUAGES, in_language, phrase, sentences

SRC = Path(__file__).parents[2] / "src" / "fasthop"
SOURCES = {
    path: path.read_text(encoding="utf-8")
    for folder in ("report", "cli")
    for path in (SRC / folder).rglob("*.py")
    if not path.name.startswith("words")
}
LITERAL = re.compile(r"""phrase\(\s*["']([^"'{]+)["']""")
BUILT = re.compile(r"""f["']([a-z_]+\.)\{""")


def fields(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def test_every_key_is_there_in_every_language():
    assert set(LANGUAGES["en"]) == set(LANGUAGES["zh"])


@pytest.mark.parametrize("key", sorted(LANGUAGES["en"]))
def test_fields_agree_and_no_phrase_is_empty(key):
    texts = [phrases[key] for phrases in LANGUAGES.values()]
    assert all(text.strip() for text in texts)
    assert len({frozenset(fields(text)) for text in texts}) == 1


def test_chinese_phrases_are_chinese():
    same_on_purpose = {"list.comma", "moved.share", "task.dropout", "doctor.gpu", "doctor.cpu"}
    for key in set(LANGUAGES["zh"]) - same_on_purpose:
        assert re.search(r"[\u4e00-\u9fff]", LANGUAGES["zh"][key]), key
        assert not re.search(r"[\u4e00-\u9fff]", LANGUAGES["en"][key]), key


def test_every_literal_key_exists():
    for path, text in SOURCES.items():
        for key in LITERAL.findall(text):
            assert key in LANGUAGES["en"], f"{path.name} asks for {key}"


def test_every_phrase_is_used():
    everything = "\n".join(SOURCES.values())
    prefixes = set(BUILT.findall(everything))
    unused = [
        key
        for key in LANGUAGES["en"]
        if f'"{key}"' not in everything
        and f"'{key}'" not in everything
        and key[: key.index(".") + 1] not in prefixes
    ]
    assert not unused


def test_an_unknown_language_is_refused_by_name():
    with pytest.raises(InvalidConfig, match=r"'fr'.*en, zh"):
        phrase("col.recipe", "fr")


def test_in_language_falls_back_on_english():
    assert in_language({"en": "a", "zh": "b"}, "zh") == "b"
    assert in_language({"en": "a"}, "zh") == "a"
    assert in_language("plain", "zh") == "plain"


def test_sentences_join_as_the_language_does():
    assert sentences(["A.", "", "B."], "en") == "A. B."
    assert sentences(["甲。", "乙。"], "zh") == "甲。乙。"
