"""The interpretation of a whole ladder: where time and memory go, what paid and what did not, and what comes next."""

from __future__ import annotations

from fasthop.measure.run import Result, Run
from fasthop.report.explain.aim import aim
from fasthop.report.explain.best import shortest_epoch
from fasthop.report.explain.cause import bottleneck
from fasthop.report.explain.figures_said import floor_sentences, kinds_sentences
from fasthop.report.explain.listing import cause_words, causes_words, listed, percent
from fasthop.report.explain.outlook import ALL
from fasthop.report.explain.price import asked_epochs
from fasthop.report.explain.versus import before_words, versus
from fasthop.report.explain.where import rate_sentences, where_sentences
from fasthop.report.figures import fixed, measured, number
from fasthop.report.rows import change
from fasthop.report.words import check_lang, phrase, sentences


def interpretation(result: Result, lang: str = "en") -> list[str]:
    """Paragraphs on the ladder as a whole, each from its figures; none where nothing was measured.

    Raises InvalidConfig for an unknown language.
    """
    check_lang(lang)
    parts = [
        sentences(_baseline(result, lang), lang),
        sentences(_paid(result, lang), lang),
        sentences(_next(result, lang), lang),
    ]
    return [part for part in parts if part]


def _baseline(result: Result, lang: str) -> list[str]:
    baseline = result.baseline
    time = measured(baseline.time_per_epoch_ms)
    if time is None:
        return []
    told = [
        *where_sentences(baseline, lang),
        *_most(baseline, lang),
        *rate_sentences(baseline, result, lang),
        *floor_sentences(baseline, lang),
        *kinds_sentences(baseline, lang),
    ]
    return [phrase("whole.baseline", lang, time=number(time.median)), *told] if told else []


def _most(baseline: Run, lang: str) -> list[str]:
    """How much the largest part alone could give."""
    main = bottleneck(baseline)
    if main is None or main.share > ALL:
        return []
    fields = {"part": cause_words(main.kind, lang), "most": fixed(1 / (1 - main.share), 2)}
    return [phrase("whole.most", lang, **fields)]


def _paid(result: Result, lang: str) -> list[str]:
    """Which recipes made an epoch shorter, which changed nothing, which made it longer; and which spend longer before the
    first epoch than in all of them."""
    by_change: dict[str, list[Run]] = {"faster": [], "same": [], "slower": []}
    for run in result.runs:
        by_change.get(change(run, result.baseline), []).append(run)
    parts = [
        phrase(f"whole.{kind}", lang, names=listed([_named(run, result, kind, lang) for run in runs], lang))
        for kind, runs in by_change.items()
        if runs
    ]
    late = [
        run.name
        for run in result.runs
        if (found := bottleneck(run, asked_epochs(result))) is not None and found.kind == "compile"
    ]
    if late:
        epochs = f"{asked_epochs(result):,}"
        parts.append(phrase("whole.compile", lang, names=listed(late, lang), epochs=epochs))
    return parts


def _named(run: Run, result: Result, kind: str, lang: str) -> str:
    """A run with its ratio, and the share of what it is meant for."""
    ratio, found = measured(run.ratio_to_baseline), versus(run, result)
    assert ratio is not None
    part = aim(found) if found is not None else None
    if part is None or found is None:
        return (
            run.name
            if kind == "same"
            else phrase("whole.item", lang, name=run.name, ratio=number(ratio.median))
        )
    fields = {
        "target": causes_words(part.kinds, lang),
        "share": percent(part.share),
        "before": before_words(found, lang),
    }
    if kind == "same":
        return phrase("whole.item_same", lang, name=run.name, **fields)
    return phrase("whole.item_aim", lang, name=run.name, ratio=number(ratio.median), **fields)


def _next(result: Result, lang: str) -> list[str]:
    """What the shortest epoch is spent on."""
    run = shortest_epoch(result)
    chosen = run or result.baseline
    time, main = measured(chosen.time_per_epoch_ms), bottleneck(chosen)
    if time is None or main is None:
        return []
    if run is None:
        if not any(change(other, result.baseline) in ("same", "slower") for other in result.runs):
            return []
        fields = {"share": percent(main.share), "part": cause_words(main.kind, lang)}
        return [phrase("whole.next_none", lang, **fields)]
    fields = {"time": number(time.median), "share": percent(main.share), "part": cause_words(main.kind, lang)}
    return [phrase("whole.next", lang, name=run.name, **fields), *floor_sentences(run, lang)]
