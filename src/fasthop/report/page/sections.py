"""The page's content in one language: its parts in order, each a section with a heading."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fasthop.errors import FasthopError
from fasthop.measure.run import Result, Run
from fasthop.report.circumstances import machine_line, task_line
from fasthop.report.explain import best, explanations, interpretation
from fasthop.report.figures import seconds
from fasthop.report.page.curves_figure import curves_figure
from fasthop.report.page.figure import Figure
from fasthop.report.page.ladder_figures import (
    memory_figure,
    recipe_names,
    time_figure,
    to_accuracy_figure,
)
from fasthop.report.page.markup import element, escaped, paragraph, table
from fasthop.report.page.parts_figures import kinds_figure, stages_figure
from fasthop.report.page.reproduce import cautions, command, installation
from fasthop.report.page.roofline_figure import roofline_figure, work_rows
from fasthop.report.rows import COLUMNS, exactness_word, header_line, remarks, rows
from fasthop.report.summary import made_line, title
from fasthop.report.words import in_language, phrase
from fasthop.verify.verdict import Verdict


@dataclass(slots=True)
class Content:
    """A language's markup as it grows: its sections, the figures in them, and what the result does not hold."""

    lang: str
    sections: list[tuple[str, str, str]] = field(default_factory=list)  # id, heading, markup
    figures: list[Figure] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def add(self, key: str, heading: str, parts: Iterable[str]) -> None:
        """Adds a section; where it has no part, its heading goes to what is missing."""
        markup = "".join(part for part in parts if part)
        if markup:
            self.sections.append((f"{self.lang}-{key}", heading, markup))
        else:
            self.missing.append(heading)

    def drawn(self, figure: Figure | None, **attributes: str | bool | None) -> str:
        """The markup of a figure, which is then among those that the page draws; nothing for None."""
        if figure is None:
            return ""
        self.figures.append(figure)
        lang, name = self.lang, f"{self.lang}-chart-{figure.key}"
        keys = phrase("page.keys", lang)
        chart = element(
            "div",
            "",
            class_="chart",
            id=name,
            tabindex="0",
            role="group",
            aria_label=f"{figure.title}. {keys}",
        )
        behind = element("summary", escaped(phrase("page.figures", lang)))
        behind += _table(figure.title, figure.head, figure.rows, lang, left=figure.left)
        return element(
            "figure",
            element("figcaption", escaped(figure.title))
            + chart
            + paragraph(figure.note, class_="note")
            + element("details", behind),
            data_figure=figure.key,
            **attributes,
        )


def content(result: Result, lang: str, rung_words: Mapping[str, str] | None) -> Content:
    """All sections of the page in a language."""
    page = Content(lang)
    page.add("best", phrase("head.best", lang), [paragraph(best(result, lang), class_="lead")])
    page.add("ladder", phrase("page.ladder", lang), _ladder(page, result))
    page.add("whole", phrase("head.whole", lang), map(paragraph, interpretation(result, lang)))
    page.add("curves", phrase("page.curves", lang), [page.drawn(curves_figure(result, lang))])
    page.add("stages", phrase("page.stages", lang), [page.drawn(stages_figure(result, lang))])
    page.add("kinds", phrase("page.kinds", lang), [page.drawn(kinds_figure(result, lang))])
    head, work = work_rows(result, lang)
    floors = _table(phrase("page.floors", lang), head, work, lang) if work else ""
    drawn = page.drawn(roofline_figure(result, lang))
    page.add("roofline", phrase("page.roofline", lang), [drawn, floors])
    page.add("verdicts", phrase("page.verdicts", lang), [_verdicts(result, lang)])
    told = [
        element("h3", escaped(name)) + paragraph(text)
        for name, text in explanations(result, lang, rung_words)
        if text
    ]
    page.add("meaning", phrase("head.meaning", lang), told)
    page.add("setting", phrase("page.setting", lang), [_setting(result, lang)])
    page.add("reproduce", phrase("page.reproduce", lang), _reproduce(result, lang))
    return page


def _table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], lang: str, left: int = 1) -> str:
    return table(caption, head, rows, label=phrase("page.table", lang, title=caption), left=left)


def _ladder(page: Content, result: Result) -> list[str]:
    """The charts of time and memory, and the whole table with its remarks."""
    lang = page.lang
    time, to_accuracy = time_figure(result, lang), to_accuracy_figure(result, lang)
    both = time is not None and to_accuracy is not None
    parts = [_switch(lang) if both else ""]
    parts.append(page.drawn(time, data_choice="time" if both else None))
    parts.append(page.drawn(to_accuracy, data_choice="to_accuracy" if both else None))
    parts.append(page.drawn(memory_figure(result, lang)))
    shown = rows(result, lang)
    if shown:
        head = [header_line(name, lang) for name in COLUMNS]
        lines = [[row.one_line(name) for name in COLUMNS] for row in shown]
        parts.append(_table(phrase("head.table", lang), head, lines, lang, left=2))
    parts.append(_list(remarks(result, lang)))
    return parts


def _switch(lang: str) -> str:
    """The choice between time per epoch and time to accuracy."""
    options = []
    for value, key in (("time", "page.by_epoch"), ("to_accuracy", "page.by_accuracy")):
        radio = f'<input type="radio" name="{lang}-measure" value="{value}"{" checked" if value == "time" else ""}>'
        options.append(element("label", radio + " " + escaped(phrase(key, lang))))
    legend = element("legend", escaped(phrase("page.measure", lang)))
    return element("fieldset", legend + "".join(options), class_="switch")


def _verdicts(result: Result, lang: str) -> str:
    lines = [
        (
            name,
            exactness_word(run, result.baseline, lang),
            _verdict_sentence(run, lang),
            seconds(run.proof_s),
        )
        for name, run in zip(recipe_names(result), result.runs, strict=True)
        if run.verdict is not None
    ]
    if not lines:
        return ""
    head = [header_line("recipe", lang), header_line("exactness", lang)]
    head += [phrase("col.verdict", lang), phrase("col.proof", lang)]
    return _table(phrase("page.verdicts", lang), head, lines, lang, left=3)


def _verdict_sentence(run: Run, lang: str) -> str:
    try:
        return in_language(Verdict.from_json(run.verdict or {}).sentence, lang)
    except (FasthopError, TypeError, KeyError, ValueError):  # a file may hold anything here
        return phrase("verdict.unreadable", lang)


def _setting(result: Result, lang: str) -> str:
    pairs = (
        (phrase("head.task", lang), task_line(result, lang)),
        (phrase("head.machine", lang), machine_line(result, lang)),
    )
    return element(
        "dl", "".join(element("dt", escaped(name)) + element("dd", escaped(text)) for name, text in pairs)
    )


def _reproduce(result: Result, lang: str) -> list[str]:
    def block(text: str, label: str) -> str:
        code = element("code", escaped(text))
        return element("pre", code, tabindex="0", role="region", aria_label=label)

    parts = []
    for key, text in (("reproduce.command", command(result)), ("reproduce.install", installation(result))):
        parts += [paragraph(phrase(key, lang)), block(text, phrase(key, lang))]
    return [*parts, _list(cautions(result, lang))]


def _list(lines: list[str]) -> str:
    return element("ul", "".join(element("li", escaped(line)) for line in lines)) if lines else ""


def heading(result: Result, lang: str) -> str:
    """The page's title with when and with what it was measured."""
    return element("h1", escaped(title(result, lang))) + paragraph(made_line(result, lang), class_="note")
