"""report.html: a Result as one HTML file in both languages, with charts, that loads nothing from anywhere."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from fasthop.measure.run import Result
from fasthop.report.page.library import CREDIT, chart_library, library_version
from fasthop.report.page.markup import element, escaped, paragraph, script_json
from fasthop.report.page.sections import Content, content, heading
from fasthop.report.summary import title
from fasthop.report.typeface import FONT_FILE
from fasthop.report.words import LANGUAGES, check_lang, phrase

FOLDER = Path(__file__).parent
THEMES = {"auto": "page.theme_auto", "light": "page.theme_light", "dark": "page.theme_dark"}
LANGUAGE_NAMES = {"en": "English", "zh": "中文"}


def page_html(
    result: Result, lang: str = "en", rung_words: Mapping[str, Mapping[str, str]] | None = None
) -> str:
    """The whole page; `lang` is shown first, the reader can switch.

    rung_words: what each rung does, by language and name. Raises InvalidConfig for an unknown language, and
    NoChartLibrary where vl-convert-python is missing.
    """
    check_lang(lang)
    contents = {name: content(result, name, (rung_words or {}).get(name)) for name in LANGUAGES}
    library, script = chart_library(), _asset("page.js")
    figures = {
        f"{name}-chart-{figure.key}": {"spec": figure.spec, "datasets": figure.datasets}
        for name, page in contents.items()
        for figure in page.figures
    }
    titles = {name: title(result, name) for name in LANGUAGES}
    data = script_json({"figures": figures, "titles": titles})
    # Only these two scripts run, whatever a result's names hold, and nothing is loaded: the browser sees to it.
    hashes = " ".join(f"'sha256-{_digest(text)}'" for text in (library, script))
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; font-src data:; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    head = (
        '<meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        '<meta name="generator" content="fasthop">'
        f"<title>{escaped(titles[lang])}</title>"
        f"<style>{_typeface()}{_asset('page.css')}</style>"
    )
    body = "".join(_language(result, page, shown=name == lang) for name, page in contents.items())
    body += '<div id="tip" aria-hidden="true" hidden></div><div id="live" class="unseen" aria-live="polite"></div>'
    body += f'<script type="application/json" id="data">{data}</script>'
    body += f"<script>{library}</script><script>{script}</script>"
    return (
        f'<!doctype html>\n<!-- Made by fasthop. It contains {CREDIT} -->\n<html lang="{_code(lang)}" data-lang="{lang}">'
        f"<head>{head}</head>\n<body>{body}</body></html>\n"
    )


def _language(result: Result, page: Content, *, shown: bool) -> str:
    """One language's whole page; the others are hidden."""
    lang = page.lang
    links = "".join(
        element("li", element("a", escaped(name), href=f"#{place}")) for place, name, _ in page.sections
    )
    top = element("div", heading(result, lang) + _controls(lang), class_="top")
    navigation = element("nav", element("ul", links), aria_label=phrase("page.contents", lang))
    sections = "".join(
        element("section", element("h2", escaped(name), id=f"{place}-title") + markup, id=place, aria_labelledby=f"{place}-title")
        for place, name, markup in page.sections
    )  # fmt: skip
    no_script = element("noscript", paragraph(phrase("page.no_script", lang)))
    separator = "、" if lang == "zh" else "; "
    left_out = phrase("page.left_out", lang, parts=separator.join(page.missing)) if page.missing else ""
    foot = paragraph(left_out, class_="left-out") + paragraph(
        phrase("page.library", lang, version=library_version())
    )
    return element(
        "div",
        element("header", top + navigation) + element("main", no_script + sections) + element("footer", foot),
        class_="language",
        lang=_code(lang),
        data_language=lang,
        hidden=not shown,
    )


def _controls(lang: str) -> str:
    """The switches of language and colours."""

    def group(label: str, kind: str, choices: Mapping[str, str], chosen: str) -> str:
        buttons = "".join(
            element(
                "button",
                escaped(words),
                type="button",
                aria_pressed="true" if value == chosen else "false",
                lang=_code(value) if kind == "lang" and value != lang else None,
                **{f"data_set_{kind}": value},
            )
            for value, words in choices.items()
        )
        return element("div", buttons, class_="choice", role="group", aria_label=label)

    themes = {name: phrase(key, lang) for name, key in THEMES.items()}
    return element(
        "div",
        group(phrase("page.language", lang), "lang", LANGUAGE_NAMES, lang)
        + group(phrase("page.theme", lang), "theme", themes, "auto"),
        class_="controls",
    )


def _code(lang: str) -> str:
    return "zh-Hans" if lang == "zh" else lang


@cache
def _asset(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


@cache
def _typeface() -> str:
    """The bundled Chinese font, for systems that have none: last in the list of the style sheet."""
    font = base64.b64encode(FONT_FILE.read_bytes()).decode("ascii")
    return (
        '@font-face{font-family:"Fasthop Sans SC";font-display:block;'
        f'src:url("data:font/otf;base64,{font}") format("opentype")}}\n'
    )


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
