from __future__ import annotations

import pytest

from fasthop.errors import InvalidConfig
from fasthop.measure.rounds import epochs_of_rounds, epochs_per_round, time_epochs, turn_order


def test_time_epochs_runs_the_call_so_often_and_waits_on_both_sides():
    events = []
    times = time_epochs(lambda: events.append("call"), 3, lambda: events.append("wait"))
    assert events == ["wait", "call", "wait"] * 3
    assert len(times) == 3
    assert all(isinstance(time, int) and time >= 0 for time in times)
    assert time_epochs(lambda: events.append("never"), 0, lambda: None) == []


@pytest.mark.parametrize(
    ("epoch_ns", "round_s", "expected"),
    [(1e6, 0.1, 100), (1e9, 0.1, 1), (3e7, 0.1, 3), (1.0, 10.0, 1000), (1e6, 0.0004, 1)],
)
def test_a_round_lasts_about_as_long_as_asked(epoch_ns, round_s, expected):
    assert epochs_per_round(epoch_ns, round_s) == expected


def test_the_number_of_epochs_has_a_limit():
    assert epochs_per_round(1.0, 10.0, max_epochs=7) == 7


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_lengths_that_cannot_be_are_refused(bad):
    with pytest.raises(InvalidConfig, match="finite and above 0"):
        epochs_per_round(bad, 0.1)
    with pytest.raises(InvalidConfig, match="finite and above 0"):
        epochs_per_round(1e6, bad)
    with pytest.raises(InvalidConfig, match="max_epochs"):
        epochs_per_round(1e6, 0.1, max_epochs=0)


def test_turns_run_forwards_then_backwards():
    assert turn_order(["a", "b", "c"], 0) == ["a", "b", "c"]
    assert turn_order(["a", "b", "c"], 1) == ["c", "b", "a"]
    assert turn_order(["a", "b", "c"], 2) == ["a", "b", "c"]


@pytest.mark.parametrize("epochs", [*range(6, 60), 99, 100, 1000, 1001])
def test_epochs_are_shared_out_in_rounds_of_odd_length(epochs):
    rounds = epochs_of_rounds(epochs)
    assert sum(rounds) == epochs
    assert 6 <= len(rounds) <= 16
    assert all(length % 2 == 1 for length in rounds)
    assert max(rounds) - min(rounds) <= 2


def test_fewer_epochs_than_six_make_no_rounds():
    with pytest.raises(InvalidConfig, match="at least 6 epochs, and got 5"):
        epochs_of_rounds(5)
