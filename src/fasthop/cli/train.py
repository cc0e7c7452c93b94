"""`fasthop train`: trains a model to the end, keeps what comes of it in a folder, and says how it went."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from fasthop.cli.model_options import add_model_options

if TYPE_CHECKING:
    from fasthop.search.trained import Trained


def add_parser(subparsers: Any) -> None:
    """Adds the subcommand. An option that is not given is not passed on, so that `fasthop.train` alone, a plan or the run that is
    gone on with decides what it is."""
    parser = subparsers.add_parser(
        "train",
        help="train a model to the end: early stopping, checkpoints, resume, predictions",
        description="Trains a model on a graph and keeps run.json, metrics.jsonl, checkpoints, model.safetensors and "
        "predictions.parquet in a folder. Interrupted, it goes on with --resume, on a CPU bit for bit.",
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--plan", metavar="FILE", help="plan.json of fasthop tune: what it says need not be given"
    )
    parser.add_argument("--out", metavar="DIR", help="folder, new or empty (default: runs/<date-time>-train)")
    parser.add_argument(
        "--resume", action="store_true", help="go on with the training in --out from its last checkpoint"
    )
    graph = parser.add_argument_group("graph")
    graph.add_argument(
        "--data",
        metavar="NAME",
        help="cora (bundled), planetoid:Cora, ogb:ogbn-arxiv, or the path of a graph's file (default: cora)",
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
    loop = parser.add_argument_group("training")
    loop.add_argument("--epochs", type=int, metavar="N", help="at most so many (default: 200)")
    loop.add_argument(
        "--patience",
        type=int,
        metavar="N",
        help="stop after so many evaluations without a gain (default: never)",
    )
    loop.add_argument("--min-delta", type=float, metavar="X", help="what counts as a gain (default: 0.0)")
    loop.add_argument(
        "--monitor",
        choices=("val", "val_loss", "loss"),
        help="what decides which weights are best (default: val)",
    )
    loop.add_argument(
        "--schedule",
        choices=("none", "cosine", "step", "plateau"),
        help="of the learning rate, by epochs (default: none)",
    )
    loop.add_argument(
        "--warmup-epochs",
        type=int,
        metavar="N",
        help="epochs over which the learning rate rises (default: 0)",
    )
    loop.add_argument(
        "--step-epochs", type=int, metavar="N", help="--schedule step: epochs between two falls (default: 30)"
    )
    loop.add_argument(
        "--gamma", type=float, metavar="X", help="--schedule step, plateau: factor of a fall (default: 0.1)"
    )
    loop.add_argument(
        "--plateau-patience",
        type=int,
        metavar="N",
        help="--schedule plateau: evaluations without a gain before a fall (default: 10)",
    )
    loop.add_argument(
        "--clip-grad-norm", type=float, metavar="X", help="largest norm of the gradients (default: none)"
    )
    loop.add_argument(
        "--evaluate-every", type=int, metavar="N", help="epochs between two evaluations (default: 1)"
    )
    loop.add_argument(
        "--checkpoint-every",
        type=int,
        metavar="N",
        help="epochs between two checkpoints (default: about every 20 seconds)",
    )
    loop.add_argument("--keep", type=int, metavar="N", help="checkpoints that are kept (default: 2)")
    loop.add_argument("--seed", type=int, metavar="N", help="of everything that is drawn (default: 0)")
    how = parser.add_argument_group("how")
    how.add_argument(
        "--recipe",
        metavar="NAME",
        help="auto (the exact rungs, proven on this graph), baseline, or a row of bench --ladder full (default: auto)",
    )
    how.add_argument(
        "--memory",
        metavar="SIZE",
        help="what training may take at its peak beside the graph, such as 2GiB; recipes that need less follow (default: no limit)",
    )
    how.add_argument(
        "--batch-size", type=int, metavar="N", help="seed nodes a mini-batch, where it samples (default: 128)"
    )
    how.add_argument(
        "--num-neighbors", type=_fan_outs, metavar="N,N", help="sampled neighbors a hop, -1 for all"
    )
    how.add_argument("--device", choices=("auto", "cpu", "cuda"), help="where to train (default: auto)")
    how.add_argument("--threads", type=int, metavar="N", help="threads of PyTorch (default: its own choice)")
    how.add_argument(
        "--prove-budget",
        type=float,
        dest="prove_budget_s",
        metavar="SECONDS",
        help="what the proof of exact rungs may take; 0 skips it (default: 10)",
    )
    output = parser.add_argument_group("output")
    output.add_argument("--tensorboard", action="store_true", help="write TensorBoard's files as well")
    output.add_argument(
        "--class-names", type=_names, metavar="A,B", help="names of the classes, for the predictions"
    )
    output.add_argument("--json", action="store_true", help="print the outcome as JSON on standard output")
    output.add_argument("--quiet", action="store_true", help="show no progress")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Runs the subcommand; returns the exit code: 0, or 128 and the signal's number where one cut it short."""
    from fasthop.noise import silence

    args.interrupted = (
        "Stopped before the training began, or by a second signal; what was kept goes on with --resume."
    )
    options = {
        name: value
        for name, value in vars(args).items()
        if name not in ("run", "json", "quiet", "interrupted")
    }
    silence()
    from fasthop.search.training import train
    from fasthop.train.progress import training_progress

    options.setdefault("out", None)
    if options.get("plan") is None and not options.get("resume"):  # as fasthop bench has them
        options.setdefault("model", "gcn")
        options.setdefault("data", "cora")
    if options["out"] is None and not options.get("resume"):
        options["out"] = _new_folder()
    trained = train(progress=training_progress(quiet=getattr(args, "quiet", False)), **options)
    if getattr(args, "json", False):
        sys.stdout.write(json.dumps(trained.to_json(), indent=2, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(f"{trained}\n")
    return exit_code(trained)


def exit_code(trained: Trained) -> int:
    """0 where it is finished; else 128 and the signal's number: 130 after Ctrl-C, 143 after SIGTERM."""
    return 0 if trained.signal is None else 128 + trained.signal


def _new_folder() -> str:
    import os
    from datetime import datetime

    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    folder, place = os.path.join("runs", f"{stamp}-train"), 1
    while os.path.exists(folder if place == 1 else f"{folder}-{place}"):
        place += 1
    return folder if place == 1 else f"{folder}-{place}"


def _split(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _fan_outs(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of whole numbers with commas between, such as 10,5"
        ) from None
