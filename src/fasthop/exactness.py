"""The three words for how closely a rung keeps the baseline's numbers."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum


class Exactness(Enum):
    """How a recipe's numbers relate to the baseline's. Ordered from the strictest down.

    BITWISE: equal bits. REASSOCIATED: the same mathematics summed in another order, so the
    error is bounded by the dtype and the depth. STATISTICAL: another estimator, with the same
    metric within a stated margin over seeds.
    """

    BITWISE = "bitwise"
    REASSOCIATED = "reassociated"
    STATISTICAL = "statistical"

    @classmethod
    def weakest(cls, values: Iterable[Exactness]) -> Exactness:
        """The exactness of several rungs together: that of the weakest; BITWISE for none."""
        order = list(cls)
        return order[max((order.index(value) for value in values), default=0)]
