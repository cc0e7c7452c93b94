"""Does `fasthop compare` tell noise from change? Ten tries of each kind, and the counts.

A/A: two runs of the same code, one after the other, must come out as "no significant change" in every recipe and
every figure, in at least 9 of 10 tries.
A/B: a run whose model is 20 % slower must be found in each of 10 tries; in how many it is found in every recipe is printed, too.

Each run is a whole one, in fresh processes, as `fasthop bench` makes it, with two recipes and few rounds: the baseline
and `pyg_sparse`, on the bundled Cora, on one thread. The slowdown spins in `forward` for a fifth of what a step of the same model takes.

    python benchmarks/compare_aa.py [--tries 10] [--rounds 10] [--keep FOLDER] > benchmarks/results/compare_aa.txt
    python benchmarks/compare_aa.py --reuse FOLDER     judge the runs of an earlier --keep again
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import torch

from fasthop.machine.fingerprint import fingerprint
from fasthop.measure.comparison import ResultChange, compare_results
from fasthop.measure.run import Result
from fasthop.rewrites.ladder import Recipe
from fasthop.rewrites.pyg_sparse import PygSparse
from fasthop.search import bench as search_bench
from fasthop.search.config import BenchConfig
from fasthop.train.models import GCN

SLOWDOWN = 0.2
BAR_AA = 0.9
RECIPES = (Recipe(name="baseline"), Recipe(name="pyg_sparse", rungs=(PygSparse(),)))
SIZES = (1433, 16, 7)  # Cora's features, hidden channels and classes


def quick_model() -> torch.nn.Module:
    """The reference GCN as `fasthop bench` makes it."""
    return GCN(*SIZES)


class SlowGCN(GCN):
    """The same, which in training spins before each forward pass for a fifth of what a step takes without that."""

    def __init__(self) -> None:
        super().__init__(*SIZES)
        self.start_s, self.spun_s = 0.0, 0.0
        self.steps_s: deque[float] = deque(maxlen=9)

    def forward(
        self, x: torch.Tensor, edge_index: torch.Tensor, edge_weight: torch.Tensor | None = None
    ) -> torch.Tensor:
        start_s = time.perf_counter()
        if self.training:
            if self.start_s:
                self.steps_s.append(start_s - self.start_s - self.spun_s)
            # The median, since the other recipe's turn lies between some steps.
            self.spun_s = SLOWDOWN * statistics.median(self.steps_s) if self.steps_s else 0.0
            self.start_s = start_s
            while time.perf_counter() - start_s < self.spun_s:
                pass
        return super().forward(x, edge_index, edge_weight)


def one_run(model: Callable[[], torch.nn.Module], rounds: int, path: Path) -> None:
    """Measures one run and writes its result.json's text to `path`."""
    config = BenchConfig(model=model, rounds=rounds, seeds=0, threads=1, round_s=0.1)
    with mock.patch.object(search_bench, "ladder", return_value=RECIPES):
        result = search_bench.run_ladder(config)
    # The two models pass for one: that is the point of a regression.
    result = dataclasses.replace(result, task={**result.task, "model": "gcn"})
    path.write_text(result.to_json(), encoding="utf-8")


def measured_runs(folder: Path, tries: int, rounds: int) -> None:
    """Per try two runs of the same code, and one of the slower model, each in a file of its own."""
    for number in range(tries):
        for name, model in (("before", quick_model), ("after", quick_model), ("slow", SlowGCN)):
            one_run(model, rounds, folder / f"{number:02d}-{name}.json")
            sys.stderr.write(f"try {number + 1} of {tries}: {name}\n")


def judged(folder: Path) -> tuple[int, int, int, int]:
    """Prints a line a try; returns the number of tries, of those that call equal code equal, that find the slowdown, and that find it in every recipe."""
    tries = equal = found = everywhere = 0
    for path in sorted(folder.glob("*-before.json")):
        before, after, slow = (
            Result.from_json(path.with_name(path.name.replace("before", name)).read_text(encoding="utf-8"))
            for name in ("before", "after", "slow")
        )
        same, slower = compare_results(before, after), compare_results(before, slow)
        tries += 1
        equal += not same.is_changed
        found += any(change.time_change == "slower" for change in slower.changes)
        everywhere += all(change.time_change == "slower" for change in slower.changes)
        print(f"{path.name[:2]}  A/A {line(same)}   A/B {line(slower)}", flush=True)
    return tries, equal, found, everywhere


def line(change: ResultChange) -> str:
    """The ratios of time of every recipe, with their intervals, and what they are called."""
    parts = []
    for entry in change.changes:
        ratio = entry.time_ratio
        assert ratio is not None
        parts.append(
            f"{entry.name} {ratio.median:.3f} ({ratio.low:.3f}-{ratio.high:.3f}) {entry.time_change}"
            + (f", memory {entry.memory_change}" if entry.memory_change != "same" else "")
        )
    return "; ".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description="Shows that fasthop compare tells noise from change.")
    parser.add_argument("--tries", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the runs there")
    parser.add_argument("--reuse", type=Path, metavar="FOLDER", help="judge those of an earlier run")
    options = parser.parse_args()
    machine = fingerprint()
    print(f"{machine['cpu']['model']}, 1 thread, torch {torch.__version__}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.reuse or options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if options.reuse is None:
            measured_runs(folder, options.tries, options.rounds)
        tries, equal, found, everywhere = judged(folder)
    print(f"same code: no significant change in {equal} of {tries} pairs (at least {BAR_AA:.0%} asked for)")
    print(f"20 % slower: found in {found} of {tries} pairs (all asked for), in every recipe in {everywhere}")
    return int(tries == 0 or equal < BAR_AA * tries or found < tries)


if __name__ == "__main__":
    sys.exit(main())
