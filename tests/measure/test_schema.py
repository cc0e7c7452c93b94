"""A result.json that a person or a program changed is refused in a sentence, whatever was changed."""

from __future__ import annotations

import copy
import json

import pytest

from fasthop.errors import InvalidConfig
from fasthop.measure.run import Result
from tests.report import results

GOOD = json.loads(results.normal().to_json())


def changed(path, value):
    tree = copy.deepcopy(GOOD)
    place = tree
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return json.dumps(tree)


@pytest.mark.parametrize("value", ["x", {}, True, None])
@pytest.mark.parametrize(
    "path",
    [
        ("recipes", 0, "rungs"),
        ("recipes", 0, "curve"),
        ("recipes", 0, "time_per_epoch_ms", "median"),
        ("recipes", 0, "time_per_epoch_ms", "low"),
        ("recipes", 0, "accuracy", "count"),
    ],
)
def test_a_field_of_another_kind_is_refused(path, value):
    with pytest.raises(InvalidConfig, match="is damaged"):
        Result.from_json(changed(path, value))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("machine",), []),
        (("task",), None),
        (("target_accuracy",), "x"),
        (("finished",), 1),
        (("ladder",), None),
        (("recipes", 0, "name"), 5),
        (("recipes", 0, "peak_bytes"), -1),
        (("recipes", 0, "peak_bytes"), 1.5),
        (("recipes", 0, "num_steps_per_epoch"), "x"),
        (("recipes", 0, "first_epoch_s"), 1e308),
        (("recipes", 0, "time_per_epoch_ms", "median"), 1e9),
        (("recipes", 0, "curve"), [[5]]),
        (("recipes", 0, "notes"), ["x"]),
        (("recipes", 0, "round_times_ms"), ["x"]),
        (("task", "notes"), 5),
        (("machine", "gpus"), "x"),
    ],
)
def test_a_figure_that_cannot_be_is_refused(path, value):
    with pytest.raises(InvalidConfig, match="is damaged"):
        Result.from_json(changed(path, value))


def test_brackets_without_end_are_no_result():
    with pytest.raises(InvalidConfig, match="not a result"):
        Result.from_json("[" * 100_000)


def test_what_fasthop_writes_is_taken():
    assert Result.from_json(results.normal().to_json()) == results.normal()


def test_a_whole_number_stands_for_a_float():
    assert Result.from_json(changed(("recipes", 0, "first_epoch_s"), 2)).baseline.first_epoch_s == 2
