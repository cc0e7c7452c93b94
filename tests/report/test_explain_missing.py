"""Where figures are missing their sentences are missing, and nothing else changes."""

from __future__ import annotations

from dataclasses import fields, replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fasthop.measure.run import Result
from fasthop.report.explain import best, bottleneck, explanations, interpretation
from fasthop.report.summary import brief_text
from tests.report import page_results, results

KEPT = {"name", "rungs", "exactness", "curve", "round_times_ms", "notes"}
OPTIONAL = sorted({field.name for field in fields(results.BASELINE)} - KEPT - {"skipped", "skipped_words"})
NAMES = st.sampled_from(
    ["csr_spmm", "amp", "compile", "sample", "fused_step", "receptive_field", "none of ours"]
)
STAGES = (
    "sample", "gather", "transfer", "forward", "forward.aggregate", "forward.transform", "forward.elementwise",
    "forward.overhead", "forward.fused", "backward", "backward.aggregate", "backward.transform", "backward.overhead", "step",
    "fused", "other", "epoch", "strange", "forward.strange",
)  # fmt: skip
FIGURES = st.one_of(st.none(), st.just(0.0), st.floats(1e-6, 1e6), st.just("3"), st.just(True))


@st.composite
def runs(draw, of):
    lost = draw(st.sets(st.sampled_from(OPTIONAL)))
    run = replace(of, **dict.fromkeys(lost))
    if draw(st.booleans()):
        run = replace(run, stages_ms=draw(st.dictionaries(st.sampled_from(STAGES), FIGURES)))
    if draw(st.booleans()):
        kinds = st.dictionaries(st.sampled_from(sorted([*page_results.KINDS, "graph", "strange"])), FIGURES)
        run = replace(run, memory_kinds=draw(kinds))
    if of.rungs:
        run = replace(run, rungs=tuple(draw(st.lists(NAMES, min_size=1, max_size=3))))
    times = draw(st.sampled_from([(), (1.0,) * 7, (2.0, 2.1, 2.2, 2.3, 2.2, 2.1, 2.0)]))
    return replace(run, round_times_ms=times)


@st.composite
def some_result(draw):
    whole = page_results.full()
    peaks = draw(st.dictionaries(st.sampled_from(sorted(page_results.PEAKS["cpu"])), FIGURES))
    machine = draw(st.sampled_from([{}, results.MACHINE, {**results.MACHINE, "peaks": peaks}, whole.machine]))
    epochs = draw(st.sampled_from([None, 0, 1, 200, "many", True]))
    return results.result(
        *(draw(runs(run)) for run in whole.runs),
        machine=machine,
        task={**results.TASK, "epochs": epochs},
        target_accuracy=draw(st.sampled_from([None, 79.0])),
    )


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(some_result())
def test_any_figures_may_be_missing(result: Result):
    for lang in ("en", "zh"):
        texts = [text for _, text in explanations(result, lang)]
        texts += [*interpretation(result, lang), best(result, lang)]
        for text in texts:
            for hole in ("None", "nan", "{", "}", " inf"):
                assert hole not in text
        assert brief_text(result, lang, width=100)
    for run in result.runs:
        found = bottleneck(run, 200)
        assert found is None or 0 < found.share <= 1


def test_an_empty_run_has_no_sentence_on_causes():
    bare = replace(results.BASELINE, time_per_epoch_ms=None, stages_ms=None, memory_kinds=None)
    result = results.result(bare)
    assert interpretation(result) == []
    assert bottleneck(bare) is None
    assert "goes into" not in dict(explanations(result))["baseline"]
