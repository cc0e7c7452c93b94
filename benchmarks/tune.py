"""Does tune find plans within its limits, in its budget, and at least as fast as the best row of `bench --ladder full`?

For PubMed and an arxiv-shaped graph, each under two memory limits: tunes, then holds the plan against every row of the full
ladder by turns in one run, and measures the plan once more to see whether its ratio comes again. Prints a table and exits with 1
where a plan is over its limit, took longer than its budget, or is more than 5 % slower than the best row that fits the limit.

    python benchmarks/tune.py --root ../shared/data/planetoid --budget 5min
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from pathlib import Path

from fasthop.measure.run import Run
from fasthop.noise import silence
from fasthop.report.tune import tune
from fasthop.rewrites import ladder as ladders
from fasthop.rewrites.ladder import Recipe
from fasthop.search.amounts import as_bytes, as_seconds, bytes_text, seconds_text
from fasthop.search.bench import run_ladder
from fasthop.search.config import BenchConfig
from fasthop.search.tuned import Tuned

LIMITS = ("300MiB", "2GiB")
SLOWER = 1.05


def main() -> int:
    silence()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", help="folder of the planetoid data sets")
    parser.add_argument(
        "--data", action="append", help="a graph; may be given again (default: PubMed and arxiv's shape)"
    )
    parser.add_argument(
        "--memory", action="append", help=f"a limit; may be given again (default: {', '.join(LIMITS)})"
    )
    parser.add_argument("--budget", default="5min")
    parser.add_argument(
        "--objective", default="epoch-time", choices=("epoch-time", "time-to-accuracy", "memory")
    )
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--hidden", type=int, default=16)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--out", default="runs/tune-benchmark")
    args = parser.parse_args()
    failed = 0
    for data in args.data or ("planetoid:PubMed", "synthetic:arxiv"):
        root = args.root if data.startswith("planetoid:") else None
        for memory in args.memory or LIMITS:
            failed += not shown(data, root, memory, args)
    return 1 if failed else 0


def shown(data: str, root: str | None, memory: str, args: argparse.Namespace) -> bool:
    """Tunes under one limit and prints what came of it; whether all of it holds."""
    folder = (
        Path(args.out)
        / f"{data.replace(':', '-').replace('=', '')}-{memory}-{time.strftime('%Y%m%d-%H%M%S')}"
    )
    begun = time.monotonic()
    tuned = tune(
        "gcn", data, memory=memory, budget=args.budget, objective=args.objective, root=root, epochs=args.epochs,
        seeds=args.seeds, rounds=args.rounds, hidden=args.hidden, layers=args.layers, out=folder,
    )  # fmt: skip
    took_s = time.monotonic() - begun
    print(f"\n== {data}, {memory}, {args.budget}, {args.objective}\n{tuned}")
    plan = tuned.plan
    assert plan is not None
    limit, budget_s = as_bytes(memory), as_seconds(args.budget)
    rows = by_turns(tuned, data, root, args)
    again, others = (
        rows["the plan"],
        [run for name, run in rows.items() if name != "the plan" and run.round_times_ms],
    )
    within = [run for run in others if run.peak_bytes is not None and run.peak_bytes <= limit]
    best = min(within, key=lambda run: figure(run, args.objective), default=None)
    share = figure(again, args.objective) / figure(best, args.objective) if best is not None else 0.0
    ratio, now = plan.evidence["ratio_to_baseline"], again.ratio_to_baseline
    repeated = ratio is not None and now is not None and now.low <= ratio["high"] and now.high >= ratio["low"]
    peak = plan.evidence["peak_bytes"]["plan"]
    checks = {
        f"took {seconds_text(took_s)} of {args.budget}": took_s <= budget_s + max(5.0, 0.05 * budget_s),
        f"peak {bytes_text(peak)} of {memory}": peak <= limit,
        f"{share:.3f} times the best row, {best.name if best else 'none fits'}": share <= SLOWER,
        f"ratio then {short(ratio)}, now {short(now and dataclasses.asdict(now))}": repeated,
    }
    for name, run in rows.items():
        epoch = f"{run.time_per_epoch_ms.median:.4g} ms" if run.time_per_epoch_ms else run.skipped
        held = bytes_text(run.peak_bytes) if run.peak_bytes is not None else "-"
        print(f"  {name:<28} {epoch}  {held}  to accuracy {run.time_to_accuracy_s}")
    for words, holds in checks.items():
        print(f"  {'ok  ' if holds else 'FAIL'} {words}")
    (folder / "against_full.json").write_text(json.dumps(checks, indent=1, ensure_ascii=False))
    return all(checks.values())


def by_turns(tuned: Tuned, data: str, root: str | None, args: argparse.Namespace) -> dict[str, Run]:
    """The plan and every row of the full ladder, measured by turns in one run."""
    plan = tuned.plan
    assert plan is not None
    mine = dataclasses.replace(plan.recipe(), name="the plan")

    def with_plan(sample: object) -> tuple[Recipe, ...]:
        baseline, *rest = ladders.full(sample)  # type: ignore[arg-type]
        return (baseline, mine, *rest)

    ladders.LADDERS["with the plan"] = with_plan
    accuracy = args.objective == "time-to-accuracy"
    result = run_ladder(
        BenchConfig(
            data=data,
            root=root,
            ladder="with the plan",
            rounds=args.rounds,
            epochs=args.epochs,
            seeds=args.seeds if accuracy else 0,
            threads=plan.training["threads"],
            hidden=args.hidden,
            layers=args.layers,
            lr=plan.training["lr"],
        )
    )  # fmt: skip
    return {run.name: run for run in result.runs}


def figure(run: Run, objective: str) -> float:
    """What the objective makes small; infinite where it was not measured."""
    if objective == "memory":
        return float(run.peak_bytes or 1e30)
    if objective == "time-to-accuracy":
        return run.time_to_accuracy_s if run.time_to_accuracy_s is not None else 1e30
    return run.time_per_epoch_ms.median if run.time_per_epoch_ms is not None else 1e30


def short(ratio: dict[str, float] | None) -> str:
    return "none" if ratio is None else f"{ratio['median']:.2f} [{ratio['low']:.2f}, {ratio['high']:.2f}]"


if __name__ == "__main__":
    sys.exit(main())
