"""Cuts the report's Chinese font out of Noto Sans CJK (SIL Open Font License 1.1).

    python scripts/make_font.py NotoSansCJK-Regular.ttc

The source is the Debian package fonts-noto-cjk, or github.com/notofonts/noto-cjk. What is kept are
the Latin letters, the signs of the charts and every Chinese character in the package's sources, since the page shows
what rungs and verdicts say of themselves; run it again when a test says that a character is missing. The family is renamed, because a cut font
must not pass for the original.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTCollection, TTFont

from fasthop.report.words import LANGUAGES

FAMILY = "Fasthop Sans SC"
FACE = "Noto Sans CJK SC"
SOURCES = Path(__file__).parents[1] / "src" / "fasthop"
TARGET = SOURCES / "report" / "fonts" / "FasthopSansSC-Regular.otf"
CHINESE = re.compile(r"[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]+")
LATIN = "".join(chr(code) for code in range(0x20, 0x7F))
SIGNS = "×±·–—−≈≤≥…“”‘’，。；：、（）！？《》％+µ"


def characters() -> str:
    """Every character that the font must hold."""
    words = "".join(text for phrases in LANGUAGES.values() for text in phrases.values())
    sources = "".join(path.read_text(encoding="utf-8") for path in sorted(SOURCES.rglob("*.py")))
    words += "".join(CHINESE.findall(sources))
    return "".join(sorted(set(LATIN + SIGNS + words) - {"\n"}))


def face(path: Path) -> TTFont:
    """The simplified Chinese face of a collection, or the font itself."""
    if path.suffix.lower() != ".ttc":
        return TTFont(path)
    for font in TTCollection(path, lazy=True).fonts:
        if font["name"].getDebugName(1) == FACE:
            return font
    raise SystemExit(f"{path} holds no face named {FACE}.")


def cut(font: TTFont) -> TTFont:
    """The font with only `characters()`, without hinting and features, under its new name."""
    options = subset.Options()
    options.layout_features = []
    options.hinting = False
    options.desubroutinize = True
    options.name_IDs = [0, 1, 2, 3, 4, 5, 6, 7, 13, 14]
    options.name_languages = [0x409]
    options.drop_tables += ["BASE", "GDEF", "GPOS", "GSUB", "VORG", "vhea", "vmtx", "DSIG"]
    options.notdef_outline = True
    cutter = subset.Subsetter(options)
    cutter.populate(text=characters())
    cutter.subset(font)
    postscript = FAMILY.replace(" ", "") + "-Regular"
    for name_id, text in ((1, FAMILY), (2, "Regular"), (3, postscript), (4, FAMILY), (6, postscript)):
        font["name"].setName(text, name_id, 3, 1, 0x409)
    top = font["CFF "].cff
    top.fontNames = [postscript]
    top[0].FullName, top[0].FamilyName = FAMILY, FAMILY
    font["head"].modified = font["head"].created  # the same input gives the same file
    font.recalcTimestamp = False
    return font


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=Path)
    parser.add_argument("--target", type=Path, default=TARGET)
    args = parser.parse_args()
    font = cut(face(args.source))
    args.target.parent.mkdir(parents=True, exist_ok=True)
    font.save(args.target)
    print(f"{args.target}: {args.target.stat().st_size:,} bytes, {len(font.getBestCmap())} characters")


if __name__ == "__main__":
    main()
