"""Every subset with equal probability. The keys are fixed, so each test gives the same p-value for ever."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats

from fasthop.kernels.sample.cpu import NeighborSampler
from fasthop.kernels.sample.draw import draw_key

# A sampler that is right fails one test in ten thousand; one that is wrong by 1 % in a probability fails all.
P_VALUE = 1e-4


def drawn(degree: int, k: int, count: int, *, replace: bool = False, num_targets: int = 1) -> np.ndarray:
    """int64 [count, num_targets, k]: the places that each of num_targets nodes of one degree drew, `count` times."""
    rowptr = torch.arange(num_targets + 1) * degree
    rowptr = torch.cat([rowptr, rowptr[-1:].repeat(max(degree - num_targets, 0))])
    col = torch.arange(degree).repeat(num_targets)
    sampler = NeighborSampler(rowptr, col, num_neighbors=[k], replace=replace)
    seeds = torch.arange(num_targets)
    draws = [sampler.sample(seeds, key=draw_key(11, i)).e_id.numpy() % degree for i in range(count)]
    return np.stack(draws).reshape(count, num_targets, k)


@pytest.mark.parametrize(("degree", "k"), [(2, 1), (7, 3), (10, 3), (9, 8)])
def test_all_subsets_are_equally_likely(degree, k):
    number = {subset: i for i, subset in enumerate(itertools.combinations(range(degree), k))}
    sets = [number[tuple(sorted(row))] for row in drawn(degree, k, 24_000)[:, 0].tolist()]
    counts = np.bincount(sets, minlength=math.comb(degree, k))
    assert stats.chisquare(counts).pvalue > P_VALUE


@pytest.mark.parametrize(("degree", "k"), [(64, 5), (100, 5), (100, 40), (1000, 20)])
def test_all_neighbors_are_equally_likely(degree, k):
    """Without replacement the counts are correlated: their chi-square is (d - 1)/d of the binomials' sum."""
    count = 20_000
    counts = np.bincount(drawn(degree, k, count).ravel(), minlength=degree)
    p = k / degree
    statistic = ((counts - count * p) ** 2).sum() / (count * p * (1 - p)) * (degree - 1) / degree
    assert stats.chi2.sf(statistic, degree - 1) > P_VALUE
    assert stats.chi2.cdf(statistic, degree - 1) > P_VALUE, "more even than chance"


def test_with_replacement_all_sequences_are_equally_likely():
    draws = drawn(6, 3, 24_000, replace=True)[:, 0]
    counts = np.bincount(draws @ np.array([36, 6, 1]), minlength=216)
    assert stats.chisquare(counts).pvalue > P_VALUE


@pytest.mark.parametrize("degree", [8, 70])
def test_targets_of_a_batch_draw_independently(degree):
    draws = drawn(degree, 1, 60_000, num_targets=2)[:, :, 0]
    counts = np.bincount(draws @ np.array([degree, 1]), minlength=degree**2)
    assert stats.chisquare(counts).pvalue > P_VALUE


def test_batches_draw_independently():
    draws = drawn(8, 1, 60_001)[:, 0, 0]
    counts = np.bincount(draws[:-1] * 8 + draws[1:], minlength=64)
    assert stats.chisquare(counts).pvalue > P_VALUE
