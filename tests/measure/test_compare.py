"""Statistics on generated data: nothing here reads a clock."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fasthop.errors import InvalidConfig
from fasthop.measure import compare
from fasthop.measure.compare import (
    MIN_ROUNDS,
    accuracy_summary,
    is_significant,
    median_interval,
    paired_ratio,
)
from fasthop.measure.run import Interval


def test_the_interval_of_six_values_is_their_range():
    interval = median_interval([3.0, 1.0, 2.0, 6.0, 5.0, 4.0])
    assert (interval.median, interval.low, interval.high) == (3.5, 1.0, 6.0)


@pytest.mark.parametrize("num_values", [6, 8, 9, 11, 12, 14, 17, 25, 50, 101, 1000])
def test_the_interval_covers_95_percent_and_no_narrower_one_does(num_values):
    interval = median_interval([float(i) for i in range(1, num_values + 1)])
    rank = int(interval.low)
    assert interval.high == num_values + 1 - rank
    assert stats.binom.cdf(rank - 1, num_values, 0.5) <= 0.025
    assert stats.binom.cdf(rank, num_values, 0.5) > 0.025


def test_the_interval_holds_the_true_median_of_skewed_data_as_often_as_it_says():
    rng = np.random.default_rng(0)
    draws = rng.lognormal(0.0, 1.5, size=(4000, 14))  # the true median is 1
    covered = np.mean([median_interval(list(row)).holds(1.0) for row in draws])
    # 14 values give 98.7 %; the binomial error of 4,000 tries is 0.2 %.
    assert 0.980 <= covered <= 0.994


@pytest.mark.parametrize("num_values", [0, 1, 5])
def test_too_few_values_are_refused(num_values):
    with pytest.raises(InvalidConfig, match=f"at least {MIN_ROUNDS} values, and got {num_values}"):
        median_interval([1.0] * num_values)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_is_named_with_its_place(bad):
    with pytest.raises(InvalidConfig, match=r"values\[6\]"):
        median_interval([1.0] * 6 + [bad])
    with pytest.raises(InvalidConfig, match=r"times_b\[6\]"):
        paired_ratio([1.0] * 7, [1.0] * 6 + [bad])


def test_ties_give_an_interval_of_no_width():
    interval = median_interval([2.0] * 10)
    assert (interval.median, interval.low, interval.high) == (2.0, 2.0, 2.0)


@given(st.lists(st.floats(-1e6, 1e6), min_size=6, max_size=60))
def test_the_interval_is_ordered_and_made_of_the_values(values):
    interval = median_interval(values)
    assert interval.low <= interval.median <= interval.high
    assert interval.low in values
    assert interval.high in values
    shuffled = median_interval(values[::-1])
    assert shuffled == interval


def test_a_ratio_above_one_says_that_the_second_is_faster():
    interval = paired_ratio([2.0] * 6, [1.0] * 6)
    assert interval == Interval(median=2.0, low=2.0, high=2.0)
    assert is_significant(interval)


def test_pairing_removes_the_drift_that_both_share():
    rng = np.random.default_rng(1)
    drift = np.exp(np.linspace(0.0, 2.0, 14))  # the machine slows down more than sevenfold
    a = drift * rng.normal(1.0, 0.01, 14)
    b = drift * rng.normal(1.1, 0.01, 14)
    interval = paired_ratio(list(a), list(b))
    assert interval.holds(1 / 1.1)
    assert interval.high < 0.95


def test_equal_contestants_seldom_differ_and_a_slowdown_of_20_percent_is_found():
    rng = np.random.default_rng(2)
    tries = 1000
    false_alarms = found = 0
    for _ in range(tries):
        shared = rng.lognormal(0.0, 0.5, 14)
        a = shared * rng.lognormal(0.0, 0.05, 14)
        b = shared * rng.lognormal(0.0, 0.05, 14)
        false_alarms += is_significant(paired_ratio(list(a), list(b)))
        slowed = paired_ratio(list(a), list(1.2 * b))
        found += is_significant(slowed) and slowed.high < 1
    assert false_alarms <= 0.025 * tries
    assert found == tries


def test_an_end_that_equals_one_is_not_significant():
    assert not is_significant(Interval(median=1.1, low=1.0, high=1.2))
    assert not is_significant(Interval(median=0.9, low=0.8, high=1.0))
    assert is_significant(Interval(median=1.1, low=1.01, high=1.2))
    assert is_significant(Interval(median=0.9, low=0.8, high=0.99))


def test_pairs_must_match_and_times_be_positive():
    with pytest.raises(InvalidConfig, match="got 6 of one and 7 of the other"):
        paired_ratio([1.0] * 6, [1.0] * 7)
    with pytest.raises(InvalidConfig, match=r"times_a\[2\] is 0.0"):
        paired_ratio([1.0, 1.0, 0.0, 1.0, 1.0, 1.0], [1.0] * 6)
    with pytest.raises(InvalidConfig, match=r"times_b\[0\] is -1"):
        paired_ratio([1.0] * 6, [-1.0] + [1.0] * 5)


def test_accuracy_has_students_interval():
    values = [80.1, 81.3, 79.9, 80.8, 81.0]
    summary = accuracy_summary(values)
    low, high = stats.t.interval(0.95, 4, loc=np.mean(values), scale=stats.sem(values))
    assert summary.mean == pytest.approx(np.mean(values))
    assert summary.std == pytest.approx(np.std(values, ddof=1))
    assert (summary.low, summary.high) == (pytest.approx(low), pytest.approx(high))
    assert summary.count == 5


def test_accuracy_of_one_seed_is_the_value_itself():
    summary = accuracy_summary([81.5])
    assert (summary.mean, summary.std, summary.count, summary.low, summary.high) == (81.5, 0.0, 1, 81.5, 81.5)


def test_accuracy_refuses_nothing_and_what_is_not_a_number():
    with pytest.raises(InvalidConfig, match="at least one seed"):
        accuracy_summary([])
    with pytest.raises(InvalidConfig, match=r"values\[1\] is nan"):
        accuracy_summary([80.0, math.nan])


def test_the_interval_of_many_values_is_quick_and_hardly_wider(monkeypatch):
    for num_values in (2_001, 5_000):
        approximate = compare._rank(num_values)
        with monkeypatch.context() as exact:
            exact.setattr(compare, "MOST_COUNTED", 10_000)
            assert compare._rank(num_values) - 2 <= approximate <= compare._rank(num_values)
    # Counted exactly this would take hours.
    wide = median_interval([float(value + 1) for value in range(1_000_000)])
    assert 1_900 < wide.high - wide.low < 2_000
