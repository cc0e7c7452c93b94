"""The least that an epoch of a recipe must hold at once: what one operator reads and writes together."""

from __future__ import annotations

from fasthop.rewrites.cache_norm import CacheNorm
from fasthop.rewrites.ladder import Recipe
from fasthop.rewrites.sample import Sample
from fasthop.search.predict import REHEARSED, epoch_batches, quiet
from fasthop.search.predict_rehearsal import rehearse_step
from fasthop.search.predict_trace import Call
from fasthop.train.task import Task


def memory_floor_bytes(task: Task, recipe: Recipe, *, seed: int = 0) -> int | None:
    """Bytes that an epoch must hold at its least beside the graph; None where the recipe cannot be rehearsed.

    Of the operators of a step on the true sizes the largest counts: what it writes, and what it reads that the step itself
    made before (a message of edges x channels, say). All that is kept for the backward pass meanwhile comes on top, so
    that the true peak is above it: a recipe whose floor is over a limit cannot fit.
    """
    if not all(isinstance(rung, REHEARSED) for rung in recipe.rungs):
        return None
    sample = next((rung for rung in recipe.rungs if isinstance(rung, Sample)), None)
    base = tuple(rung for rung in recipe.rungs if not isinstance(rung, CacheNorm))
    try:
        with quiet():
            rehearsal = rehearse_step(task, Recipe(name="rehearsal", rungs=base), seed)
            return max(
                (_held(rehearsal.at(sizes)) for _, sizes in epoch_batches(task, sample, seed)), default=0
            )
    except Exception:  # what a user's model may raise is not to be listed
        return None


def _held(calls: tuple[Call, ...]) -> int:
    made: set[int] = set()
    most = 0
    for call in calls:
        if call.is_view:
            continue
        held = {shape.memory: shape.num_bytes for shape in call.reads if shape.memory in made}
        held |= {shape.memory: shape.num_bytes for shape in call.writes}
        made |= {shape.memory for shape in call.writes}
        most = max(most, sum(held.values()))
    return most
