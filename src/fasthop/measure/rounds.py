"""Rounds: the contestants run a few epochs each, in turns, so that drift hits all alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

from fasthop.errors import InvalidConfig
from fasthop.machine.clock import elapsed_ns

Contestant = TypeVar("Contestant")


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


def turn_order(contestants: Sequence[Contestant], round_index: int) -> list[Contestant]:
    """The order in which contestants run in a round: forwards in even rounds, backwards in odd ones.

    A B C, C B A: whoever runs first (after a pause, on cold caches) is not always the same, and a
    steady drift cancels between two rounds.
    """
    return list(contestants) if round_index % 2 == 0 else list(reversed(contestants))
