"""Accuracy on Planetoid's Cora: the GCN of the literature, and its sampled and mixed-precision twins.

A two-layer GCN with 16 hidden channels and dropout 0.5 on input and hidden, Adam 0.01, weight decay 5e-4, 200
epochs, 10 seeds, public split. Prints one line a recipe; exits with 1 where the baseline's mean test accuracy
is outside the range that ten seeds of PyG give, or a twin is further than 1.5 points from it.

    python benchmarks/accuracy.py --root FOLDER_WITH_Cora
"""

from __future__ import annotations

import argparse
import sys

from fasthop.errors import FasthopError
from fasthop.measure.run import Result
from fasthop.rewrites import ladder as ladders
from fasthop.rewrites.amp import Amp
from fasthop.rewrites.ladder import Recipe
from fasthop.rewrites.sample import Sample
from fasthop.search.bench import run_ladder
from fasthop.search.config import BenchConfig

# Mean test accuracy in percent over ten seeds, by what is done to the features.
RANGES = {None: (79.5, 81.2), "normalize_features": (81.0, 82.8)}
TWIN_POINTS = 1.5


def recipes(sample: Sample) -> tuple[Recipe, ...]:
    """Full batch and sampled, each in full and in mixed precision."""
    return (
        Recipe(name="baseline"),
        Recipe(name="amp", rungs=(Amp(),)),
        Recipe(name="sample", rungs=(sample,)),
        Recipe(name="sample+amp", rungs=(sample, Amp())),
    )


def measure(root: str | None, transform: str | None, seeds: int, threads: int) -> Result:
    """The result on Planetoid's Cora with or without row-normalised features."""
    ladders.LADDERS["accuracy"] = recipes
    config = BenchConfig(
        data="planetoid:Cora",
        root=root,
        transform=transform,
        dropout=0.5,
        seeds=seeds,
        threads=threads,
        ladder="accuracy",
        rounds=6,
        round_s=0.05,
        accuracy_budget_s=3600.0,
    )
    return run_ladder(config)


def judge(result: Result, low: float, high: float) -> list[str]:
    """What is out of its range, a sentence each; prints a line for each recipe."""
    faults = []
    baseline = result.baseline.accuracy
    assert baseline is not None
    for run in result.runs:
        accuracy = run.accuracy
        if accuracy is None:
            faults.append(f"{run.name} was not measured: {run.skipped}.")
            continue
        difference = accuracy.mean - baseline.mean
        print(
            f"{result.task['transform'] or 'raw features'} {run.name} accuracy={accuracy.mean:.2f} "
            f"[{accuracy.low:.2f}, {accuracy.high:.2f}] std={accuracy.std:.2f} seeds={accuracy.count} "
            f"difference={difference:+.2f}",
            flush=True,
        )
        if abs(difference) > TWIN_POINTS:
            faults.append(
                f"{run.name} is {difference:+.2f} points from the baseline; at most {TWIN_POINTS} are allowed."
            )
    if not low <= baseline.mean <= high:
        faults.append(f"The baseline has {baseline.mean:.2f} %; {low} to {high} % is expected.")
    return faults


def main() -> int:
    """Measures both kinds of features; the exit code says whether all is within its range."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", help="the folder that holds Cora/raw, as PyG's Planetoid lays it out")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--features", choices=("raw", "normalized", "both"), default="both")
    args = parser.parse_args()
    faults = []
    try:
        for transform, (low, high) in RANGES.items():
            if args.features not in ("both", "normalized" if transform else "raw"):
                continue
            faults += judge(measure(args.root, transform, args.seeds, args.threads), low, high)
    except FasthopError as error:
        print(error, file=sys.stderr)
        return 2
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
