"""A Report: a Result as people read it, on screen, in a notebook and as the files of a run folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fasthop.errors import InvalidConfig
from fasthop.measure.run import Result
from fasthop.report.files import make_folder, write_file
from fasthop.report.metric_words import judged_by
from fasthop.report.summary import brief_text, summary_markdown, summary_text
from fasthop.report.table import table_text
from fasthop.report.words import check_lang

RESULT_FILE = "result.json"
PAGE_FILE = "report.html"


class Report:
    """What `fasthop.bench` returns. `print(report)` shows it; in a notebook it shows itself with its chart.

    result: all that was measured; every figure on screen and in the files comes from it alone.
    folder: the run folder that it is saved in, or None.
    lang: the language of `print` and of notebooks, "en" or "zh".
    rung_words: what each rung does, by its name, in each language: {"en": {name: text}, "zh": ...}.
    """

    def __init__(
        self,
        result: Result,
        folder: Path | None = None,
        *,
        lang: str = "en",
        rung_words: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self.result = result
        self.folder = folder
        self.lang = check_lang(lang)
        self._rung_words = rung_words or {}

    def table(self, lang: str | None = None, width: int | None = None) -> str:
        """The table with its remarks as text, at most `width` columns wide (the terminal's by default)."""
        with judged_by(self.result.task):
            return table_text(self.result, lang or self.lang, width)

    def text(self, lang: str | None = None, width: int | None = None, *, full: bool = False) -> str:
        """As text without escape codes: head, table, what decides about each recipe, and what is best, in about 30 lines.

        full: with all of task and machine, what the ladder shows as a whole, and a paragraph a recipe.
        """
        return self._text(lang or self.lang, width, color=False, full=full)

    def _text(self, lang: str, width: int | None, *, color: bool, full: bool) -> str:
        with judged_by(self.result.task):
            if not full:
                return brief_text(self.result, lang, width, color)
            return summary_text(self.result, lang, self._rung_words.get(lang), width, color)

    def markdown(self, lang: str | None = None, chart: str | None = "ladder.png") -> str:
        """The same as Markdown: the text of summary.md. chart: the picture's path, or None for no picture."""
        lang = lang or self.lang
        with judged_by(self.result.task):
            return summary_markdown(self.result, lang, self._rung_words.get(lang), chart)

    def __str__(self) -> str:
        return self.text().rstrip("\n")

    def __repr__(self) -> str:
        names = ", ".join(run.name for run in self.result.runs)
        return f"Report({names}; folder={str(self.folder) if self.folder else None!r})"

    def _repr_html_(self) -> str:
        from fasthop.report.notebook import notebook_html

        with judged_by(self.result.task):
            return notebook_html(self.result, self.lang, self._rung_words.get(self.lang), self.page_path)

    def page(self, lang: str | None = None) -> str:
        """report.html's text: all of it with charts, in both languages, in one file that loads nothing.

        lang: which language it shows first. Raises NoChartLibrary where vl-convert-python is not installed.
        """
        from fasthop.report.page.page import page_html

        with judged_by(self.result.task):
            return page_html(self.result, lang or self.lang, self._rung_words)

    @property
    def page_path(self) -> Path | None:
        """Where the page lies in the run folder; None where there is none."""
        path = None if self.folder is None else self.folder / PAGE_FILE
        return path if path is not None and path.is_file() else None

    def open(self) -> bool:
        """Shows the page in the web browser. False where there is no page or no browser."""
        import webbrowser

        path = self.page_path
        return path is not None and webbrowser.open(path.resolve().as_uri())

    def show(self, lang: str | None = None, *, full: bool = False) -> None:
        """Prints `text` to standard output, in colour where that is a terminal."""
        color = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        sys.stdout.write(self._text(lang or self.lang, None, color=color, full=full))
        sys.stdout.flush()

    def save(self, folder: Path | str, lang: str | None = None, *, page: bool = True) -> Path:
        """Writes result.json, summary.md, ladder.png, ladder.svg and report.html into `folder` and returns it.

        result.json comes first, so that what was measured is safe whatever fails later. Files of
        the same names are replaced, each at once. page: whether report.html is wanted; it is left out as well
        where vl-convert-python is not installed. Raises CannotWrite where one cannot be written.
        """
        lang = check_lang(lang or self.lang)
        folder = make_folder(Path(folder))
        write_file(folder / RESULT_FILE, self.result.to_json().encode("utf-8") + b"\n")
        self.folder = folder
        self.write_summary(folder, lang)
        self.draw(folder, lang)
        if page:
            self.write_page(folder, lang)
        return folder

    def write_page(self, folder: Path | str, lang: str | None = None) -> Path | None:
        """Writes report.html into `folder`; returns its path, or None where vl-convert-python is not installed, and
        then no older page stays. Raises CannotWrite."""
        from fasthop.report.page.library import NoChartLibrary

        path = make_folder(Path(folder)) / PAGE_FILE
        try:
            write_file(path, self.page(lang).encode("utf-8"))
        except NoChartLibrary:
            path.unlink(missing_ok=True)
            return None
        return path

    def write_summary(self, folder: Path | str, lang: str | None = None) -> Path:
        """Writes summary.md into `folder`; returns its path. Raises CannotWrite."""
        path = make_folder(Path(folder)) / "summary.md"
        write_file(path, self.markdown(lang).encode("utf-8"))
        return path

    def draw(self, folder: Path | str, lang: str | None = None) -> list[Path]:
        """Draws ladder.png and ladder.svg into `folder`; returns their paths. Raises CannotWrite."""
        from fasthop.report.chart import chart_bytes

        folder = make_folder(Path(folder))
        paths = []
        with judged_by(self.result.task):
            drawn = chart_bytes(self.result, lang or self.lang)
        for kind, content in drawn.items():
            paths.append(folder / f"ladder.{kind}")
            write_file(paths[-1], content)
        return paths

    @classmethod
    def load(cls, source: Path | str, **options: Any) -> Report:
        """The report of a run folder or a result.json. options: `lang`, `rung_words`.

        Raises InvalidConfig where there is none, or it is damaged or of another version.
        """
        path = Path(source)
        if path.is_dir():
            path = path / RESULT_FILE
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise InvalidConfig(
                f"There is no {path}; give the folder of a run, or its {RESULT_FILE}."
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidConfig(
                f"{path} cannot be read ({error}); give the folder of a run, or its {RESULT_FILE}."
            ) from None
        return cls(Result.from_json(text, path), path.parent, **options)
