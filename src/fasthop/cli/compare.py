"""`fasthop compare A B`: what changed between two runs, told apart from noise, with an exit code for CI."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from typing import Any


def add_parser(subparsers: Any) -> None:
    """Adds the subcommand."""
    parser = subparsers.add_parser(
        "compare",
        help="compare two runs of the same task on the same machine",
        description="Compares two runs recipe by recipe and says which changes are beyond the noise. Exits with 0 where "
        "nothing got worse beyond the limit of --fail-above (or without it), with 1 where something did, and with 2 where "
        "the runs cannot be compared.",
        allow_abbrev=False,
    )
    parser.add_argument("before", metavar="A", help="the earlier run: its folder, or its result.json")
    parser.add_argument("after", metavar="B", help="the later run: its folder, or its result.json")
    parser.add_argument(
        "--fail-above",
        type=_share,
        metavar="PERCENT",
        help="exit with 1 where a recipe's time or memory grew by more than this, such as 5%%, and beyond the noise, "
        "where its accuracy fell beyond what the seeds leave open, or where it is no longer measured",
    )
    parser.add_argument("--force", action="store_true", help="compare although machine or task differ")
    parser.add_argument("--json", action="store_true", help="print JSON, and nothing else")
    parser.add_argument("--lang", choices=("en", "zh"), default="en", help="language (default: en)")
    parser.set_defaults(run=run)


def _share(text: str) -> float:
    try:
        value = float(text.strip().removesuffix("%"))
    except ValueError:
        value = math.nan
    if not 0.0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage of at least 0, such as 5%")
    return value / 100


def run(args: argparse.Namespace) -> int:
    """Runs the subcommand; returns the exit code."""
    from fasthop.measure.comparison import change_tree, compare_results
    from fasthop.report.comparison_text import comparison_text
    from fasthop.report.report import Report

    before, after = (Report.load(source, lang=args.lang).result for source in (args.before, args.after))
    change = compare_results(before, after, force=args.force)
    limit: float | None = args.fail_above
    worse = () if limit is None else change.regressions(limit)
    if args.json:
        tree = {
            "before": args.before,
            "after": args.after,
            "is_changed": change.is_changed,
            "fail_above_percent": None if limit is None else 100 * limit,
            "regressions": [entry.name for entry in worse],
            "recipes": [change_tree(entry) for entry in change.changes],
            "only_before": list(change.only_before),
            "only_after": list(change.only_after),
            "versions": {name: list(pair) for name, pair in change.versions.items()},
            "differences": list(change.forced),
        }
        sys.stdout.write(json.dumps(tree, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
    else:
        color = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        sys.stdout.write(
            comparison_text(change, args.before, args.after, lang=args.lang, limit=limit, color=color)
        )
    return 1 if worse else 0
