"""Why a recipe helped or did not: each sentence from figures made up so that one of them is true."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fasthop.measure.run import Interval
from fasthop.report.explain import best, bottleneck, explanations, interpretation
from fasthop.rewrites.ladder import RUNGS
from tests.report import page_results, results

PARTS = ("aggregate", "transform", "elementwise", "overhead")


def stages(forward, backward=(0.0,) * 4, **others):
    found = {"forward": sum(forward), "backward": sum(backward)}
    for stage, values in (("forward", forward), ("backward", backward)):
        found |= {f"{stage}.{part}": ms for part, ms in zip(PARTS, values, strict=True)}
    found |= others
    return {**found, "epoch": sum(forward) + sum(backward) + sum(others.values())}


def told(before, after, ratio, rung="amp", lang="en", machine=None, **changes):
    """The paragraph of a recipe with one rung on a baseline, from the stages of both and the ratio of their times."""
    baseline = replace(results.BASELINE, stages_ms=before)
    interval = Interval(median=ratio, low=0.98 * ratio, high=1.02 * ratio)
    run = replace(
        results.FAST, name=rung, rungs=(rung,), stages_ms=after, ratio_to_baseline=interval, **changes
    )
    result = results.result(baseline, run, machine=machine or results.MACHINE)
    return dict(explanations(result, lang))[rung]


AGGREGATION = stages((7.1, 0.9, 1.0, 1.0))


def test_the_sentence_of_the_readme():
    text = told(AGGREGATION, stages((7.2, 0.8, 1.5, 1.0)), 0.95)
    assert (
        "It did not help here: 71 % of the baseline's epoch goes into aggregation, and only 9 % into matrix products, "
        "which it is meant for (0.900 → 0.800 ms). Nor did it speed up aggregation (7.10 → 7.20 ms)."
    ) in text
    assert "Were all matrix products free, the baseline's epoch would become at most 1.10× as fast." in text
    zh = told(AGGREGATION, stages((7.2, 0.8, 1.5, 1.0)), 0.95, lang="zh")
    assert (
        "在这里没有帮助：基线的一个 epoch 有 71% 花在聚合上，而它所针对的矩阵乘法只占 9%（0.900 → 0.800 ms）。"
    ) in zh
    assert "即使矩阵乘法完全不花时间，基线的 epoch 速度也最多变为 1.10 倍。" in zh


def test_what_the_recipe_did_speed_up_is_not_denied():
    text = told(AGGREGATION, stages((5.0, 0.8, 4.5, 1.0)), 0.9)
    assert "Nor did it" not in text
    assert "At the same time, aggregation in the forward pass fell from 7.10 to 5.00 ms." in text


def test_a_gain_at_its_aim():
    text = told(AGGREGATION, stages((1.1, 0.9, 1.0, 1.0)), 2.5, rung="csr_spmm")
    assert "aggregation in the forward pass fell from 7.10 to 1.10 ms (100 % of what was gained)." in text
    assert (
        "It is meant for aggregation, 71 % of the baseline's epoch, and gained there: from 7.10 to 1.10 ms."
        in text
    )


def test_a_gain_that_is_mostly_elsewhere():
    text = told(AGGREGATION, stages((3.1, 0.5, 1.0, 1.0)), 1.8)
    assert "went from 0.900 to 0.500 ms: only 9 % of what was gained." in text
    beside = told(AGGREGATION, stages((3.1, 0.9, 1.0, 1.0)), 1.8)
    assert "did not get faster (0.900 ms before, 0.900 ms now): the gain came from elsewhere." in beside


def test_a_large_aim_that_was_missed():
    before = stages((1.0, 5.0, 1.0, 1.0))
    text = told(before, stages((1.0, 7.0, 1.0, 1.0)), 0.8)
    assert "matrix products, which it is meant for (62 % of the baseline's epoch), took 5.00 ms before and 7.00 ms with it." in text  # fmt: skip
    eaten = told(before, stages((1.0, 3.0, 5.0, 1.0)), 0.8)
    assert "fell from 5.00 to 3.00 ms, but all the rest rose from 3.00 to 7.00 ms." in eaten
    little = told(before, stages((1.0, 4.0, 1.0, 1.0)), 1.0)
    assert little.count("It made no difference here") == 1
    assert "lost in the noise" in little


def test_stages_that_contradict_the_timed_rounds_explain_nothing():
    text = told(AGGREGATION, stages((9.0, 0.9, 1.0, 1.0)), 2.0, rung="csr_spmm")
    for words in ("Against the baseline", "meant for", "gained"):
        assert words not in text
    assert "2.00× as fast" in text


def test_what_is_compiled_is_not_told_apart():
    after = stages((0.1, 0.9, 0.1, 3.9)) | {"forward.fused": 2.0, "forward": 7.0, "epoch": 7.0}
    text = told(AGGREGATION, after, 1.4, rung="compile")
    assert (
        "all but matrix products in the forward pass fell from 9.10 to 6.10 ms (100 % of what was gained)"
        in text
    )
    assert "framework overhead" not in text


def test_no_bound_where_the_gain_is_beyond_it():
    text = told(AGGREGATION, stages((1.0, 0.9, 0.5, 0.5)), 3.0)
    assert "Were all matrix products free" not in text


def test_what_a_format_gains_on_this_machine():
    peaks = {"matmul_fp32_gflops": {"median": 100.0}, "matmul_bf16_gflops": {"median": 400.0}}
    machine = {**results.MACHINE, "peaks": peaks}
    before, after = stages((1.0, 8.0, 0.5, 0.5)), stages((1.0, 4.0, 0.5, 0.5))
    text = told(before, after, 1.6, machine=machine)
    assert "multiplies matrices 4.00× as fast in bfloat16 (400 GFLOP/s) as in float32 (100 GFLOP/s)" in text
    assert (
        "Were every product that much faster, the baseline's epoch would become at most 2.50× as fast."
        in text
    )
    machine["peaks"] = {**peaks, "matmul_bf16_gflops": {"median": 90.0}}
    assert "next to nothing to gain from the format" in told(before, after, 1.6, machine=machine)
    assert "GFLOP/s" not in told(before, after, 1.6)


def test_overhead_shrinks_beside_a_larger_graphs_work():
    before = stages((2.0, 2.0, 1.0, 5.0))
    text = told(before, stages((2.0, 2.0, 1.0, 1.0)), 1.6, rung="fused_step")
    assert "Were all framework overhead and the optimiser step free" in text
    assert "at most 2.00× as fast. On a graph 10 times as large" in text
    assert "that would be at most 1.10×" in text


def test_memory_by_kind_and_its_operator():
    fast = {"parameters": 92_252, "activations": 700_000}
    kinds = {"activations": 11_000_000, "activations.messages": 4_000_000, "parameters": 92_252}
    baseline = replace(results.BASELINE, memory_kinds=kinds)
    run = replace(results.FAST, memory_kinds=fast, peak_operator="forward: aten::mm")
    text = dict(explanations(results.result(baseline, run)))["csr_spmm"]
    assert "activations kept for backward fell from 7.00 MB to 700 kB" in text
    assert "messages kept (edges × channels) fell from 4.00 MB to nothing" in text
    assert "The operator there is forward: aten::mm." in text


@pytest.mark.parametrize(("epochs", "kind"), [(10, "compile"), (100_000, "aggregate"), (None, "aggregate")])
def test_compilation_is_the_bottleneck_of_a_short_training_only(epochs, kind):
    run = replace(results.COMPILE, stages_ms=AGGREGATION)
    found = bottleneck(run, epochs)
    assert found is not None
    assert found.kind == kind
    assert found.is_dominant


def test_a_row_is_held_against_the_one_it_is_built_on():
    times = {"baseline": 5.41, "sample": 9.87, "sample+amp": 17.2}
    runs = [
        replace(run, round_times_ms=(times[run.name],) * 8, stages_ms=AGGREGATION)
        for run in (results.BASELINE, results.SAMPLE, results.AMP)
    ]
    runs[2] = replace(runs[2], stages_ms=stages((7.1, 4.9, 1.0, 1.0)))
    text = dict(explanations(results.result(*runs)))["sample+amp"]
    assert "That is slower than sample, at 0.574× its speed" in text
    assert "Against sample, matrix products in the forward pass rose from 0.900 to 4.90 ms" in text
    assert "9 %" in text


def test_the_whole_says_what_paid_and_what_comes_next():
    result = page_results.full()
    where, paid, following = interpretation(result)
    assert "An epoch of the baseline takes 5.41 ms." in where
    assert (
        "Most of it is aggregation. Were all aggregation free, an epoch would become at most 2.24× as fast."
        in where
    )
    assert "it reaches 17 % of that floor" in where
    assert "Faster epochs than the baseline's: csr_spmm (5.94×; meant for aggregation, 55 % of the baseline's epoch)." in paid  # fmt: skip
    assert "Slower epochs: sample (0.548×)." in paid
    assert following.startswith(
        "The shortest epoch of equal steps, csr_spmm with 0.910 ms, now goes into aggregation most"
    )


def test_the_recommendation_says_how_exact_it_is_and_what_saves_memory():
    text = best(results.normal())
    assert "sample is equal to the baseline only statistically" in text
    assert (
        "Least memory: sample+amp, with a peak of 3.90 MB against sample's 4.10 MB, at 17.2 ms an epoch."
        in text
    )
    exact = replace(results.FAST, time_to_accuracy_s=0.1)
    text = best(results.result(results.BASELINE, exact))
    assert "csr_spmm computes the same as the baseline, with sums in another order." in text
    assert "Least memory" not in text


def test_aims_are_of_rungs_that_exist():
    from fasthop.report.explain.aim import AIMS

    assert set(AIMS) <= {rung.name for rung in RUNGS}
    assert {kind for kinds in AIMS.values() for kind in kinds} <= {*PARTS, "step"}
