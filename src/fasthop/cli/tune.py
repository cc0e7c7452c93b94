"""`fasthop tune`: finds the fastest plan within limits of memory, accuracy and time, and says what it tried."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from fasthop.cli.model_options import add_model_options


def add_parser(subparsers: Any) -> None:
    """Adds the subcommand. An option that is not given is not passed on, so that `fasthop.tune` alone decides its default."""
    parser = subparsers.add_parser(
        "tune",
        help="find the fastest plan within limits of memory, accuracy and time",
        description="Finds the fastest plan to train a model on a graph within limits, with evidence, and saves plan.json, "
        "train.py (a training script to read and run), trials.json and the study in a folder. Killed and started again with "
        "the same folder, it goes on.",
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    limits = parser.add_argument_group("limits")
    limits.add_argument(
        "--memory",
        metavar="SIZE",
        help="what an epoch may hold at its peak beside the graph, such as 2GiB (default: no limit)",
    )
    limits.add_argument(
        "--max-accuracy-drop",
        type=float,
        metavar="POINTS",
        help="points of the metric that may be lost against the model as written (default: 0.5)",
    )
    limits.add_argument(
        "--budget", metavar="TIME", help="the time for all of it, such as 10min (default: 10min)"
    )
    limits.add_argument(
        "--objective",
        choices=("time-to-accuracy", "epoch-time", "memory"),
        help="what is made small (default: time-to-accuracy)",
    )
    limits.add_argument(
        "--max-trials", type=int, metavar="N", help="the most candidates (default: the budget's)"
    )
    graph = parser.add_argument_group("graph")
    graph.add_argument(
        "--data", metavar="NAME", help="a graph as fasthop bench takes it: a name or a file (default: cora)"
    )
    graph.add_argument("--root", metavar="DIR", help="folder that holds the data sets' files")
    graph.add_argument(
        "--split",
        type=_split,
        metavar="N",
        help="which column of masks; or random, or percentages such as 60/20/20",
    )
    graph.add_argument("--transform", choices=("normalize_features",), help="applied to the graph once")
    graph.add_argument(
        "--unsafe-pickle",
        action="store_true",
        help="load a whole pickled object from the --data file; it may run any code, so only a file you trust",
    )
    add_model_options(parser.add_argument_group("model, loss and optimiser"))
    how = parser.add_argument_group("measuring")
    how.add_argument("--epochs", type=int, metavar="N", help="epochs of the accuracy runs (default: 200)")
    how.add_argument(
        "--seeds",
        type=int,
        metavar="N",
        help="seeds of the accuracy runs at most; 0 leaves them out (default: 5)",
    )
    how.add_argument(
        "--rounds", type=int, metavar="N", help="how often the last contenders take turns (default: 10)"
    )
    how.add_argument(
        "--num-neighbors",
        type=_fan_outs,
        metavar="N,N",
        help="the fan-outs to begin with (default: 10, then 5)",
    )
    how.add_argument(
        "--batch-size", type=int, metavar="N", help="the batch size to begin with (default: 128)"
    )
    how.add_argument("--device", choices=("auto", "cpu", "cuda"), help="where to train (default: auto)")
    how.add_argument(
        "--threads", type=int, metavar="N", help="most threads of PyTorch (default: its own choice)"
    )
    how.add_argument("--deterministic", action="store_true", help="use deterministic algorithms only")
    how.add_argument(
        "--time-limit",
        type=float,
        dest="time_limit_s",
        metavar="SECONDS",
        help="limit of one step of a trial: compilation, a round, a seed (default: 600)",
    )
    how.add_argument(
        "--prove-budget",
        type=float,
        dest="prove_budget_s",
        metavar="SECONDS",
        help="what the proof of an exact recipe may take; 0 skips it (default: 10)",
    )
    how.add_argument("--seed", type=int, metavar="N", help="of everything that is drawn (default: 0)")
    how.add_argument(
        "--workers",
        choices=("local", "ray"),
        help="where trials run: processes of this machine, or a Ray cluster, one a node (default: local)",
    )
    output = parser.add_argument_group("output")
    output.add_argument(
        "--out",
        metavar="DIR",
        help="folder, new, or of a tune to go on with (default: runs/<date-time>-tune)",
    )
    output.add_argument(
        "--no-resume",
        action="store_false",
        dest="resume",
        help="refuse a folder that holds a tune already",
    )
    output.add_argument("--lang", choices=("en", "zh"), help="language of what is printed (default: en)")
    output.add_argument("--json", action="store_true", help="print the plan and all trials as JSON")
    output.add_argument("--quiet", action="store_true", help="show no progress")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Runs the subcommand; returns the exit code: 0, or 130 where it was cut short and the best so far was saved."""
    from fasthop.noise import silence
    from fasthop.report.progress import progress_for
    from fasthop.report.tune import tune

    options = {
        name: value
        for name, value in vars(args).items()
        if name not in ("run", "json", "quiet", "interrupted")
    }
    lang, quiet = options.get("lang", "en"), getattr(args, "quiet", False)
    args.interrupted = INTERRUPTED[lang]
    silence()
    tuned = tune(progress=progress_for(lang, quiet=quiet), **options)
    sys.stdout.write(tuned.to_json() if getattr(args, "json", False) else f"{tuned}\n")
    return 0 if tuned.finished else 130


INTERRUPTED = {
    "en": "Stopped before a candidate was measured; started again with the same --out it goes on.",
    "zh": "在测完任何候选方案之前被停止；用同一个 --out 再次启动会接着进行。",
}


def _split(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


def _fan_outs(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of whole numbers with commas between, such as 10,5"
        ) from None
