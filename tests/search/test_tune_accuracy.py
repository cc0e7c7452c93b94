"""What seeds say of an accuracy: kept, lost or undecided, with the number that would decide it."""

from __future__ import annotations

import math
import statistics

import pytest
from scipy import stats

from fasthop.search.tune_accuracy import KEPT, LOST, UNDECIDED, judge_accuracy, seeds_to_decide


def test_the_interval_is_that_of_a_paired_t_test():
    baseline, plan = [80.0, 81.0, 79.5, 80.2], [80.1, 80.7, 79.9, 80.0]
    verdict = judge_accuracy(baseline, plan, max_drop=0.5)
    low, high = stats.ttest_rel(plan, baseline).confidence_interval(0.95)
    assert verdict.difference.low == pytest.approx(low)
    assert verdict.difference.high == pytest.approx(high)
    assert verdict.difference.median == pytest.approx(
        statistics.mean(b - a for a, b in zip(baseline, plan, strict=True))
    )


@pytest.mark.parametrize(
    ("plan", "decision", "words"),
    [
        ([80.0, 81.0, 79.0], KEPT, "Accuracy is kept: +0.00 [+0.00, +0.00] points"),
        ([77.0, 78.1, 76.0], LOST, "more than the 0.5 that may be lost"),
        ([80.9, 80.1, 78.0], UNDECIDED, "seeds would decide it"),
    ],
)
def test_decisions(plan, decision, words):
    verdict = judge_accuracy([80.0, 81.0, 79.0], plan, max_drop=0.5)
    assert verdict.decision == decision
    assert words in verdict.sentence["en"]
    assert "准确率" in verdict.sentence["zh"]
    assert (verdict.needed_seeds is not None) == (decision == UNDECIDED)
    assert verdict.to_json()["decision"] == decision


def test_one_seed_decides_nothing():
    verdict = judge_accuracy([80.0], [10.0], max_drop=0.5)
    assert verdict.decision == UNDECIDED
    assert "with 1 seed there is no interval; it takes at least 2" in verdict.sentence["en"]
    assert judge_accuracy([math.nan, 80.0], [80.0, 80.0], max_drop=0.5).num_seeds == 1


def test_the_number_of_seeds_is_the_fewest_that_decide():
    for mean, std, drop in ((-0.2, 0.8, 0.5), (0.1, 0.3, 0.5), (-1.0, 2.0, 0.5)):
        count = seeds_to_decide(mean, std, drop)

        def half(n, std=std):
            return stats.t.ppf(0.975, n - 1) * std / math.sqrt(n)

        assert half(count) <= abs(mean + drop)
        assert count == 2 or half(count - 1) > abs(mean + drop)
    assert seeds_to_decide(-0.5, 1.0, 0.5) is None
    undecided = judge_accuracy([80.0, 81.0], [80.5, 79.5], max_drop=0.5)  # a mean of exactly the drop
    assert "more than 10,000 seeds" in undecided.sentence["en"]
