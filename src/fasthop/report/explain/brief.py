"""The chief sentences on each recipe, for a terminal: what decides about it, those that matter most first."""

from __future__ import annotations

from fasthop.measure.run import Result, Run
from fasthop.report.explain.figures_said import floor_sentences, memory_sentences, time_sentences
from fasthop.report.explain.moved import moved_sentences
from fasthop.report.explain.outlook import outlook_sentences
from fasthop.report.explain.price import dominated_sentences
from fasthop.report.explain.reason import reason_sentences
from fasthop.report.explain.versus import versus
from fasthop.report.explain.where import rate_sentences, where_sentences
from fasthop.report.figures import measured
from fasthop.report.words import check_lang, line, phrase


def brief(result: Result, lang: str = "en") -> list[tuple[str, list[str]]]:
    """Per run its name and its sentences; never none. Raises InvalidConfig for an unknown language."""
    check_lang(lang)
    return [(line(run.name), _sentences(run, result, lang)) for run in result.runs]


def _sentences(run: Run, result: Result, lang: str) -> list[str]:
    baseline = result.baseline
    if run.skipped is not None:
        return [phrase("explain.skipped", lang, reason=run.reason(lang))]
    if measured(run.time_per_epoch_ms) is None:
        return [phrase("time.none", lang)]
    found = versus(run, result)
    if found is None:
        told = [*where_sentences(run, lang), *rate_sentences(run, result, lang), *floor_sentences(run, lang)]
        return told or [*time_sentences(run, baseline, lang), *memory_sentences(run, baseline, lang)]
    late = dominated_sentences(run, result, lang)
    reason, moved = reason_sentences(found, lang), moved_sentences(found, lang, most=1)
    told = [*moved, *reason] if found.change == "faster" else [*reason, *moved]
    told = [*told[:1], *late, *told[1:], *outlook_sentences(found, result, lang)]
    if moved or reason:
        return told
    told = [*time_sentences(run, baseline, lang), *late, *memory_sentences(run, baseline, lang)]
    return [*told, *outlook_sentences(found, result, lang)]
