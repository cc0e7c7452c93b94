"""Two Results against each other: equal ones are equal, planted changes are found, unlike ones are refused."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fasthop.errors import InvalidConfig
from fasthop.measure.compare import accuracy_difference, unpaired_ratio
from fasthop.measure.comparison import LEAST_ALLOWANCE, change_tree, compare_results, spread
from fasthop.measure.run import Accuracy, Result, Run
from tests.report import results

TIMES = st.lists(st.floats(0.1, 1000.0), min_size=6, max_size=12)


def rounds(median: float, noise: float = 0.02, count: int = 10, seed: int = 0) -> tuple[float, ...]:
    draw = random.Random(seed)
    return tuple(median * math.exp(draw.gauss(0, noise)) for _ in range(count))


def timed(run: Run, median: float, seed: int = 0, noise: float = 0.02, **changes) -> Run:
    times = rounds(median, noise, seed=seed)
    return replace(run, time_per_epoch_ms=results.interval(median), round_times_ms=times, **changes)


def pair(factor: float = 1.0, noise: float = 0.02, **changes) -> tuple[Result, Result]:
    before = results.result(timed(results.BASELINE, 5.4, 1, noise), timed(results.FAST, 0.9, 2, noise))
    after = results.result(
        timed(results.BASELINE, 5.4, 3, noise), timed(results.FAST, 0.9 * factor, 4, noise, **changes)
    )
    return before, after


@given(TIMES, TIMES)
def test_the_ratio_turns_around_with_the_runs(a, b):
    ratio, turned = unpaired_ratio(a, b), unpaired_ratio(b, a)
    assert ratio.low <= ratio.median <= ratio.high
    assert turned.low == pytest.approx(1 / ratio.high)
    assert turned.high == pytest.approx(1 / ratio.low)


@given(TIMES, st.floats(0.5, 2.0))
def test_the_ratio_of_a_multiple_is_within_its_interval(a, factor):
    ratio = unpaired_ratio(a, [factor * time for time in a])
    assert ratio.low <= factor * (1 + 1e-9)
    assert ratio.high >= factor * (1 - 1e-9)


def test_the_interval_is_that_of_the_rank_sum_test():
    # Of 100 pairs the 24th from either end: the tables have 23 as the critical value for ten against ten.
    a = [1.0] * 10
    b = [1.0 + place / 10 for place in range(10)]
    ratios = sorted(time for time in b for _ in a)
    found = unpaired_ratio(a, b)
    assert (found.low, found.high) == (ratios[23], ratios[76])


def test_it_holds_the_true_ratio_as_often_as_it_says():
    misses = 0
    for seed in range(300):
        found = unpaired_ratio(rounds(1.0, 0.1, seed=2 * seed), rounds(1.3, 0.1, seed=2 * seed + 1))
        misses += not found.holds(1.3)
    assert misses <= 30  # 15 are expected; more than twice as many come once in 10,000 times


@pytest.mark.parametrize("times", [[1.0] * 5, [1.0] * 5 + [0.0], [1.0] * 5 + [math.inf]])
def test_what_is_no_times_is_refused(times):
    with pytest.raises(InvalidConfig):
        unpaired_ratio([1.0] * 6, times)


def test_many_rounds_take_no_time_and_no_wider_interval_than_few():
    many = unpaired_ratio(rounds(1.0, 0.1, 400, 1), rounds(1.2, 0.1, 400, 2))
    few = unpaired_ratio(rounds(1.0, 0.1, 10, 1), rounds(1.2, 0.1, 10, 2))
    assert many.high - many.low < few.high - few.low


def test_a_single_disturbed_round_is_no_spread():
    assert spread([1.0, 1.0, 1.0, 1.0, 1.0, 9.0]) == 0
    assert spread(list(rounds(5.0, 0.1, 400))) == pytest.approx(0.1, rel=0.2)


def test_equal_runs_show_no_change():
    change = compare_results(*pair())
    assert not change.is_changed
    assert change.together is None
    assert change.regressions(0.0) == ()
    assert [entry.time_change for entry in change.changes] == ["same", "same"]


def test_a_slowdown_of_one_recipe_is_found_and_named():
    change = compare_results(*pair(1.2))
    assert [entry.time_change for entry in change.changes] == ["same", "slower"]
    assert [entry.name for entry in change.regressions(0.05)] == ["csr_spmm"]
    assert change.regressions(0.3) == ()
    ratio = change.changes[1].time_ratio
    assert ratio is not None
    assert ratio.median == pytest.approx(1.2, rel=0.03)
    assert compare_results(*pair(0.8)).changes[1].time_change == "faster"
    assert compare_results(*pair(0.8)).regressions(0.0) == ()


def test_two_runs_may_lie_apart_by_more_than_their_rounds():
    assert not compare_results(*pair(math.exp(0.9 * LEAST_ALLOWANCE), noise=0.0)).is_changed
    assert compare_results(*pair(math.exp(1.1 * LEAST_ALLOWANCE), noise=0.0)).is_changed
    assert not compare_results(*pair(1.2, noise=0.2)).is_changed


def test_what_all_share_is_said():
    before = results.result(timed(results.BASELINE, 5.0, 1), timed(results.FAST, 1.0, 2))
    after = results.result(timed(results.BASELINE, 6.0, 3), timed(results.FAST, 1.21, 4))
    low, high = compare_results(before, after).together or (0, 0)
    assert low == pytest.approx(1.2, rel=0.05)
    assert high == pytest.approx(1.2, rel=0.05)


def test_memory_and_accuracy_and_what_is_lost():
    worse = results.accuracy(70.0)
    (_, entry) = compare_results(*pair(peak_bytes=2_500_000, accuracy=worse)).changes
    assert (entry.memory_change, entry.accuracy_change) == ("more", "lower")
    assert entry.is_regression(10.0)  # accuracy knows no limit of time
    (_, entry) = compare_results(*pair(peak_bytes=1_910_000)).changes
    assert (entry.memory_change, entry.accuracy_change, entry.is_changed) == ("same", "same", False)
    before, after = pair()
    gone = replace(after, runs=(after.runs[0], replace(results.SKIPPED, name="csr_spmm")))
    entry = compare_results(before, gone).changes[1]
    assert entry.lost is not None
    assert "C++" in entry.lost["zh"]
    assert entry.is_regression(1.0)
    assert change_tree(entry)["time_ratio"] is None
    assert compare_results(gone, before).changes[1].lost is None


def test_too_few_rounds_carry_no_ratio():
    before, after = pair()
    short = replace(
        after, runs=tuple(replace(run, round_times_ms=run.round_times_ms[:5]) for run in after.runs)
    )
    assert [entry.time_change for entry in compare_results(before, short).changes] == ["alone", "alone"]


@pytest.mark.parametrize(
    ("machine", "task", "words"),
    [
        ({"machine_id": "other"}, {}, "machine.machine_id is 0123456789ab and other"),
        ({"limits": None}, {}, "machine.limits"),
        ({}, {"hidden": 32}, "hidden is 16 and 32"),
        ({}, {"device": "cuda"}, "device is cpu and cuda"),
        ({}, {"dropout": None}, "dropout is 0.0 and unknown"),
    ],
)
def test_unlike_runs_are_refused_unless_told(machine, task, words):
    before, after = pair()
    other = replace(after, machine={**after.machine, **machine}, task={**after.task, **task})
    with pytest.raises(InvalidConfig, match="--force") as caught:
        compare_results(before, other)
    assert words in str(caught.value)
    assert words in "; ".join(compare_results(before, other, force=True).forced)


def test_how_much_was_measured_makes_no_other_task():
    before, after = pair()
    longer = replace(after, task={**after.task, "rounds": 50, "seeds": 1, "notes": []})
    assert compare_results(before, longer).forced == ()


def test_recipes_of_one_run_alone_and_versions():
    before, after = pair()
    before = replace(before, runs=(*before.runs, results.SAMPLE))
    after = replace(after, runs=(*after.runs, results.COMPILE), fasthop_version="9")
    change = compare_results(before, after)
    assert (change.only_before, change.only_after) == (("sample",), ("compile",))
    assert change.versions["fasthop"] == ("0.1.0", "9")
    alone = replace(after, runs=(replace(results.COMPILE),))
    with pytest.raises(InvalidConfig, match="no recipe in common"):
        compare_results(replace(before, runs=before.runs[:1]), alone)


def test_accuracies_of_one_seed_decide_nothing():
    one = Accuracy(mean=80.0, std=0.0, count=1, low=80.0, high=80.0)
    assert accuracy_difference(one, results.accuracy(70.0)) is None
