"""In which direction a recipe goes: the word that a prediction and a measurement are compared by."""

from __future__ import annotations

NO_CHANGE = 0.10
"""Speeds within a tenth of the baseline's, either way, are called no change."""


def direction(ratio: float) -> str:
    """In a word what a ratio of speeds says: "faster", "slower", or "same" within NO_CHANGE."""
    if ratio > 1 + NO_CHANGE:
        return "faster"
    return "slower" if ratio < 1 / (1 + NO_CHANGE) else "same"
