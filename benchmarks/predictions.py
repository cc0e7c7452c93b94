"""What is predicted of each recipe of the ladder `full`, before anything is measured, beside what is measured then.

    python benchmarks/predictions.py [--only NAME ...] [--root DIR] [--rounds N] [--json FILE] [--list] [--no-compile] [--threads N]

Each row is one recipe on one task: the ratio of speeds that was predicted (the baseline's time over the recipe's), the one
that was measured, paired round by round, its error as a share of the measured one, and whether the direction was right: faster, slower, or no change, which is within
10 % either way. Below stand the share of right directions, that of always saying "faster", and the median error. Accuracy is
not measured (seeds=0), nor is anything proven: both have benchmarks of their own. --root: the folder that holds Planetoid's files.
The figures that are no measurement of the machine were set on Cora and on graphs of 64 nodes alone; what the predictions lacked was
looked for on all of these tasks (docs/design/search.md), so none is blind.
"""

from __future__ import annotations

import argparse
import json
import statistics
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from unittest import mock

from fasthop.noise import silence
from fasthop.rewrites import ladder as ladders
from fasthop.rewrites.ladder import Recipe
from fasthop.rewrites.sample import Sample
from fasthop.search.bench import run_ladder
from fasthop.search.config import BenchConfig
from fasthop.search.contest import Contest
from fasthop.search.direction import direction

TASKS: dict[str, dict[str, object]] = {
    "cora gcn": {"data": "cora"},
    "pubmed gcn": {"data": "planetoid:PubMed"},
    "arxiv gcn": {"data": "synthetic:arxiv", "hidden": 32, "batch_size": 4096},
    "dense sage 128": {
        "data": "synthetic:nodes=20000,degree=50,features=64,classes=10",
        "model": "sage",
        "hidden": 128,
        "batch_size": 1024,
    },
    "small gat": {"data": "synthetic:nodes=5000,degree=10,features=100,classes=7", "model": "gat", "hidden": 8},
    "small gin": {"data": "synthetic:nodes=5000,degree=10,features=100,classes=7", "model": "gin", "hidden": 64},
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Row:
    """One recipe on one task."""

    task: str
    recipe: str
    predicted: float
    measured: float
    time_ms: float

    @property
    def error(self) -> float:
        return abs(self.predicted - self.measured) / self.measured

    @property
    def is_right(self) -> bool:
        return direction(self.predicted) == direction(self.measured)


def rows_of(name: str, config: BenchConfig) -> tuple[list[Row], list[str]]:
    """The rows of one task, and the recipes without one, with the reason."""
    with mock.patch.multiple(Contest, _count_memory=_nothing, _tell_phases_apart=_nothing):
        result = run_ladder(config)
    rows, without = [], []
    for run in result.runs[1:]:
        if run.predicted_ratio is None or run.ratio_to_baseline is None or run.time_per_epoch_ms is None:
            why = run.skipped or ("not predicted" if run.predicted_ratio is None else "not measured")
            without.append(f"{name}: {run.name}: {why}")
            continue
        rows.append(
            Row(
                task=name,
                recipe=run.name,
                predicted=run.predicted_ratio,
                measured=run.ratio_to_baseline.median,
                time_ms=run.time_per_epoch_ms.median,
            )
        )
    return rows, without


def _nothing(contest: Contest) -> None:
    """Memory and stages are not measured here: traced epochs of a large graph would take most of the time."""


def summary(rows: list[Row]) -> dict[str, float]:
    """Shares in percent, and the median error in percent."""
    right = 100 * statistics.mean(row.is_right for row in rows)
    always = 100 * statistics.mean(direction(row.measured) == "faster" for row in rows)
    error = 100 * statistics.median(row.error for row in rows)
    return {"right": right, "always_faster": always, "median_error": error, "rows": len(rows)}


def say(rows: list[Row], without: list[str]) -> None:
    print(f"\n{'task':16} {'recipe':26} {'predicted':>9} {'measured':>9} {'error':>6}  direction")
    for row in rows:
        word = "right" if row.is_right else f"wrong: {direction(row.predicted)} for {direction(row.measured)}"
        print(
            f"{row.task:16} {row.recipe:26} {row.predicted:9.2f} {row.measured:9.2f} {100 * row.error:5.0f}%  {word}"
        )
    for line in without:
        print(f"no row: {line}")
    if rows:
        found = summary(rows)
        print(
            f"{len(rows)} rows: {found['right']:.0f} % right; always “faster”: {found['always_faster']:.0f} %; "
            f"median error {found['median_error']:.0f} %",
            flush=True,
        )


def full_without_compile(sample: Sample) -> tuple[Recipe, ...]:
    """The ladder `full` less its compiled recipes, which take minutes each on a small machine."""
    return tuple(recipe for recipe in ladders.full(sample) if "compile" not in recipe.name)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", default=list(TASKS), metavar="NAME")
    parser.add_argument("--root", help="the folder that holds Planetoid's files")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--threads", type=int, help="of torch; the usual number where it is left out")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--no-compile", action="store_true")
    options = parser.parse_args()
    if options.list:
        print("\n".join(TASKS))
        return
    silence()
    if options.no_compile:
        ladders.LADDERS["full"] = full_without_compile
    rows: list[Row] = []
    without: list[str] = []
    for name in options.only:
        common = BenchConfig(
            ladder="full", seeds=0, rounds=options.rounds, prove_budget_s=0, device="cpu", root=options.root,
            threads=options.threads,
        )  # fmt: skip
        found = rows_of(name, replace(common, **TASKS[name]))
        say(*found)
        rows += found[0]
        without += found[1]
    say(rows, without)
    if options.json is not None:
        tree = {"summary": summary(rows), "rows": [asdict(row) for row in rows], "without": without}
        options.json.write_text(json.dumps(tree, indent=2))


if __name__ == "__main__":
    main()
