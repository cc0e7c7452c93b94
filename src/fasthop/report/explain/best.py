"""The recommendation: what is best here, how exact it is, and what takes the least memory."""

from __future__ import annotations

from fasthop.measure.run import Result, Run
from fasthop.report.explain.figures_said import MEMORY_TIE
from fasthop.report.figures import fixed, measured, number, seconds, size, span
from fasthop.report.rows import change
from fasthop.report.words import LANGUAGES, check_lang, phrase, sentences

CLOSE = (
    0.10  # times to accuracy nearer than 10 % are called level: they come from epochs, and carry no interval
)


def best(result: Result, lang: str = "en") -> str:
    """What is best by time to the baseline's accuracy, which epoch of equal steps is shortest, and the least memory."""
    return sentences(best_sentences(result, lang), lang)


def best_sentences(result: Result, lang: str = "en") -> list[str]:
    """The same as sentences, those that matter most first."""
    check_lang(lang)
    first, epoch = first_to_accuracy(result), shortest_epoch(result)
    chosen = first or epoch
    first_said, *close = _to_accuracy(result, lang)
    parts = [first_said]
    if first is not None:
        parts.append(_exactness(first, result, lang))
    parts += [*close, _epoch(result, epoch, lang)]
    if epoch is not None and epoch is not first:
        parts.append(_exactness(epoch, result, lang))
    if chosen is not None:
        parts.append(_least_memory(chosen, result, lang))
    return [part for part in parts if part]


def first_to_accuracy(result: Result) -> Run | None:
    """The run that reaches the target accuracy first; None where no run has that figure."""
    timed = _timed(result)
    return timed[0][1] if timed and result.target_accuracy is not None else None


def shortest_epoch(result: Result) -> Run | None:
    """Of the runs with as many steps as the baseline and significantly faster epochs the fastest; None without one."""
    baseline = result.baseline
    faster = [
        (time.median, place, run)
        for place, run in enumerate(result.runs)
        if change(run, baseline) == "faster"
        and run.num_steps_per_epoch == baseline.num_steps_per_epoch
        and (time := measured(run.time_per_epoch_ms)) is not None
    ]
    return min(faster, key=lambda entry: entry[:2])[2] if faster else None


def _timed(result: Result) -> list[tuple[float, Run]]:
    timed = [(run.time_to_accuracy_s, run) for run in result.runs if run.time_to_accuracy_s is not None]
    return sorted(timed, key=lambda entry: entry[0])


def _to_accuracy(result: Result, lang: str) -> list[str]:
    timed = _timed(result)
    if not timed or result.target_accuracy is None:
        return [phrase("best.unknown", lang)]
    first_s, first = timed[0]
    fields = {"target": fixed(result.target_accuracy), "seconds": seconds(first_s)}
    baseline_s = result.baseline.time_to_accuracy_s
    if first is result.baseline:
        parts = [phrase("best.baseline", lang, **fields)]
    elif baseline_s is None:
        parts = [phrase("best.alone", lang, name=first.name, **fields)]
    else:
        parts = [phrase("best.recipe", lang, name=first.name, baseline=seconds(baseline_s), **fields)]
    for second_s, second in timed[1:]:
        if second_s <= first_s * (1 + CLOSE):
            close = {"seconds": seconds(second_s), "percent": round(CLOSE * 100)}
            parts.append(phrase("best.close", lang, name=second.name, **close))
    return parts


def _epoch(result: Result, run: Run | None, lang: str) -> str:
    if measured(result.baseline.time_per_epoch_ms) is None:
        return ""
    if run is None:
        return phrase("best.no_epoch", lang)
    time, ratio = measured(run.time_per_epoch_ms), measured(run.ratio_to_baseline)
    assert time is not None
    assert ratio is not None
    fields = {"time": number(time.median), "ratio": number(ratio.median), "ratio_span": span(ratio)}
    return phrase("best.epoch", lang, name=run.name, **fields)


def _exactness(run: Run, result: Result, lang: str) -> str:
    key = f"best.{run.exactness}"
    if run is result.baseline or key not in LANGUAGES[lang]:
        return ""
    return phrase(key, lang, name=run.name)


def _least_memory(chosen: Run, result: Result, lang: str) -> str:
    """The run with the smallest peak, where that is clearly below the chosen one's."""
    known = [(run.peak_bytes, place, run) for place, run in enumerate(result.runs) if run.peak_bytes]
    if not known or not chosen.peak_bytes:
        return ""
    peak, _, run = min(known, key=lambda entry: entry[:2])
    time = measured(run.time_per_epoch_ms)
    if peak >= (1 - MEMORY_TIE) * chosen.peak_bytes or time is None:
        return ""
    fields = {"memory": size(peak), "other": size(chosen.peak_bytes), "time": number(time.median)}
    return phrase("best.memory", lang, name=run.name, chosen=chosen.name, **fields)
