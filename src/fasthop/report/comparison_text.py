"""What changed between two runs, as a table for the terminal and the lines below it."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from fasthop.measure.comparison import RecipeChange, ResultChange
from fasthop.report.figures import MISSING, fixed, measured, number, size
from fasthop.report.page.markup import plain
from fasthop.report.summary import fold
from fasthop.report.table import terminal_width
from fasthop.report.words import check_lang, in_language, phrase

if TYPE_CHECKING:
    from rich.console import Console

    from fasthop.measure.run import Interval


def comparison_text(
    change: ResultChange,
    before: str,
    after: str,
    *,
    lang: str = "en",
    limit: float | None = None,
    width: int | None = None,
    color: bool = False,
) -> str:
    """The comparison as text of at most `width` columns.

    before, after: what the two runs are called. limit: the share beyond which a change for the worse is a regression;
    None says nothing of regressions. Raises InvalidConfig for an unknown language.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    check_lang(lang)
    width = max(20, terminal_width() if width is None else width)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True)
    for key in (
        "col.recipe",
        "compare.col_time",
        "compare.col_change",
        "compare.col_memory",
        "compare.col_accuracy",
    ):
        table.add_column(Text(phrase(key, lang)), overflow="fold")
    for entry in change.changes:
        style = {"slower": "yellow", "faster": "green"}.get(entry.time_change, "")
        cells = (_times(entry), _time_words(entry, lang), _memory(entry, lang), _accuracy(entry, lang))
        name, time, words, *rest = (Text(_line(cell)) for cell in (entry.name, *cells))
        name.stylize("bold")
        words.stylize(style)
        table.add_row(name, time, words, *rest)
    buffer = io.StringIO()
    console: Console = Console(
        file=buffer, width=width, force_terminal=color, no_color=not color, legacy_windows=False, emoji=False,
        color_system="standard" if color else None,
    )  # fmt: skip
    console.print(table)
    printed = "\n".join(line.rstrip() for line in buffer.getvalue().splitlines())
    head = _line(phrase("compare.title", lang, before=before, after=after))
    lines = [fold(line, width) for line in _lines(change, before, after, lang, limit)]
    return "\n\n".join([fold(head, width), printed, "\n".join(lines)]) + "\n"


def _percent(ratio: float) -> str:
    return number(100 * abs(ratio - 1.0))


def _times(entry: RecipeChange) -> str:
    ends = [measured(run.time_per_epoch_ms) for run in (entry.before, entry.after)]
    return " → ".join(number(end.median if end else None) for end in ends) + " ms"


def _time_words(entry: RecipeChange, lang: str) -> str:
    ratio, kind = entry.time_ratio, entry.time_change
    if ratio is None:
        return MISSING
    if kind == "same":
        return phrase("compare.same", lang)
    return phrase(f"compare.{kind}", lang, percent=_percent(ratio.median), span=_span(ratio))


def _span(ratio: Interval) -> str:
    """The interval of a ratio in percent, the smaller change first."""
    low, high = sorted((100 * abs(ratio.low - 1.0), 100 * abs(ratio.high - 1.0)))
    return f"{number(low)}–{number(high)}"


def _memory(entry: RecipeChange, lang: str) -> str:
    if entry.peak_ratio is None:
        return MISSING
    if entry.memory_change == "same":
        return size(entry.after.peak_bytes)
    ends = f"{size(entry.before.peak_bytes)} → {size(entry.after.peak_bytes)}"
    return f"{ends}, {phrase(f'compare.{entry.memory_change}', lang, percent=_percent(entry.peak_ratio))}"


def _accuracy(entry: RecipeChange, lang: str) -> str:
    difference = entry.accuracy_difference
    if difference is None:
        return MISSING
    if entry.accuracy_change == "same":
        return phrase("compare.same", lang)
    span = f"{_signed(difference.low)} – {_signed(difference.high)}"
    return phrase("compare.points", lang, points=_signed(difference.median), span=span)


def _signed(value: float) -> str:
    text = fixed(value, 2)
    return f"+{text}" if value > 0 else text.replace("-", "−")


def _lines(change: ResultChange, before: str, after: str, lang: str, limit: float | None) -> list[str]:
    """The remarks below the table, and last what CI is told."""
    comma = "、" if lang == "zh" else ", "
    lines = []
    if change.forced:
        lines.append(phrase("compare.forced", lang, parts="; ".join(change.forced)))
    if change.versions:
        parts = comma.join(f"{name} {own} → {other}" for name, (own, other) in change.versions.items())
        lines.append(phrase("compare.versions", lang, parts=parts))
    if change.only_before:
        lines.append(phrase("compare.only_before", lang, source=before, names=comma.join(change.only_before)))
    if change.only_after:
        lines.append(phrase("compare.only_after", lang, source=after, names=comma.join(change.only_after)))
    for entry in change.changes:
        if entry.lost is not None:
            reason = in_language(entry.lost, lang) or phrase("compare.no_reason", lang)
            lines.append(phrase("compare.lost", lang, name=entry.name, reason=reason))
    if change.together is not None:
        low, high = sorted(change.together, key=lambda ratio: abs(ratio - 1.0))
        lines.append(phrase("compare.together", lang, low=_percent(low), high=_percent(high)))
    lines.append(phrase("compare.legend", lang))
    if not change.is_changed:
        lines.append(phrase("compare.nothing", lang))
    if limit is not None:
        percent = number(100 * limit)
        worse = comma.join(entry.name for entry in change.regressions(limit))
        key = "compare.regression" if worse else "compare.fine"
        lines.append(phrase(key, lang, limit=percent, **({"names": worse} if worse else {})))
    return [_line(line) for line in lines]


def _line(text: str) -> str:
    """A text from a file on one line, without what a terminal would obey."""
    return " ".join(plain(text).split())
