"""What an entrant says of its break-even, from figures that are given here."""

from __future__ import annotations

from typing import Any

import pytest

from fasthop.rewrites.ladder import Recipe
from fasthop.search.entrant import Entrant
from fasthop.search.resident import FirstEpoch, Prepared


def entrant(epoch_ms: float, *, mean_ms: float | None = None, prepare_s: float = 0.0) -> Entrant:
    """Six rounds of epochs that take `epoch_ms` by the median, and a first epoch like any other."""
    trial: Any = None  # nothing is asked of it
    return Entrant(
        recipe=Recipe(name="any"),
        trial=trial,
        prepared=Prepared(prepare_s=prepare_s, num_steps_per_epoch=1, notes=()),
        first=FirstEpoch(
            first_epoch_s=epoch_ms / 1e3,
            compile_s=0.0,
            num_recompiles=0,
            num_graph_breaks=0,
            warm_epoch_s=epoch_ms / 1e3,
        ),
        round_times_ms=[epoch_ms] * 6,
        mean_times_ms=[] if mean_ms is None else [mean_ms] * 6,
    )


def test_break_even_is_what_was_paid_over_what_an_epoch_gains():
    assert entrant(3.0, prepare_s=4.0)._break_even(entrant(5.0)) == pytest.approx(2000)


def test_slow_epochs_of_a_long_training_count():
    found = entrant(3.0, mean_ms=3.0, prepare_s=4.0)._break_even(entrant(5.0, mean_ms=7.0))
    assert found == pytest.approx(1000)


def test_a_mean_below_the_median_is_not_taken():
    found = entrant(3.0, mean_ms=1.0, prepare_s=4.0)._break_even(entrant(5.0))
    assert found == pytest.approx(2000)


def test_what_is_not_faster_earns_nothing_back():
    assert entrant(5.0, prepare_s=4.0)._break_even(entrant(5.0)) is None
