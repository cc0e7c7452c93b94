"""Eval mode for a while, and then every module back in the mode that it was in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def evaluating(*models: torch.nn.Module) -> Iterator[None]:
    """Puts the models into eval mode; restores the mode of each of their modules, so that one which a
    user froze (a BatchNorm in eval mode) stays frozen."""
    modes = {part: part.training for model in models for part in model.modules()}
    for model in models:
        model.eval()
    try:
        yield
    finally:
        for part, training in modes.items():
            part.training = training
