"""The generators of random numbers, kept for the caller while they are seeded or drawn from."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def kept_generators() -> Iterator[None]:
    """Leaves Python's, NumPy's and torch's generators (the CPU's and, once CUDA runs, its devices') as they were."""
    python, numpy = random.getstate(), np.random.get_state()
    devices = (
        list(range(torch.cuda.device_count()))
        if torch.cuda.is_available() and torch.cuda.is_initialized()
        else []
    )
    try:
        with torch.random.fork_rng(devices=devices):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
