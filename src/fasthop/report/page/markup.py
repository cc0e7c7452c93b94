"""HTML out of words and figures, every text of them escaped."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

# What a terminal or a reader's eye would take for something else: control characters but tab and newline, and the
# marks that turn the direction of writing.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def plain(text: object) -> str:
    """A text from a file without control characters, blanks as they are."""
    return _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", str(text))


def escaped(text: object) -> str:
    """`text` for the inside of an element or of an attribute in quotes."""
    return html.escape(plain(text), quote=True)


def element(tag: str, content: str = "", **attributes: str | bool | None) -> str:
    """An element around markup. Attributes: True stands alone, None and False are left out, `class_` is class,
    and an underscore within is a hyphen; their values are escaped, the content is not."""
    words = []
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        name = name.rstrip("_").replace("_", "-")
        words.append(name if value is True else f'{name}="{escaped(value)}"')
    return f"<{' '.join([tag, *words])}>{content}</{tag}>"


def paragraph(text: str, **attributes: str | bool | None) -> str:
    """A paragraph of text, which is escaped; nothing where there is no text."""
    return element("p", escaped(text), **attributes) if text else ""


def table(
    caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], *, label: str, left: int = 1
) -> str:
    """A table in a frame that scrolls by itself, which has a `label` for those who do not see it. The first cell of a
    row names it; `left` columns hold words."""
    cells = "".join(
        element("th", escaped(name), scope="col", class_=None if place < left else "figure")
        for place, name in enumerate(head)
    )
    lines = []
    for first, *rest in rows:
        line = element("th", escaped(first), scope="row")
        line += "".join(
            element("td", escaped(cell), class_=_class(cell, place, left))
            for place, cell in enumerate(rest, 1)
        )
        lines.append(element("tr", line))
    body = element("thead", element("tr", cells)) + element("tbody", "".join(lines))
    whole = element("table", element("caption", escaped(caption)) + body)
    return element("div", whole, class_="scroll", tabindex="0", role="region", aria_label=label)


def _class(cell: str, place: int, left: int) -> str:
    """How wide a cell is at least: as its kind needs."""
    if place >= left:
        return "figure"
    return "sentence" if len(cell) > 40 else "words"


def script_json(tree: Any) -> str:
    """JSON that may stand within a script element: nothing in it can end the element."""
    text = json.dumps(_plain_tree(tree), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _plain_tree(tree: Any) -> Any:
    if isinstance(tree, str):
        return plain(tree)
    if isinstance(tree, dict):
        return {_plain_tree(key): _plain_tree(entry) for key, entry in tree.items()}
    if isinstance(tree, list | tuple):
        return [_plain_tree(entry) for entry in tree]
    return tree
