"""The typefaces of charts: DejaVu Sans, which comes with matplotlib, and the bundled Chinese one.

The Chinese font holds the characters of the words files only (scripts/make_font.py), so text that
comes from elsewhere, such as a graph's name, is passed through `drawable` first.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.font_manager import FontProperties

FONT_FILE = Path(__file__).parent / "fonts" / "FasthopSansSC-Regular.otf"
CHINESE, LATIN = "Fasthop Sans SC", "DejaVu Sans"


@lru_cache(maxsize=1)
def _register() -> None:
    """Tells matplotlib of the bundled font, once a process; nothing of the user's settings changes."""
    from matplotlib.font_manager import fontManager

    fontManager.addfont(FONT_FILE)


def typeface(lang: str, size: float, bold: bool = False) -> FontProperties:
    """The font of a chart's text in points; each typeface falls back on the other by character.

    bold: only where the words are Latin; the Chinese font has one weight.
    """
    from matplotlib.font_manager import FontProperties

    _register()
    if lang == "zh":
        return FontProperties(family=[CHINESE, LATIN], size=size)
    if bold:
        return FontProperties(family=[LATIN], size=size, weight="bold")
    return FontProperties(family=[LATIN, CHINESE], size=size)


@lru_cache(maxsize=1)
def characters() -> frozenset[int]:
    """The code points that the two typefaces can draw."""
    from matplotlib.font_manager import FontProperties, findfont
    from matplotlib.ft2font import FT2Font

    found: set[int] = set()
    for path in (str(FONT_FILE), findfont(FontProperties(family=[LATIN]))):
        found |= set(FT2Font(path).get_charmap())
    return frozenset(found)


def drawable(text: str) -> str:
    """`text` on one line, with every character that neither typeface has as a question mark, and
    the dollar sign kept from starting a formula."""
    flat = " ".join(text.split())
    return "".join(sign if ord(sign) in characters() else "?" for sign in flat).replace("$", r"\$")
