"""Rounds: the contestants run a few epochs each, in turns, so that drift hits all alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

from fasthop.errors import InvalidConfig
from fasthop.machine.clock import elapsed_ns

Contestant = TypeVar("Contestant")

_NUM_ROUNDS = (6, 7, 8, 10, 11, 13, 14, 16)
"""Numbers of rounds whose interval holds the median in about 98 % of cases (6: 97 %). The order
statistics only allow some figures: 9, 12 or 17 rounds give 96, 96 and 95 %."""


def time_epochs(call: Callable[[], object], num_epochs: int, synchronize: Callable[[], None]) -> list[int]:
    """Runs `call`, which does one epoch, `num_epochs` times and returns the wall time of each in ns.

    synchronize: returns when the device has finished (`machine.clock.synchronizer`).
    """
    return [elapsed_ns(call, synchronize) for _ in range(num_epochs)]


def epochs_per_round(epoch_ns: float, round_s: float, *, max_epochs: int = 1_000) -> int:
    """How many epochs of `epoch_ns` nanoseconds make a round of about `round_s` seconds: at least
    1, at most `max_epochs`.

    A round must be long against the clock and the switch between contestants, and short against
    the drift of the machine. Raises InvalidConfig where a figure is not positive.
    """
    if not (math.isfinite(epoch_ns) and epoch_ns > 0 and math.isfinite(round_s) and round_s > 0):
        raise InvalidConfig(
            f"an epoch's and a round's length are finite and above 0, and got {epoch_ns} ns and {round_s} s."
        )
    if max_epochs < 1:
        raise InvalidConfig(f"max_epochs is at least 1, and got {max_epochs}.")
    return max(1, min(max_epochs, round(round_s * 1e9 / epoch_ns)))


def epochs_of_rounds(epochs: int) -> list[int]:
    """The number of epochs in each round: odd ones, as equal as they can be, `epochs` in all.

    Odd, so that a round's median is an epoch that was measured: where other processes take whole
    time slices, the mean of the two middle ones mixes a disturbed epoch with a quiet one. With twice
    as many busy threads as cores this found a slowdown of 20 % in 87 of 100 tries instead of in 61.

    Raises InvalidConfig for fewer than 6 epochs: fewer rounds carry no 95 % interval.
    """
    if epochs < _NUM_ROUNDS[0]:
        raise InvalidConfig(f"rounds need at least {_NUM_ROUNDS[0]} epochs, and got {epochs}.")
    num_rounds = max(n for n in _NUM_ROUNDS if n <= epochs and n % 2 == epochs % 2)
    each = epochs // num_rounds
    each -= each % 2 == 0
    num_pairs = (epochs - each * num_rounds) // 2
    ends = [index * num_pairs // num_rounds for index in range(num_rounds + 1)]
    return [each + 2 * (ends[index + 1] - ends[index]) for index in range(num_rounds)]


def turn_order(contestants: Sequence[Contestant], round_index: int) -> list[Contestant]:
    """The order in which contestants run in a round: forwards in even rounds, backwards in odd ones.

    A B C, C B A: whoever runs first (after a pause, on cold caches) is not always the same, and a
    steady drift cancels between two rounds.
    """
    return list(contestants) if round_index % 2 == 0 else list(reversed(contestants))
