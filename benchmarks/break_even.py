"""After how many epochs an exact recipe has earned back what it cost, as a run says and as two clocks say.

    python benchmarks/break_even.py [--data NAME] [--recipe NAME] [--root DIR] [--json FILE]

The run: `break_even_epochs` of a ladder of two, the baseline and the recipe (+fused_step by default). The clocks: each side
trains in a process of its own, from the moment that the model and the graph lie ready, with all that the recipe brings: imports, compiled kernels,
preparation, proof. Run and clocks all begin with an empty cache of kernels. Both cumulative times are noted after every epoch, for a half more epochs than the run says; where they cross is
the true figure. The two should agree within 20 %.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import torch

from fasthop.graph.sources import load_graph
from fasthop.noise import silence
from fasthop.rewrites import ladder as ladders
from fasthop.rewrites.ladder import Recipe
from fasthop.search.bench import run_ladder
from fasthop.search.config import BenchConfig
from fasthop.train.loop import run_epoch
from fasthop.train.setup import Setup
from fasthop.train.task_config import make_task

MARGIN = 1.5


def recipe_named(name: str) -> Recipe:
    """A recipe of the ladder `exact`."""
    recipes = ladders.ladder("exact", num_neighbors=None, batch_size=128)
    return next(recipe for recipe in recipes if recipe.name == name)


def by_clock(config: BenchConfig, recipe: Recipe, num_epochs: int) -> list[float]:
    """Seconds after each epoch, from the baseline's setup on; this process does nothing else."""
    graph = load_graph(config.data, root=config.root)
    baseline = Setup.baseline(make_task(config.task, graph), seed=0, device=torch.device("cpu"))
    start = time.perf_counter()
    setup = baseline
    if recipe.rungs:
        setup = recipe.on(baseline)
        setup.restart(0)
        from fasthop.search.proof import prove_setup

        prove_setup(setup, recipe, budget_s=config.prove_budget_s, seed=0)
    step = setup.step()
    seconds = []
    for _ in range(num_epochs):
        run_epoch(step, setup.batches)
        seconds.append(time.perf_counter() - start)
    return seconds


def crossing(baseline: list[float], fast: list[float]) -> int | None:
    """The first epoch after which the fast side has taken no more time; None where it never comes."""
    pairs = zip(baseline, fast, strict=True)
    return next((epoch for epoch, (slow, quick) in enumerate(pairs, 1) if quick <= slow), None)


@contextlib.contextmanager
def fresh_cache() -> Iterator[dict[str, str]]:
    """The environment with an empty cache folder: on either side every kernel is compiled, as on a machine that never ran it."""
    with tempfile.TemporaryDirectory() as folder:
        yield {**os.environ, "FASTHOP_CACHE": folder}


def side(options: argparse.Namespace, name: str, num_epochs: int) -> list[float]:
    """`by_clock` in a fresh process."""
    root = [] if options.root is None else ["--root", options.root]
    command = [
        sys.executable,
        __file__,
        "--data",
        options.data,
        *root,
        "--side",
        name,
        "--epochs",
        str(num_epochs),
    ]
    with fresh_cache() as environment:
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default="cora")
    parser.add_argument("--recipe", default="+fused_step")
    parser.add_argument("--root")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("--epochs", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    silence()
    config = BenchConfig(data=options.data, root=options.root, ladder="exact", device="cpu", seeds=0)
    if options.side is not None:
        print(json.dumps(by_clock(config, recipe_named(options.side), options.epochs)))
        return
    recipe = recipe_named(options.recipe)
    ladders.LADDERS["exact"] = lambda sample: (Recipe(name="baseline"), recipe)
    with fresh_cache() as environment, mock.patch.dict(os.environ, environment):
        baseline, run = run_ladder(config).runs
    ladders.LADDERS["exact"] = ladders.exact
    said = run.break_even_epochs
    if said is None:
        print(f"{recipe.name}: not faster, so that nothing is earned back ({run.skipped or 'measured'})")
        return
    num_epochs = int(MARGIN * said) + 10
    sides = side(options, "baseline", num_epochs), side(options, recipe.name, num_epochs)
    found = crossing(*sides)
    for one, seconds in zip((baseline, run), sides, strict=True):
        epoch_ms = one.time_per_epoch_ms.median if one.time_per_epoch_ms is not None else 0.0
        clock_ms = 1e3 * (seconds[-1] - seconds[len(seconds) // 2]) / (len(seconds) - 1 - len(seconds) // 2)
        print(
            f"{one.name}: the run has prepare {one.prepare_s or 0:.2f} s, proof {one.proof_s or 0:.2f} s, first epoch "
            f"{one.first_epoch_s or 0:.2f} s, then {epoch_ms:.2f} ms each; the clock has {seconds[0]:.2f} s up to the end of the "
            f"first epoch, then {clock_ms:.2f} ms each"
        )
    print(
        f"{options.data}, {recipe.name}: the run says {said:.0f} epochs, the clocks cross at {found}", end=""
    )
    print("" if found is None else f": {100 * (said - found) / found:+.0f} %")
    if options.json is not None:
        options.json.write_text(json.dumps({"run": said, "clocks": found}))


if __name__ == "__main__":
    main()
