"""What each recipe of a ladder should gain on a task, said before anything is measured."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from fasthop.machine.peaks import MachinePeaks, machine_peaks
from fasthop.rewrites.amp import Amp
from fasthop.rewrites.base import Rung
from fasthop.rewrites.cache_norm import CacheNorm
from fasthop.rewrites.compile import Compile
from fasthop.rewrites.keep_memory import KeepMemory
from fasthop.rewrites.ladder import Recipe
from fasthop.rewrites.pyg_sparse import PygSparse
from fasthop.rewrites.sample import Sample
from fasthop.rewrites.sampled_layers import num_hops
from fasthop.search.cost import floor_ms
from fasthop.search.predict_rates import machine_rates
from fasthop.search.predict_rehearsal import Rehearsal, Sizes, rehearse_step
from fasthop.search.predict_sample import batch_sizes
from fasthop.search.predict_time import Machine, floor_ms_of, step_ms
from fasthop.search.predict_trace import FORWARD, Call, unchanged_generator
from fasthop.search.prediction import Prediction
from fasthop.train.setup import Setup
from fasthop.train.task import Task

# Our sampler draws 45 M edges a second on one thread (docs/design/sampling.md). A batch besides: the loader, and what the model's layers do in
# Python with a batch of another shape than the last; two of them on Cora take 5.2 ms, of which their operators explain 3.2.
SAMPLED_EDGE_NS, BATCH_US = 22.0, 1000.0
REHEARSED = (Sample, Amp, Compile, PygSparse, CacheNorm, KeepMemory)


@dataclass(frozen=True, kw_only=True, slots=True)
class Foreseen:
    """The predictions by the recipe's name, and the machine they are for; none where it could not be measured."""

    machine: Machine | None
    predictions: dict[str, Prediction]


def foresee(
    task: Task, recipes: tuple[Recipe, ...], device: torch.device, num_threads: int, *, seed: int = 0
) -> Foreseen:
    """What `predict_recipes` has of a ladder on this machine. A prediction is no reason to fail: where it cannot be had, it is left out."""
    try:
        machine = known_machine(device, num_threads)
    except (OSError, RuntimeError, MemoryError):
        return Foreseen(machine=None, predictions={})
    return Foreseen(machine=machine, predictions=predict_recipes(task, recipes, machine, seed=seed))


def known_machine(device: torch.device | str, num_threads: int) -> Machine:
    """The peaks and rates of a device with as many threads; measured where they are not known yet, which takes about 6 s."""
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(num_threads)
        return Machine(peaks=machine_peaks(device), rates=machine_rates(device))
    finally:
        torch.set_num_threads(before)


def predict_recipes(
    task: Task, recipes: tuple[Recipe, ...], machine: Machine, *, seed: int = 0
) -> dict[str, Prediction]:
    """Predictions by the recipe's name, of those that can be told from the model's own operators.

    Nothing of the task is run: the model takes two steps on a small graph, whose sizes are replaced by the task's. Left out
    are recipes that aggregate by spmm (`predict_setup` has those), that do not apply, and that a rehearsal does not bear.
    """
    found = {}
    for recipe in recipes:
        if not all(isinstance(rung, REHEARSED) for rung in recipe.rungs):
            continue
        with contextlib.suppress(Exception), quiet():  # what a user's model may raise is not to be listed
            found[recipe.name] = _predicted(task, recipe, machine, seed)
    return found


def predict_setup(setup: Setup, recipe: Recipe, machine: Machine) -> Prediction | None:
    """The prediction of a setup that exact rungs have built, from the count of its operations; None where it cannot be counted."""
    from fasthop.search.predict_exact import exact_ms  # late: the exact rungs bring the kernels

    try:
        time_ms, cost = exact_ms(setup, recipe, machine)
        floor = floor_ms(cost, machine.peaks, copy_rates=machine.rates.copy_rates)
    except Exception:  # a prediction that fails must not cost the recipe
        return None
    total = cost.total
    moved = total.bytes + total.gathered_bytes
    return Prediction(time_ms=time_ms, flops=total.flops, moved_bytes=moved, floor_ms=floor)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """A rehearsal leaves no trace: neither in the random stream nor in what the user reads."""
    with unchanged_generator(), contextlib.redirect_stdout(io.StringIO()):
        yield


def _predicted(task: Task, recipe: Recipe, machine: Machine, seed: int) -> Prediction:
    compiled = any(isinstance(rung, Compile) for rung in recipe.rungs)
    sample = next((rung for rung in recipe.rungs if isinstance(rung, Sample)), None)
    cached = any(isinstance(rung, CacheNorm) for rung in recipe.rungs)
    kept = any(isinstance(rung, KeepMemory) for rung in recipe.rungs)
    # Neither is to act here: the one builds kernels' matrices, the other would hold for this process.
    base = tuple(rung for rung in recipe.rungs if not isinstance(rung, CacheNorm | KeepMemory))
    rehearsal = rehearse_step(task, _named(base), seed)
    time_ms = flops = moved = floor = 0.0
    for count, sizes in epoch_batches(task, sample, seed):
        calls = rehearsal.at(sizes)
        if cached:
            calls = tuple(call for call in calls if not _of_graph_alone(call, rehearsal, sizes))
        each_ms = step_ms(calls, machine, compiled=compiled, new_shapes=sample is not None, kept=kept)
        if sample is not None:
            each_ms += _batch_ms(task, sizes, machine.peaks)
        time_ms += count * each_ms
        flops += count * sum(call.flops for call in calls)
        moved += count * sum(call.num_bytes for call in calls)
        floor += count * floor_ms_of(calls, machine.peaks)
    return Prediction(time_ms=time_ms, flops=flops, moved_bytes=moved, floor_ms=floor)


def _named(rungs: tuple[Rung, ...]) -> Recipe:
    return Recipe(name="rehearsal", rungs=rungs)


def epoch_batches(task: Task, sample: Sample | None, seed: int) -> list[tuple[int, Sizes]]:
    """(how many, their sizes) of an epoch's batches: the whole graph once, or what `sample` draws."""
    graph = task.graph
    if sample is None:
        rows = int(graph.train_mask.sum())
        return [(1, Sizes(num_nodes=graph.num_nodes, num_edges=graph.num_edges, num_rows=rows))]
    fan_outs = sample.num_neighbors
    if fan_outs is None:
        fan_outs = (10,) + (5,) * (num_hops(task.build_model(seed)) - 1)
    return batch_sizes(graph, num_neighbors=fan_outs, batch_size=sample.batch_size, seed=seed)


def _batch_ms(task: Task, sizes: Sizes, peaks: MachinePeaks) -> float:
    """Making a batch: its edges drawn, its rows gathered into memory that is used again."""
    gathered = 2 * 4 * sizes.num_nodes * task.graph.num_features
    return (
        BATCH_US / 1e3
        + SAMPLED_EDGE_NS * sizes.num_edges / 1e6
        + gathered / (peaks.gather_gb_per_s.median * 1e6)
    )


def _of_graph_alone(call: Call, rehearsal: Rehearsal, sizes: Sizes) -> bool:
    """Whether an operator of the forward pass has nothing to do with channels: what makes a normalisation, once if cached."""
    own = set(sizes.replacing(rehearsal.sizes).values()) | {1, 2}
    shapes = (*call.reads, *call.writes)
    return call.phase == FORWARD and all(dim in own for shape in shapes for dim in shape.size)
