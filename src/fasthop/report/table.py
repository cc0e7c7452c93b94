"""The table of a Result: for a terminal of any width, as Markdown and as HTML.

On a terminal the first layout that fits is taken: everything on one line; intervals below their
figures; exactness and steps below the recipe's name as well; and else one block a recipe. A brief table keeps to one line
a recipe, and leaves columns out before it goes over to the others.
"""

from __future__ import annotations

import html
import io
import re
import shutil
import textwrap
from typing import TYPE_CHECKING

from fasthop.measure.run import Result
from fasthop.report.figures import MISSING
from fasthop.report.rows import COLUMNS, Row, brief_remarks, header, header_line, remarks, rows
from fasthop.report.words import check_lang, phrase

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

STYLES = {"faster": "green", "slower": "yellow", "same": "dim", "alone": ""}
LEFT = ("recipe", "exactness")
PIPED_WIDTH = 120
LEFT_OUT = (("first", "exactness"), ("compile",), ("steps",), ("memory",))
"""What a brief table leaves out, in this order, until it fits on one line a recipe."""


def terminal_width() -> int:
    """The width of the terminal that stdout is; COLUMNS where it is set; 120 where it is a pipe."""
    return shutil.get_terminal_size((PIPED_WIDTH, 24)).columns


def table_text(
    result: Result, lang: str = "en", width: int | None = None, color: bool = False, *, is_brief: bool = False
) -> str:
    """The table and the remarks below it as text of at most `width` columns. is_brief: one line a recipe where that fits,
    and few remarks.

    Without `color` it holds no escape codes and no trailing blanks. Raises InvalidConfig for an
    unknown language.
    """
    check_lang(lang)
    width = max(20, terminal_width() if width is None else width)
    console, buffer = _console(width, color)
    shown = rows(result, lang)
    if shown:
        console.print(_layout(shown, lang, console, is_brief=is_brief))
        if not is_brief:
            console.print()
    for line in (brief_remarks if is_brief else remarks)(result, lang):
        console.print(line, highlight=False, markup=False, soft_wrap=False)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def _console(width: int, color: bool) -> tuple[Console, io.StringIO]:
    from rich.console import Console

    buffer = io.StringIO()
    console = Console(
        file=buffer,
        width=width,
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        legacy_windows=False,
        emoji=False,
    )
    return console, buffer


def _layout(shown: list[Row], lang: str, console: Console, *, is_brief: bool) -> Table:
    tables = [
        _table(shown, lang, stacked=s, joined=j) for s, j in ((False, False), (True, False), (True, True))
    ]
    if is_brief:
        left_out: tuple[str, ...] = ()
        brief = []
        for names in LEFT_OUT:
            left_out += names
            brief.append(_table(shown, lang, stacked=False, joined=False, left_out=left_out, is_dense=True))
        tables = brief + tables
    for table in tables:
        if _width(table, console) <= console.width:
            return table
    return _blocks(shown, lang)


def _width(table: Table, console: Console) -> int:
    from rich.measure import Measurement

    return Measurement.get(console, console.options.update(width=10_000, max_width=10_000), table).maximum


def _lines(row: Row, column: str, stacked: bool) -> str:
    if not stacked:
        return row.one_line(column)
    cell = row.cells[column]
    if column == "ratio" and row.change == "same":
        return "\n".join(textwrap.wrap(cell[0], 14))
    return "\n".join(cell)


def _table(
    shown: list[Row],
    lang: str,
    *,
    stacked: bool,
    joined: bool,
    left_out: tuple[str, ...] = (),
    is_dense: bool = False,
) -> Table:
    """is_dense: as narrow as one line a recipe can be."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    left_out += ("exactness", "steps") if joined else ()
    columns = [name for name in COLUMNS if name not in left_out]
    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 0 if joined or is_dense else 1),
        collapse_padding=True,
        pad_edge=False,
        show_edge=False,
        leading=1 if joined else 0,
    )
    for name in columns:
        table.add_column(
            Text("\n".join(header(name, lang)) if stacked or is_dense else header_line(name, lang)),
            justify="left" if name in LEFT else "right",
            no_wrap=True,
            vertical="top",
        )
    for row in shown:
        cells = {name: Text(_lines(row, name, stacked)) for name in columns}
        if joined:
            cells["recipe"] = _joined(row, lang)
        cells["recipe"].stylize("bold", 0, len(row.cells["recipe"][0]))
        cells["ratio"].stylize(STYLES[row.change])
        table.add_row(*(cells[name] for name in columns))
    return table


def _joined(row: Row, lang: str) -> Text:
    """The recipe's name, broken at its plus signs, with exactness and steps below."""
    from rich.text import Text

    name, exactness, steps = (row.cells[column][0] for column in ("recipe", "exactness", "steps"))
    lines = broken_name(name)
    if exactness != MISSING:
        lines.append(exactness)
    if steps != MISSING:
        lines.append(phrase("table.one_step" if steps == "1" else "table.num_steps", lang, steps=steps))
    return Text("\n".join(lines))


def broken_name(name: str, width: int = 14) -> list[str]:
    """A recipe's name in lines of at most `width`, broken after + : - and blanks only."""
    lines = [""]
    for part in re.findall(r"[^+:\- ]*[+:\- ]*", name):
        if lines[-1] and len(lines[-1]) + len(part.rstrip()) > width:
            lines.append("")
        lines[-1] += part
    return [line.rstrip() for line in lines]


def _blocks(shown: list[Row], lang: str) -> Table:
    """One block a recipe, a figure a line: what is left where the terminal is narrow."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2), expand=False)
    table.add_column(no_wrap=False)
    table.add_column(no_wrap=False)
    for place, row in enumerate(shown):
        if place:
            table.add_row()
        for name in COLUMNS:
            value = Text(row.one_line(name), style="bold" if name == "recipe" else "")
            table.add_row(Text(header_line(name, lang)), value)
    return table


def table_markdown(result: Result, lang: str = "en") -> str:
    """The table as Markdown (GitHub's kind), without the remarks; empty where nothing was measured."""
    shown = rows(result, check_lang(lang))
    if not shown:
        return ""
    lines = [
        [header_line(name, lang) for name in COLUMNS],
        [":--" if name in LEFT else "--:" for name in COLUMNS],
        *([markdown_escape(row.one_line(name)) for name in COLUMNS] for row in shown),
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def markdown_escape(text: str) -> str:
    """`text` with what Markdown would read as its own made plain, on one line."""
    for sign in "\\`*_|<>[]":
        text = text.replace(sign, f"\\{sign}")
    return " ".join(text.split())


def table_html(result: Result, lang: str = "en") -> str:
    """The table and its remarks as plain HTML with every text escaped, for notebooks."""
    shown = rows(result, check_lang(lang))
    head = "".join(f"<th>{html.escape(header_line(name, lang))}</th>" for name in COLUMNS)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(row.one_line(name))}</td>" for name in COLUMNS) + "</tr>"
        for row in shown
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if shown else ""
    return f'<div lang="{lang}">{table}' + "".join(
        f"<p>{html.escape(line)}</p>" for line in remarks(result, lang)
    ) + "</div>"  # fmt: skip
