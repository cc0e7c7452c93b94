"""The interpretation says only what the figures bear."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fasthop.measure.compare import accuracy_difference
from fasthop.measure.run import Accuracy, Interval
from fasthop.report.explain import best, explanations, memory_change
from tests.report import results

WORDS = {"sample": "Trains on sampled neighbours.", "compile": "Generates kernels."}


def about(result, name, lang="en", words=None):
    return dict(explanations(result, lang, words))[name]


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("kind", sorted(results.ALL))
def test_every_run_is_explained_without_holes(kind, lang):
    result = results.ALL[kind]()
    found = explanations(result, lang, WORDS)
    assert [name for name, _ in found] == [run.name for run in result.runs]
    for _, text in found:
        assert text
        for hole in ("{", "}", "None", "nan", "–  "):
            assert hole not in text
    assert best(result, lang)


def test_a_rung_speaks_for_itself_and_a_combination_names_its_rungs():
    assert about(results.normal(), "sample", words=WORDS).startswith("Trains on sampled neighbours. An epoch")
    assert about(results.normal(), "sample+amp", words=WORDS).startswith("Combines sample + amp.")
    assert about(results.normal(), "sample").startswith("An epoch takes")


def test_a_row_of_a_cumulative_ladder_names_what_it_adds():
    added = replace(results.SAMPLE, name="+compile", rungs=("sample", "compile"))
    text = about(results.result(results.BASELINE, results.SAMPLE, added), "+compile", words=WORDS)
    assert text.startswith("Adds compile to what sample has. Generates kernels. An epoch")
    alone = about(results.result(results.BASELINE, added), "+compile", words=WORDS)
    assert alone.startswith("Combines sample + compile.")


def test_faster_slower_and_no_change():
    assert "5.94× as fast as the baseline (95 % interval 5.82–6.06)" in about(
        results.with_faster(), "csr_spmm"
    )
    assert "slower, at 0.548× the baseline's speed" in about(results.with_faster(), "sample")
    text = about(results.with_faster(), "compile")
    assert "no significant change" in text
    assert "as fast as" not in text


def test_different_steps_are_not_compared_as_equal():
    text = about(results.normal(), "sample")
    assert "2 steps of 4.93 ms" in text
    assert "not the same amount of training" in text
    assert "amount of training" not in about(results.normal(), "compile")


def test_accuracy_is_decided_only_by_the_seeds():
    assert "undecided" in about(results.normal(), "sample")
    assert "3.10 points below the baseline" in about(results.normal(), "sample+amp")
    better = replace(results.FAST, accuracy=results.accuracy(85.0))
    assert "4.90 points above" in about(results.result(results.BASELINE, better), "csr_spmm")
    one = replace(results.FAST, accuracy=results.accuracy(85.0, 0.0, 1))
    assert "at least two seeds" in about(results.result(results.BASELINE, one), "csr_spmm")


def test_accuracy_equal_on_every_seed():
    still = replace(results.BASELINE, accuracy=results.accuracy(80.0, 0.0))
    twin = replace(results.FAST, accuracy=results.accuracy(80.0, 0.0))
    text = about(results.result(still, twin), "csr_spmm")
    assert "undecided" not in text
    assert "the same as the baseline's" in text


@given(
    a=st.lists(st.floats(0, 100), min_size=2, max_size=8),
    b=st.lists(st.floats(0, 100), min_size=2, max_size=8),
)
def test_the_interval_is_welchs(a, b):
    def accuracy(values):
        mean = sum(values) / len(values)
        std = math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1))
        return Accuracy(mean=mean, std=std, count=len(values), low=mean, high=mean)

    own, other = accuracy(a), accuracy(b)
    if own.std + other.std < 1e-6:
        return
    found = accuracy_difference(own, other)
    assert found is not None
    wanted = stats.ttest_ind_from_stats(
        own.mean, own.std, own.count, other.mean, other.std, other.count, equal_var=False
    )
    assert found.holds(0.0) == (wanted.pvalue >= 0.05) or abs(wanted.pvalue - 0.05) < 1e-6


def test_break_even_against_the_epochs_trained():
    assert "only after 465 epochs, more than the 200 trained here" in about(results.with_faster(), "csr_spmm")
    soon = replace(results.FAST, break_even_epochs=12.2)
    assert "earned back after 13 epochs" in about(results.result(results.BASELINE, soon), "csr_spmm")
    free = replace(results.FAST, break_even_epochs=0.0)
    assert "from the first epoch" in about(results.result(results.BASELINE, free), "csr_spmm")
    assert "nothing paid beforehand is earned back" in about(results.with_faster(), "compile")


def test_memory_nearer_than_two_percent_is_the_same():
    for factor, wanted in ((1.019, "same"), (0.981, "same"), (1.03, "more"), (0.9, "less")):
        run = replace(results.FAST, peak_bytes=round(results.BASELINE.peak_bytes * factor))
        assert memory_change(run, results.BASELINE) == wanted
    assert memory_change(results.BASELINE, results.BASELINE) == "alone"
    assert memory_change(results.FAST, replace(results.BASELINE, peak_bytes=0)) == "alone"
    assert memory_change(replace(results.FAST, peak_bytes=None), results.BASELINE) == "alone"


def test_counts_notes_and_reserved_memory_are_said():
    run = replace(results.COMPILE, num_graph_breaks=3, num_skipped_steps=2)
    text = about(results.result(results.BASELINE, run), "compile")
    assert "Graph breaks in torch.compile: 3." in text
    assert "not finite: 2." in text
    assert "bf16 autocast on the CPU." in about(results.normal(), "sample+amp")
    assert "在 CPU 上使用 bf16 autocast。" in about(results.normal(), "sample+amp", "zh")
    assert "allocator reserved 24.7 MB" in about(results.cuda(), "baseline")


def test_a_skipped_run_says_only_why():
    text = about(results.normal(), "compile+sample+amp")
    assert "Not measured: there is no C++ compiler" in text
    assert "epoch" not in text


def test_best_by_time_to_accuracy():
    text = best(results.normal())
    assert "sample was first" in text
    assert "against the baseline's 0.610 s" in text
    assert "level" in text  # 0.58 and 0.61 s are within ten percent
    clear = replace(results.SAMPLE, time_to_accuracy_s=0.3)
    assert "level" not in best(results.result(results.BASELINE, clear))


def test_best_may_be_the_baseline():
    slow = replace(results.SAMPLE, time_to_accuracy_s=6.0)
    assert "No recipe of this ladder got there sooner" in best(results.result(results.BASELINE, slow))


def test_best_is_not_named_without_the_figure():
    assert "no recipe is called best" in best(results.no_accuracy())
    assert "no such figure for the baseline" in best(results.no_baseline())


def test_the_shortest_epoch_counts_only_equal_steps():
    assert "csr_spmm, 0.910 ms" in best(results.with_faster())
    cheat = replace(results.FAST, num_steps_per_epoch=2)
    text = best(results.result(results.BASELINE, cheat))
    assert "No recipe with as many steps" in text


def test_a_missed_target_is_said():
    assert "did not reach 79.0 %" in about(results.normal(), "sample+amp")
    assert "validation" not in about(results.no_accuracy(), "sample")


def test_figures_that_are_not_finite_are_not_measured():
    lost = replace(results.FAST, time_per_epoch_ms=Interval(median=math.nan, low=math.nan, high=math.nan))
    assert "time was not measured" in about(results.result(results.BASELINE, lost), "csr_spmm")
