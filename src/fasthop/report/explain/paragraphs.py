"""One recipe's paragraph: what it is, what it changed here, why, what it costs, and when it would pay."""

from __future__ import annotations

from collections.abc import Mapping

from fasthop.measure.run import Result, Run
from fasthop.report.explain.figures_said import (
    accuracy_sentences,
    floor_sentences,
    memory_sentences,
    time_sentences,
)
from fasthop.report.explain.moved import moved_sentences
from fasthop.report.explain.outlook import outlook_sentences
from fasthop.report.explain.price import cost_sentences, proof_sentences, to_accuracy_sentences
from fasthop.report.explain.reason import reason_sentences
from fasthop.report.explain.versus import Versus, before_words, versus
from fasthop.report.explain.where import rate_sentences, where_sentences
from fasthop.report.figures import measured, number, span
from fasthop.report.prediction import prediction_sentence
from fasthop.report.words import check_lang, in_language, line, phrase, sentences


def explanations(
    result: Result, lang: str = "en", rung_words: Mapping[str, str] | None = None
) -> list[tuple[str, str]]:
    """Per run its name and its paragraph, in the ladder's order.

    rung_words: what each rung does, by the rung's name, in the same language.
    Raises InvalidConfig for an unknown language.
    """
    check_lang(lang)
    return [
        (line(run.name), sentences(_about(run, result, lang, rung_words or {}), lang)) for run in result.runs
    ]


def _about(run: Run, result: Result, lang: str, rung_words: Mapping[str, str]) -> list[str]:
    baseline = result.baseline
    found = versus(run, result)
    parts = [_what(run, result, lang, rung_words)]
    if run.skipped is not None:
        parts.append(phrase("explain.skipped", lang, reason=run.reason(lang)))
    if run.skipped is None or measured(run.time_per_epoch_ms) is not None:
        parts += time_sentences(run, baseline, lang)
        if found is None:
            parts += where_sentences(run, lang)
            parts += rate_sentences(run, result, lang)
        else:
            parts += _beside(found, baseline, lang)
            parts += moved_sentences(found, lang)
            parts += reason_sentences(found, lang)
        parts += floor_sentences(run, lang)
        parts += prediction_sentence(run, baseline, lang)
        parts += memory_sentences(run, baseline, lang)
        parts += accuracy_sentences(run, baseline, lang)
        parts += proof_sentences(run, lang)
        parts += cost_sentences(run, result, lang)
        parts += to_accuracy_sentences(run, result, lang)
        if found is not None:
            parts += outlook_sentences(found, result, lang)
    return parts + [in_language(note, lang) for note in run.notes]


def _what(run: Run, result: Result, lang: str, rung_words: Mapping[str, str]) -> str:
    if run is result.baseline:
        return phrase("explain.baseline", lang)
    if len(run.rungs) == 1:
        return rung_words.get(run.rungs[0], "")
    before = next((other for other in result.runs if other.rungs == run.rungs[:-1]), None)
    if run.name.startswith("+") and before is not None:  # a rung of a cumulative ladder
        added = phrase("explain.added", lang, rung=run.rungs[-1], before=before.name)
        return sentences([added, rung_words.get(run.rungs[-1], "")], lang)
    return phrase("explain.combination", lang, rungs=" + ".join(run.rungs)) if run.rungs else ""


def _beside(found: Versus, baseline: Run, lang: str) -> list[str]:
    """How the epoch relates to that of the row before, where that is not the baseline."""
    if found.before is baseline or found.ratio is None:
        return []
    fields = {"before": before_words(found, lang), "ratio_span": span(found.ratio)}
    if found.change != "same":
        fields |= {"ratio": number(found.ratio.median)}
    return [phrase(f"beside.{found.change}", lang, **fields)]
