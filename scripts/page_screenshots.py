"""Takes the pictures of report.html that README shows, of the committed run, in headless Chromium.

    python scripts/page_screenshots.py [RUN] [--chromium /usr/bin/chromium]

It writes page.png (light and wide), page-dark.png and page-phone.png (Chinese, on a phone) into the run's folder, and page.zh.png
beside them. The page itself is made in a temporary folder, since 1 MB of it is the library of charts.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, ViewportSize, sync_playwright

from fasthop.report.files import write_file
from fasthop.report.report import Report
from fasthop.report.rung_words import rung_words

RUN = Path(__file__).resolve().parents[1] / "docs" / "cora"
Colors = Literal["light", "dark"]
WIDE = ViewportSize(width=1000, height=860)
PHONE = ViewportSize(width=390, height=844)
# name: language, width and height, colours, what is scrolled to the top
PICTURES: dict[str, tuple[str, ViewportSize, Colors, str | None]] = {
    "page.png": ("en", WIDE, "light", None),
    "page.zh.png": ("zh", WIDE, "light", None),
    "page-dark.png": ("en", WIDE, "dark", "curves"),
    "page-phone.png": ("zh", PHONE, "dark", "ladder"),
}


def picture(
    browser: Browser, page_file: Path, lang: str, size: ViewportSize, colors: Colors, part: str | None
) -> bytes:
    """One picture of what a reader sees first, or of the part that is scrolled to."""
    context = browser.new_context(viewport=size, color_scheme=colors, offline=True, device_scale_factor=1.5)
    try:
        page = context.new_page()
        page.goto(page_file.as_uri())
        page.wait_for_selector("html[data-ready='true']")
        if part is not None:
            page.evaluate(f"document.getElementById('{lang}-{part}').scrollIntoView({{behavior: 'instant'}})")
        return page.screenshot()
    finally:
        context.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="Takes the pictures of the page for README.")
    parser.add_argument("run", nargs="?", type=Path, default=RUN)
    parser.add_argument("--chromium", default=shutil.which("chromium"))
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = Report.load(options.run, rung_words=rung_words())
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=options.chromium, args=["--no-sandbox"])
        for name, (lang, size, colors, part) in PICTURES.items():
            path = Path(folder) / f"{lang}.html"
            write_file(path, report.page(lang).encode("utf-8"))
            write_file(options.run / name, picture(browser, path, lang, size, colors, part))
        browser.close()


if __name__ == "__main__":
    main()
