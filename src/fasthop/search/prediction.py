"""A Prediction: what an epoch of one recipe should take, and what it must compute and move."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Prediction:
    """Of one recipe: the time of an epoch in ms, its count, and the floor in ms: the count at the machine's peaks."""

    time_ms: float
    flops: float
    moved_bytes: float
    floor_ms: float
