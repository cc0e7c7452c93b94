"""Figures are written one way everywhere."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fasthop.measure.run import Interval
from fasthop.report.figures import fixed, measured, number, seconds, size, span


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.04561, "0.0456"),
        (0.4519, "0.452"),
        (5.406, "5.41"),
        (9.996, "10.0"),
        (54.06, "54.1"),
        (99.96, "100"),
        (540.6, "541"),
        (999.7, "1,000"),
        (12_345.6, "12,346"),
        (-5.406, "-5.41"),
        (0.00001234, "1.23e-05"),
        (None, "–"),
        (math.nan, "–"),
        (math.inf, "–"),
    ],
)
def test_number(value, text):
    assert number(value) == text


@given(st.floats(min_value=1e-9, max_value=1e12))
def test_number_keeps_three_digits(value):
    assert float(number(value).replace(",", "")) == pytest.approx(value, rel=5.1e-3)


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (999_600, "1.00 MB"),
        (12_345_678, "12.3 MB"),
        (6_500_000_000, "6.50 GB"),
        (3_000_000_000_000_000, "3,000 TB"),
        (None, "–"),
    ],
)
def test_size(num_bytes, text):
    assert size(num_bytes) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.0004, "0.000"), (0.231, "0.231"), (27.63, "27.6"), (None, "–")]
)
def test_seconds(value, text):
    assert seconds(value) == text


def test_fixed_writes_no_negative_zero():
    assert fixed(-0.004, 2) == "0.00"
    assert fixed(80.149) == "80.1"
    assert fixed(None) == "–"


def test_span_and_measured():
    interval = Interval(median=5.41, low=5.3, high=5.52)
    assert span(interval) == "5.30–5.52"
    assert measured(interval) is interval
    assert measured(Interval(median=math.nan, low=0.0, high=0.0)) is None
    assert measured(None) is None
