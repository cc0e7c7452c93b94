"""`fasthop bench`: measures a ladder, prints the report and saves it in a run folder."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from fasthop.cli.model_options import add_model_options

if TYPE_CHECKING:
    from fasthop.report.report import Report


def add_parser(subparsers: Any) -> None:
    """Adds the subcommand. Defaults are shown in the help; an option that is not given is not passed on,
    so that `fasthop.bench` alone decides what the defaults are (a test holds the help to them)."""
    parser = subparsers.add_parser(
        "bench",
        help="measure every recipe of a ladder on a model, a graph and this machine",
        description="Measures every recipe of a ladder on a model, a graph and this machine, prints a table with an "
        "interpretation, and saves result.json, summary.md, ladder.png, ladder.svg and report.html, a page with charts, in a run folder.",
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    graph = parser.add_argument_group("graph")
    graph.add_argument(
        "--data",
        metavar="NAME",
        help="cora (bundled), planetoid:Cora, ogb:ogbn-arxiv, pyg:<ClassName>, "
        "synthetic:arxiv, or the path of a saved Data (.pt), an .npz or an edge list (default: cora)",
    )
    graph.add_argument(
        "--nodes", metavar="FILE", help="table of the nodes, where --data is an edge list (csv, tsv, parquet)"
    )
    graph.add_argument(
        "--undirected", action="store_true", help="add the reverse of each edge that lacks one"
    )
    graph.add_argument(
        "--root", metavar="DIR", help="folder that holds the data sets' files, tried before a download"
    )
    graph.add_argument(
        "--split",
        type=_split,
        metavar="N",
        help="which column of masks with several splits; or random, or percentages such as 60/20/20, to draw one",
    )
    graph.add_argument("--transform", choices=("normalize_features",), help="applied to the graph once")
    graph.add_argument(
        "--unsafe-pickle",
        action="store_true",
        help="load a whole pickled object from the --data file; it may run any code, so only a file you trust",
    )
    model = parser.add_argument_group("model and training")
    add_model_options(model)
    model.add_argument("--epochs", type=int, metavar="N", help="epochs of the accuracy runs (default: 200)")
    model.add_argument(
        "--seeds", type=int, metavar="N", help="seeds of the accuracy runs; 0 leaves them out (default: 5)"
    )
    model.add_argument(
        "--num-neighbors",
        type=_fan_outs,
        metavar="N,N",
        help="sampled neighbors a hop, -1 for all (default: 10, then 5 for every further layer)",
    )
    model.add_argument("--batch-size", type=int, metavar="N", help="seed nodes a mini-batch (default: 128)")
    how = parser.add_argument_group("measuring")
    how.add_argument(
        "--ladder", choices=("tutorial", "exact", "full"), help="which recipes (default: tutorial)"
    )
    how.add_argument("--rounds", type=int, metavar="N", help="how often the recipes take turns (default: 10)")
    how.add_argument("--device", choices=("auto", "cpu", "cuda"), help="where to train (default: auto)")
    how.add_argument(
        "--threads", type=int, metavar="N", help="threads of PyTorch (default: PyTorch's own choice)"
    )
    how.add_argument("--deterministic", action="store_true", help="use deterministic algorithms only")
    how.add_argument(
        "--time-limit",
        type=float,
        dest="time_limit_s",
        metavar="SECONDS",
        help="limit of one step of a recipe: compilation, a round, a seed (default: 600)",
    )
    how.add_argument(
        "--prove-budget",
        type=float,
        dest="prove_budget_s",
        metavar="SECONDS",
        help="what the proof of an exact recipe may take; 0 skips it (default: 10)",
    )
    output = parser.add_argument_group("output")
    output.add_argument(
        "--out", metavar="DIR", help="run folder, new or empty (default: runs/<date-time>-<data>-<model>)"
    )
    output.add_argument("--lang", choices=("en", "zh"), help="language of the report (default: en)")
    output.add_argument(
        "--json",
        action="store_true",
        help="print result.json's text on standard output, and nothing else there",
    )
    output.add_argument("--open", action="store_true", help="show the page in the web browser")
    output.add_argument("--quiet", action="store_true", help="show no progress")
    parser.set_defaults(run=run)


def _split(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


def _fan_outs(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of whole numbers with commas between, such as 10,5"
        ) from None


def run(args: argparse.Namespace) -> int:
    """Runs the subcommand; returns the exit code."""
    from fasthop.report.bench import bench
    from fasthop.report.files import CannotWrite
    from fasthop.report.progress import progress_for
    from fasthop.report.words import phrase

    options = {
        name: value for name, value in vars(args).items() if name not in ("run", "json", "quiet", "open")
    }
    as_json, quiet = getattr(args, "json", False), getattr(args, "quiet", False)
    lang = options.get("lang", "en")
    args.interrupted = phrase("cli.interrupted_empty", lang)
    try:
        report = bench(progress=progress_for(lang, quiet=quiet), **options)
    except CannotWrite as error:
        if error.report is None:
            raise
        _print(error.report, as_json)
        _say(f"fasthop: {error}", quiet=False)
        return 1
    _print(report, as_json)
    _say(phrase("progress.saved", lang, folder=report.folder), quiet=quiet)
    if report.page_path is None:
        _say(phrase("page.missing", lang, folder=report.folder), quiet=quiet)
    else:
        _say(phrase("page.saved", lang, path=report.page_path), quiet=quiet)
        if getattr(args, "open", False):
            report.open()
    return exit_code(report, lang)


def _print(report: Report, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(report.result.to_json() + "\n")
    else:
        report.show()


def exit_code(report: Report, lang: str) -> int:
    """130 where the run was cut short, 1 where the baseline was not measured, else 0; says which."""
    from fasthop.report.words import phrase

    result = report.result
    if not result.finished:
        _say(phrase("cli.interrupted", lang, folder=report.folder), quiet=False)
        return 130
    if result.baseline.time_per_epoch_ms is None:
        reason = result.baseline.reason(lang) or phrase("time.none", lang)
        _say(phrase("cli.no_baseline", lang, reason=reason), quiet=False)
        return 1
    return 0


def _say(line: str, *, quiet: bool) -> None:
    if not quiet:
        sys.stderr.write(f"{line}\n")
