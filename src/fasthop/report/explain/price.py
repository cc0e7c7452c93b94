"""What a recipe costs beforehand, whether its epochs earn that back, and when it reaches the target."""

from __future__ import annotations

import math

from fasthop.errors import FasthopError
from fasthop.measure.run import Result, Run
from fasthop.report.explain.cause import bottleneck, paid_before_s, training_s
from fasthop.report.explain.listing import percent
from fasthop.report.figures import fixed, is_measured, seconds
from fasthop.report.rows import change
from fasthop.report.words import in_language, phrase
from fasthop.verify.verdict import Verdict


def proof_sentences(run: Run, lang: str) -> list[str]:
    """The verdict on an exact recipe, in its own words, and what the proof took."""
    if run.verdict is None:
        return []
    try:
        parts = [in_language(Verdict.from_json(run.verdict).sentence, lang)]
    except (FasthopError, TypeError, KeyError, ValueError):  # a file may hold anything here
        return [phrase("verdict.unreadable", lang)]
    if is_measured(run.proof_s) and run.proof_s:
        parts.append(phrase("cost.proof", lang, proof=seconds(run.proof_s)))
    return parts


def dominated_sentences(run: Run, result: Result, lang: str) -> list[str]:
    """That preparing and compiling take longer than all the epochs that were asked for, where they do."""
    num_epochs = asked_epochs(result)
    found, trained = bottleneck(run, num_epochs), training_s(run, num_epochs)
    if found is None or trained is None or found.kind not in ("compile", "prepare"):
        return []
    fields = {"paid": seconds(paid_before_s(run)), "trained": seconds(trained), "share": percent(found.share)}
    return [phrase(f"dominated.{found.kind}", lang, epochs=f"{num_epochs:,}", **fields)]


def asked_epochs(result: Result) -> int | None:
    """The epochs that the task asks for."""
    epochs = result.task.get("epochs")
    return epochs if isinstance(epochs, int) and not isinstance(epochs, bool) and epochs > 0 else None


def cost_sentences(run: Run, result: Result, lang: str) -> list[str]:
    """Preparation, compilation, their counts, and after how many epochs they are earned back."""
    parts = []
    prepare, compile_s = run.prepare_s, run.compile_s
    late = dominated_sentences(run, result, lang) if change(run, result.baseline) != "alone" else []
    compiled = is_measured(compile_s) and bool(compile_s)
    prepared = is_measured(prepare) and bool(prepare)
    if compiled and prepared:
        parts.append(phrase("cost.both", lang, prepare=seconds(prepare), compile=seconds(compile_s)))
    elif compiled:
        parts.append(phrase("cost.compile", lang, compile=seconds(compile_s)))
    elif prepared and not late:
        parts.append(phrase("cost.prepare", lang, prepare=seconds(prepare)))
    for key, count in (
        ("compile.recompiles", run.num_recompiles),
        ("compile.breaks", run.num_graph_breaks),
        ("scaler.skipped", run.num_skipped_steps),
    ):
        if count:
            parts.append(phrase(key, lang, count=f"{count:,}"))
    if change(run, result.baseline) == "alone":
        return parts
    parts += late
    return [*parts, *_earned_back(run, result, lang, is_paid=compiled or prepared)]


def _earned_back(run: Run, result: Result, lang: str, *, is_paid: bool) -> list[str]:
    epochs, trained = run.break_even_epochs, asked_epochs(result)
    if change(run, result.baseline) != "faster" or epochs is None or not math.isfinite(epochs):
        return [phrase("cost.never", lang)] if is_paid else []
    if epochs <= 0:
        return [phrase("cost.free", lang)]
    needed = math.ceil(epochs)
    if trained is not None and needed > trained:
        return [phrase("cost.too_late", lang, epochs=f"{needed:,}", trained=f"{trained:,}")]
    return [phrase("cost.break_even", lang, epochs=f"{needed:,}")]


def to_accuracy_sentences(run: Run, result: Result, lang: str) -> list[str]:
    """When it reached the target accuracy, or that it did not."""
    if result.target_accuracy is None or run.accuracy is None:
        return []
    target = fixed(result.target_accuracy)
    if run.time_to_accuracy_s is None:
        return [phrase("to_accuracy.missed", lang, target=target)]
    return [phrase("to_accuracy.reached", lang, target=target, seconds=seconds(run.time_to_accuracy_s))]
