"""The prediction beside the measurement, in words."""

from __future__ import annotations

import dataclasses

import pytest

from fasthop.measure.run import Interval, Result, Run
from fasthop.report.prediction import prediction_error, prediction_remark, prediction_sentence


def run(name: str, predicted: float | None, ratio: float | None) -> Run:
    measured = None if ratio is None else Interval(median=ratio, low=ratio, high=ratio)
    return Run(
        name=name, rungs=(name,), exactness="bitwise", predicted_ratio=predicted, ratio_to_baseline=measured
    )


@pytest.fixture
def result() -> Result:
    runs = (run("baseline", 1.0, 1.0), run("good", 3.0, 2.5), run("bad", 1.5, 0.5), run("untold", None, 2.0),
            run("unmeasured", 2.0, None))  # fmt: skip
    return Result(machine={}, task={}, runs=runs, ladder="full", created="", fasthop_version="")


def test_the_error_is_a_share_of_what_was_measured(result):
    assert [prediction_error(entry) for entry in result.runs[1:]] == [pytest.approx(0.2), 2.0, None, None]
    assert prediction_error(dataclasses.replace(result.runs[1], predicted_ratio=float("nan"))) is None


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_sentence_a_recipe(result, lang):
    baseline = result.baseline
    good, bad = (prediction_sentence(entry, baseline, lang) for entry in result.runs[1:3])
    assert "3.00" in good[0]
    assert "20.0 %" in good[0]
    assert "200 %" in bad[0]
    assert ("wrong" if lang == "en" else "错") in bad[0]
    assert ("wrong" if lang == "en" else "错") not in good[0]
    for entry in (baseline, *result.runs[3:]):
        assert prediction_sentence(entry, baseline, lang) == []


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_median_error_of_a_ladder(result, lang):
    (remark,) = prediction_remark(result, lang)
    assert "110 %" in remark
    assert "2" in remark
    assert prediction_remark(dataclasses.replace(result, runs=result.runs[:1]), lang) == []
