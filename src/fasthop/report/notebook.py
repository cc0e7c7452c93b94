"""A Result as a notebook shows it: what is best, the chart, the table, and the interpretation folded up."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping
from pathlib import Path

from fasthop.measure.run import Result
from fasthop.report.explain import best, explanations, interpretation
from fasthop.report.summary import title
from fasthop.report.table import table_html
from fasthop.report.words import check_lang, phrase


def notebook_html(
    result: Result, lang: str = "en", rung_words: Mapping[str, str] | None = None, page: Path | None = None
) -> str:
    """HTML without scripts, every text escaped. page: where the page lies, named at the end.

    Raises InvalidConfig for an unknown language.
    """
    from fasthop.report.chart import chart_bytes

    check_lang(lang)
    picture = base64.b64encode(chart_bytes(result, lang)["png"]).decode("ascii")
    told = "".join(f"<p>{html.escape(text)}</p>" for text in interpretation(result, lang))
    told += "".join(
        f"<p><b>{html.escape(name)}</b> {html.escape(text)}</p>"
        for name, text in explanations(result, lang, rung_words)
        if text
    )
    parts = [
        f"<h3>{html.escape(title(result, lang))}</h3>",
        f"<p>{html.escape(best(result, lang))}</p>",
        f'<img src="data:image/png;base64,{picture}" alt="{html.escape(phrase("head.chart", lang))}" '
        'style="max-width: 100%; width: 50rem; background: white">',
        f'<div style="overflow-x: auto">{table_html(result, lang)}</div>',
        f"<details><summary>{html.escape(phrase('head.meaning', lang))}</summary>{told}</details>",
    ]
    if page is not None:
        parts.append(f"<p>{html.escape(phrase('page.saved', lang, path=page))}</p>")
    return f'<div lang="{lang}">{"".join(parts)}</div>'
