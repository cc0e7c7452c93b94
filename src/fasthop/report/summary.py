"""summary.md: a Result as a page to read, and the same as plain text for the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from fasthop.measure.run import Result
from fasthop.report.circumstances import (
    machine_line,
    short_machine_line,
    short_task_line,
    subject,
    task_line,
)
from fasthop.report.explain import best, best_sentences, brief, explanations, interpretation
from fasthop.report.rows import remarks
from fasthop.report.table import markdown_escape, table_markdown, table_text, terminal_width
from fasthop.report.words import check_lang, phrase, sentences

LINES = 30
OPENING = "（“《"
LINES_A_RECIPE = 2
LEAST_FOR_BEST = 2


def title(result: Result, lang: str = "en") -> str:
    """One line: which model on which graph."""
    return phrase("head.title", lang, **subject(result))


def made_line(result: Result, lang: str = "en") -> str:
    """When and with which fasthop it was measured."""
    return phrase(
        "head.made", lang, version=result.fasthop_version, created=result.created, ladder=result.ladder
    )


def summary_markdown(
    result: Result,
    lang: str = "en",
    rung_words: Mapping[str, str] | None = None,
    chart: str | None = "ladder.png",
) -> str:
    """The text of summary.md. chart: the picture's path beside it, or None for no picture.

    Raises InvalidConfig for an unknown language.
    """
    check_lang(lang)
    bold = {"task": task_line(result, lang), "machine": machine_line(result, lang)}
    parts = [f"# {markdown_escape(title(result, lang))}"]
    parts += [
        f"**{phrase(f'head.{key}', lang)}**{_colon(lang)}{markdown_escape(line)}"
        for key, line in bold.items()
    ]
    parts.append(markdown_escape(made_line(result, lang)))
    parts.append(f"## {phrase('head.table', lang)}")
    parts.append(table_markdown(result, lang).rstrip("\n"))
    parts.append("\n".join(f"- {markdown_escape(line)}" for line in remarks(result, lang)))
    if chart is not None:
        parts.append(f"![{phrase('head.chart', lang)}]({chart})")
    parts.append(f"## {phrase('head.best', lang)}")
    parts.append(markdown_escape(best(result, lang)))
    whole = interpretation(result, lang)
    if whole:
        parts.append(f"## {phrase('head.whole', lang)}")
        parts += [markdown_escape(text) for text in whole]
    parts.append(f"## {phrase('head.meaning', lang)}")
    parts += [
        f"### {markdown_escape(name)}\n\n{markdown_escape(text)}"
        for name, text in explanations(result, lang, rung_words)
        if text
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def summary_text(
    result: Result,
    lang: str = "en",
    rung_words: Mapping[str, str] | None = None,
    width: int | None = None,
    color: bool = False,
) -> str:
    """The same for a terminal: head, table, what is best, what the ladder shows, and a paragraph a recipe."""
    check_lang(lang)
    width = terminal_width() if width is None else width
    heads = [
        title(result, lang),
        _headed("head.task", task_line(result, lang), lang),
        _headed("head.machine", machine_line(result, lang), lang),
    ]
    parts = ["\n".join(fold(head, width) for head in heads)]
    parts.append(table_text(result, lang, width, color).rstrip("\n"))
    parts.append(fold(_headed("head.best", best(result, lang), lang), width))
    for place, text in enumerate(interpretation(result, lang)):
        parts.append(fold(text if place else _headed("head.whole", text, lang), width))
    for name, text in explanations(result, lang, rung_words):
        if text:
            parts.append(fold(f"{name}{_colon(lang)}{text}", width))
    return "\n\n".join(parts) + "\n"


def brief_text(result: Result, lang: str = "en", width: int | None = None, color: bool = False) -> str:
    """What a terminal shows at once: for five recipes at 100 columns `LINES` lines at most.

    Head, a line a recipe, what decides about each, and what is best, of which as much as there is room for.
    """
    check_lang(lang)
    width = terminal_width() if width is None else width
    heads = [title(result, lang), short_task_line(result, lang), short_machine_line(result, lang)]
    parts = ["\n".join(fold(head, width) for head in heads)]
    parts.append(table_text(result, lang, width, color, is_brief=True).rstrip("\n"))
    told = brief(result, lang)
    names = [f"{name}{_colon(lang)}" for name, _ in told]
    shown = [
        fold(name + sentences(texts[:1], lang), width) for name, (_, texts) in zip(names, told, strict=True)
    ]
    free = LINES - LEAST_FOR_BEST - sum(_height(part) + 1 for part in (*parts, "\n".join(shown)))
    for place, (_, texts) in enumerate(told):
        most = min(LINES_A_RECIPE, _height(shown[place]) + max(free, 0))
        longer = _filled(names[place], texts, width, most, lang)
        free -= _height(longer) - _height(shown[place])
        shown[place] = longer
    parts.append("\n".join(shown))
    most = max(LEAST_FOR_BEST, LINES - sum(_height(part) + 1 for part in parts))
    parts.append(_filled(_headed("brief.here", "", lang), best_sentences(result, lang), width, most, lang))
    return "\n\n".join(parts) + "\n"


def _height(text: str) -> int:
    return text.count("\n") + 1


def _filled(head: str, texts: list[str], width: int, most: int, lang: str) -> str:
    """The head with the first text, and with as many of the others as stay within `most` lines."""
    kept, shown = texts[:1], fold(head + sentences(texts[:1], lang), width)
    for text in texts[1:]:
        longer = fold(head + sentences([*kept, text], lang), width)
        if _height(longer) <= max(most, _height(shown)):
            kept, shown = [*kept, text], longer
    return shown


def _headed(key: str, text: str, lang: str) -> str:
    return f"{phrase(key, lang)}{_colon(lang)}{text}"


def _colon(lang: str) -> str:
    return "：" if lang == "zh" else ": "


def fold(text: str, width: int) -> str:
    """`text` in lines of at most `width` columns, where a Chinese character takes two."""
    if text.isascii():
        return "\n".join(textwrap.wrap(text, width, break_long_words=True, break_on_hyphens=False)) or text
    from rich.cells import cell_len

    lines = [""]
    for word in _words(text):
        if cell_len(lines[-1]) + cell_len(word.rstrip()) > width and lines[-1]:
            lines[-1] = lines[-1].rstrip()
            lines.append("")
        lines[-1] += word
    return "\n".join(line.rstrip() for line in lines)


def _words(text: str) -> list[str]:
    """What a line may break between: words with their blank, and single Chinese characters with the
    punctuation that must not start or end a line."""
    found: list[str] = []
    for sign in text:
        wide = ord(sign) > 0x2E7F
        closing = sign in "，。；：、）”%"
        if (
            not found
            or (wide and not closing and found[-1][-1] not in OPENING)
            or (
                not closing
                and found[-1][-1] not in OPENING
                and (found[-1][-1] == " " or ord(found[-1][-1]) > 0x2E7F)
            )
        ):
            found.append(sign)
        else:
            found[-1] += sign
    return found
