"""Noise told from change: medians and paired ratios with intervals that assume no distribution.

Times on a shared machine have long tails and drift, so nothing here assumes that they are normal:
the interval of a median is cut from the order statistics (the sign test turned around; see David &
Nagaraja, *Order Statistics*, section 7.1). Accuracies over seeds are means of thousands of
decisions; they get Student's t.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from fasthop.errors import InvalidConfig
from fasthop.measure.run import Accuracy, Interval

MOST_COUNTED = 2_000  # values whose ranks are counted exactly
CONFIDENCE = 0.95
MIN_ROUNDS = 6
"""Fewer values cannot carry a 95 % interval: 2 / 2**5 is 6 %, more than the 5 % allowed outside."""


def median_interval(values: Sequence[float]) -> Interval:
    """The median of `values` and a 95 % interval of the median they were drawn from.

    The interval is [x_(k), x_(n+1-k)] of the sorted values, with the largest k for which
    P(Binomial(n, 1/2) < k) <= 2.5 %: it holds the true median with a probability of at least 95 %
    whatever the distribution, ties included.

    Raises InvalidConfig for fewer than MIN_ROUNDS values, or one that is not a finite number.
    """
    checked = _finite(values, "values")
    num_values = len(checked)
    if num_values < MIN_ROUNDS:
        raise InvalidConfig(
            f"a 95 % interval of a median needs at least {MIN_ROUNDS} values, and got {num_values}; measure more rounds."
        )
    checked.sort()
    rank = _rank(num_values)
    return Interval(median=statistics.median(checked), low=checked[rank - 1], high=checked[num_values - rank])


def paired_ratio(times_a: Sequence[float], times_b: Sequence[float]) -> Interval:
    """How many times as fast as `a` (the baseline) `b` is: above 1, `b` is faster.

    times_a, times_b: one time a round, in the same unit; the two of one place were measured in
        turns within one round, so that what slowed the machine then slowed both.

    The ratio of a round is its time of a over its time of b; the figure is the median over rounds
    with its 95 % interval (`median_interval`).

    Raises InvalidConfig where the lengths differ, are below MIN_ROUNDS, or a time is not positive
    and finite.
    """
    if len(times_a) != len(times_b):
        raise InvalidConfig(
            f"paired times come from the same rounds, and got {len(times_a)} of one and {len(times_b)} of the other."
        )
    a, b = _times(times_a, "times_a"), _times(times_b, "times_b")
    return median_interval([time_a / time_b for time_a, time_b in zip(a, b, strict=True)])


def is_significant(ratio: Interval) -> bool:
    """Whether a ratio differs from 1: its interval does not hold 1, an end that equals 1 being
    within. Where it is not, a report says "no significant change"."""
    return not ratio.holds(1.0)


def unpaired_ratio(times_a: Sequence[float], times_b: Sequence[float]) -> Interval:
    """How many times as long `b` takes as `a`, from rounds that do not belong together: above 1, `b` is slower.

    The figure is the median of all times_b[j] / times_a[i] (Hodges and Lehmann 1963, on logarithms), and its 95 %
    interval the one that the rank sum test of Mann and Whitney leaves: it assumes that the two sets differ by a factor,
    and nothing of their distribution. What makes a whole run faster or slower than the next one is not in it.

    Raises InvalidConfig for fewer than MIN_ROUNDS times of either, or one that is not positive and finite.
    """
    a, b = _times(times_a, "times_a"), _times(times_b, "times_b")
    for times in (a, b):
        if len(times) < MIN_ROUNDS:
            raise InvalidConfig(
                f"a ratio of two runs needs at least {MIN_ROUNDS} rounds of each, and got {len(times)}; measure more rounds."
            )
    ratios = sorted(time_b / time_a for time_a in a for time_b in b)
    rank = _pair_rank(len(a), len(b))
    return Interval(median=statistics.median(ratios), low=ratios[rank - 1], high=ratios[len(ratios) - rank])


def accuracy_difference(accuracy: Accuracy, other: Accuracy) -> Interval | None:
    """How many points the first mean accuracy is above the second, with its 95 % interval (Welch's t).

    None where either side has fewer than two seeds, which decide nothing.
    """
    if accuracy.count < 2 or other.count < 2:
        return None
    from scipy.special import stdtrit

    difference = accuracy.mean - other.mean
    own, theirs = accuracy.std**2 / accuracy.count, other.std**2 / other.count
    if own + theirs == 0:
        return Interval(median=difference, low=difference, high=difference)
    freedom = (own + theirs) ** 2 / (own**2 / (accuracy.count - 1) + theirs**2 / (other.count - 1))
    half = float(stdtrit(freedom, 0.5 + CONFIDENCE / 2)) * math.sqrt(own + theirs)
    return Interval(median=difference, low=difference - half, high=difference + half)


def accuracy_summary(values: Sequence[float]) -> Accuracy:
    """Mean, sample standard deviation and 95 % interval of the mean (Student's t) of one accuracy
    in percent a seed. For one seed the deviation is 0 and the interval is the value itself.

    The interval is of the mean, so it is not cut to [0, 100].
    Raises InvalidConfig for no value at all, or one that is not a finite number.
    """
    checked = _finite(values, "values")
    if not checked:
        raise InvalidConfig("an accuracy needs at least one seed, and got none.")
    mean = statistics.fmean(checked)
    if len(checked) == 1:
        return Accuracy(mean=mean, std=0.0, count=1, low=mean, high=mean)
    from scipy.special import stdtrit  # the quantile of Student's t, without importing scipy.stats

    std = statistics.stdev(checked)
    quantile = float(stdtrit(len(checked) - 1, 0.5 + CONFIDENCE / 2))
    half_width = quantile * std / math.sqrt(len(checked))
    return Accuracy(mean=mean, std=std, count=len(checked), low=mean - half_width, high=mean + half_width)


def _rank(num_values: int) -> int:
    """The largest k with P(Binomial(n, 1/2) < k) <= 2.5 %, in whole numbers, so that no rounding decides."""
    if num_values > MOST_COUNTED:
        # By the normal distribution, one rank outwards: never a narrower interval than the exact one. The sums
        # below grow with the square of the number: 100,000 values took minutes.
        return math.floor(num_values / 2 - 0.98 * math.sqrt(num_values)) - 1
    below = 0
    rank = 0
    while True:
        below += math.comb(num_values, rank)
        if 40 * below > 2**num_values:
            return rank
        rank += 1


def _pair_rank(num_a: int, num_b: int) -> int:
    """The largest k with P(U < k) <= 2.5 %, where U is how many of the pairs of two samples of one distribution have
    the first above the second; by the normal distribution, one rank outwards, where there are many pairs."""
    if num_a * num_b > MOST_COUNTED:
        spread = math.sqrt(num_a * num_b * (num_a + num_b + 1) / 12)
        return max(1, math.floor(num_a * num_b / 2 - 1.96 * spread) - 1)
    # The counts of U over all orders are the coefficients of a Gaussian binomial, by whole-number division.
    counts = [1] + [0] * (num_a * num_b)
    for size in range(1, num_b + 1):
        for place in range(len(counts) - 1, num_a + size - 1, -1):
            counts[place] -= counts[place - num_a - size]
        for place in range(size, len(counts)):
            counts[place] += counts[place - size]
    below, total = 0, math.comb(num_a + num_b, num_a)
    for rank, count in enumerate(counts):
        below += count
        if 40 * below > total:
            return max(1, rank)
    raise AssertionError("the counts add up to the total")


def _times(values: Sequence[float], name: str) -> list[float]:
    times = _finite(values, name)
    for place, time in enumerate(times):
        if time <= 0:
            raise InvalidConfig(f"a time is above 0, and {name}[{place}] is {time}.")
    return times


def _finite(values: Sequence[float], name: str) -> list[float]:
    checked = [float(value) for value in values]
    for place, value in enumerate(checked):
        if not math.isfinite(value):
            raise InvalidConfig(f"{name} must be finite numbers, and {name}[{place}] is {value}.")
    return checked
