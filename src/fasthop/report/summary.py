"""summary.md: a Result as a page to read, and the same as plain text for the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from fasthop.measure.run import Result
from fasthop.report.circumstances import machine_line, subject, task_line
from fasthop.report.explain import best, explanations
from fasthop.report.rows import remarks
from fasthop.report.table import markdown_escape, table_markdown, table_text, terminal_width
from fasthop.report.words import check_lang, phrase


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
    colon = "：" if lang == "zh" else ": "
    bold = {"task": task_line(result, lang), "machine": machine_line(result, lang)}
    parts = [f"# {markdown_escape(title(result, lang))}"]
    parts += [
        f"**{phrase(f'head.{key}', lang)}**{colon}{markdown_escape(line)}" for key, line in bold.items()
    ]
    parts.append(markdown_escape(made_line(result, lang)))
    parts.append(f"## {phrase('head.table', lang)}")
    parts.append(table_markdown(result, lang).rstrip("\n"))
    parts.append("\n".join(f"- {markdown_escape(line)}" for line in remarks(result, lang)))
    if chart is not None:
        parts.append(f"![{phrase('head.chart', lang)}]({chart})")
    parts.append(f"## {phrase('head.best', lang)}")
    parts.append(markdown_escape(best(result, lang)))
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
    """The same for a terminal: head, table, what is best, and a paragraph a recipe."""
    check_lang(lang)
    width = terminal_width() if width is None else width
    colon = "：" if lang == "zh" else ": "
    heads = [
        title(result, lang),
        f"{phrase('head.task', lang)}{colon}{task_line(result, lang)}",
        f"{phrase('head.machine', lang)}{colon}{machine_line(result, lang)}",
    ]
    parts = [
        "\n".join(fold(line, width) for line in heads),
        table_text(result, lang, width, color).rstrip("\n"),
    ]
    parts.append(fold(f"{phrase('head.best', lang)}{colon}{best(result, lang)}", width))
    parts += [
        fold(f"{name}{colon}{text}", width) for name, text in explanations(result, lang, rung_words) if text
    ]
    return "\n\n".join(parts) + "\n"


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
    punctuation that must not start a line."""
    found: list[str] = []
    for sign in text:
        wide = ord(sign) > 0x2E7F
        closing = sign in "，。；：、）”%"
        if (
            not found
            or (wide and not closing)
            or (not closing and (found[-1][-1] == " " or ord(found[-1][-1]) > 0x2E7F))
        ):
            found.append(sign)
        else:
            found[-1] += sign
    return found
