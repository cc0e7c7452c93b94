"""A Row: the words and figures of one Run as a table shows them, before any layout."""

from __future__ import annotations

from dataclasses import dataclass

from fasthop.measure.run import Result, Run
from fasthop.report.circumstances import task_notes
from fasthop.report.figures import MISSING, fixed, measured, number, seconds, size, span
from fasthop.report.prediction import prediction_remark
from fasthop.report.words import LANGUAGES, line, phrase, sentences

COLUMNS = (
    "recipe",
    "exactness",
    "steps",
    "time",
    "ratio",
    "first",
    "compile",
    "memory",
    "accuracy",
    "to_accuracy",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One recipe's cells by column; a cell is a figure and, where it has one, its spread.

    change: "faster", "slower", "same" or "alone" (nothing to compare with), for colours.
    """

    cells: dict[str, tuple[str, ...]]
    change: str

    def one_line(self, column: str) -> str:
        """The cell on one line: 5.41 (5.32–5.50), 80.1 ± 0.6."""
        head, *rest = self.cells[column]
        if not rest:
            return head
        return f"{head} {rest[0]}" if column == "accuracy" else f"{head} ({rest[0]})"


def change(run: Run, baseline: Run) -> str:
    """How a run's time relates to the baseline's: "faster", "slower", "same" or "alone"."""
    ratio = measured(run.ratio_to_baseline)
    if run is baseline or ratio is None or measured(run.time_per_epoch_ms) is None:
        return "alone"
    if ratio.holds(1.0):
        return "same"
    return "faster" if ratio.median > 1.0 else "slower"


def has_figures(run: Run) -> bool:
    """Whether a run has anything to show in a table."""
    figures = (run.time_per_epoch_ms, run.first_epoch_s, run.peak_bytes, run.accuracy, run.time_to_accuracy_s)
    return any(figure is not None for figure in figures)


def exactness_word(run: Run, baseline: Run, lang: str) -> str:
    """The word for a run's exactness; a dash for the baseline, which is what others are exact to."""
    key = f"exactness.{run.exactness}"
    if run is baseline:
        return MISSING
    return phrase(key, lang) if key in LANGUAGES[lang] else line(run.exactness)


def row(run: Run, baseline: Run, lang: str) -> Row:
    """The Row of one run."""
    kind = change(run, baseline)
    time = measured(run.time_per_epoch_ms)
    ratio = measured(run.ratio_to_baseline)
    if run is baseline:
        ratio_cell: tuple[str, ...] = ("1",) if time else (MISSING,)
    elif kind == "same":
        ratio_cell = (phrase("table.same", lang),)
    elif kind == "alone" or ratio is None:
        ratio_cell = (MISSING,)
    else:
        ratio_cell = (number(ratio.median), span(ratio))
    accuracy = run.accuracy
    if accuracy is None:
        accuracy_cell: tuple[str, ...] = (MISSING,)
    elif accuracy.count < 2:
        accuracy_cell = (fixed(accuracy.mean),)
    else:
        accuracy_cell = (fixed(accuracy.mean), f"± {fixed(accuracy.std)}")
    return Row(
        cells={
            "recipe": (line(run.name),),
            "exactness": (exactness_word(run, baseline, lang),),
            "steps": (MISSING if run.num_steps_per_epoch is None else f"{run.num_steps_per_epoch:,}",),
            "time": (number(time.median), span(time)) if time else (MISSING,),
            "ratio": ratio_cell,
            "first": (seconds(run.first_epoch_s),),
            "compile": (seconds(run.compile_s),),
            "memory": (size(run.peak_bytes),),
            "accuracy": accuracy_cell,
            "to_accuracy": (seconds(run.time_to_accuracy_s),),
        },
        change=kind,
    )


def header(column: str, lang: str) -> list[str]:
    """A column's header, in the lines that it breaks into where the table is narrow."""
    return phrase(f"col.{column}", lang).split("|")


def header_line(column: str, lang: str) -> str:
    """A column's header on one line. Chinese words join without a blank."""
    joined, *rest = header(column, lang)
    for part in rest:
        joined += part if ord(joined[-1]) > 127 < ord(part[0]) else f" {part}"
    return joined


def rows(result: Result, lang: str) -> list[Row]:
    """The rows of every run that has figures, in the ladder's order."""
    return [row(run, result.baseline, lang) for run in result.runs if has_figures(run)]


def remarks(result: Result, lang: str) -> list[str]:
    """The lines that stand below the table: what was not measured and why, and how to read it."""
    lines = []
    for run in result.runs:
        if run.skipped is not None:
            key = "table.incomplete" if has_figures(run) else "table.skipped"
            lines.append(phrase(key, lang, name=run.name, reason=run.reason(lang)))
    lines += task_notes(result, lang)
    if measured(result.baseline.time_per_epoch_ms) is None:
        lines.append(phrase("table.no_baseline", lang))
    if not result.finished:
        lines.append(phrase("table.unfinished", lang))
    shown = [run for run in result.runs if has_figures(run)]
    if shown:
        lines.append(phrase("table.legend", lang))
    if result.target_accuracy is not None:
        lines.append(phrase("table.target", lang, target=fixed(result.target_accuracy)))
    if len({run.num_steps_per_epoch for run in shown if run.num_steps_per_epoch}) > 1:
        lines.append(phrase("table.steps", lang))
    lines += prediction_remark(result, lang)
    return lines


def brief_remarks(result: Result, lang: str) -> list[str]:
    """The lines below a brief table: that something is missing, and how to read it."""
    lines = []
    if measured(result.baseline.time_per_epoch_ms) is None:
        lines.append(phrase("table.no_baseline", lang))
    if not result.finished:
        lines.append(phrase("table.unfinished", lang))
    if any(has_figures(run) for run in result.runs):
        parts = [phrase("brief.legend", lang)]
        if result.target_accuracy is not None:
            parts.append(phrase("brief.target", lang, target=fixed(result.target_accuracy)))
        lines.append(sentences(parts, lang))
    return lines
