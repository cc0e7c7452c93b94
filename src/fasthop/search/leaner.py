"""Leaner: what is tried next where a recipe does not fit in memory."""

from __future__ import annotations

import dataclasses
import gc

import torch

from fasthop.errors import DoesNotFit
from fasthop.rewrites.exact.rung import ExactRung
from fasthop.rewrites.fused_step import FusedStepRung
from fasthop.rewrites.ladder import Recipe
from fasthop.rewrites.sample import Sample
from fasthop.search.fitted import automatic
from fasthop.search.worker import is_out_of_memory

LARGEST_FIRST_BATCH = 1024
_WORDS = (
    "std::bad_alloc",
    "can't start new thread",
    "could not create a primitive",
    "Cannot allocate memory",
)


def ran_out(error: BaseException) -> bool:
    """Whether an exception says that memory ran out, in the words of any of the libraries below."""
    if isinstance(error, DoesNotFit) or is_out_of_memory(error):
        return True
    return isinstance(error, RuntimeError | OSError) and any(words in str(error) for words in _WORDS)


def free_memory() -> None:
    """Gives back what nothing refers to any more."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def leaner(recipe: Recipe, *, num_train: int, batch_size: int) -> Recipe | None:
    """The next recipe that needs less: the exact rungs, which keep the mathematics, then sampling, then half the batch; None
    where a batch is one node already. batch_size: what sampling begins with, at most."""
    sample = next((rung for rung in recipe.rungs if isinstance(rung, Sample)), None)
    if sample is not None:
        if sample.batch_size <= 1:
            return None
        half = dataclasses.replace(sample, batch_size=max(1, min(sample.batch_size, num_train) // 2))
        rungs = tuple(half if rung is sample else rung for rung in recipe.rungs)
        return Recipe(name=_sampled_name(half.batch_size), rungs=rungs)
    if not any(isinstance(rung, ExactRung | FusedStepRung) for rung in recipe.rungs):
        exact = tuple(rung for rung in automatic().rungs if isinstance(rung, ExactRung))
        return Recipe(name="exact rungs", rungs=exact)
    first = max(1, min(max(batch_size, LARGEST_FIRST_BATCH), num_train // 2))
    return Recipe(name=_sampled_name(first), rungs=(Sample(batch_size=first),))


def _sampled_name(batch_size: int) -> str:
    return f"sample (batch_size {batch_size:,})"
