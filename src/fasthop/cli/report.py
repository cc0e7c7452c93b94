"""`fasthop report RUN`: prints a run's report again, in either language, and draws its charts again."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fasthop.report.report import Report


def add_parser(subparsers: Any) -> None:
    """Adds the subcommand."""
    parser = subparsers.add_parser(
        "report",
        help="print the report of an earlier run again",
        description="Prints the table of an earlier run again, with what decides about each recipe; --full says all of it.",
        allow_abbrev=False,
    )
    parser.add_argument("source", metavar="RUN", help="a run folder, or its result.json")
    parser.add_argument("--lang", choices=("en", "zh"), default="en", help="language (default: en)")
    parser.add_argument(
        "--full",
        action="store_true",
        help="with the whole task, what the ladder shows and a paragraph a recipe",
    )
    parser.add_argument("--json", action="store_true", help="print result.json's text, and nothing else")
    parser.add_argument(
        "--redraw",
        action="store_true",
        help="write ladder.png, ladder.svg, summary.md and report.html into the folder again",
    )
    parser.add_argument("--open", action="store_true", help="show the page in the web browser")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Runs the subcommand; returns the exit code."""
    from fasthop.report.report import Report
    from fasthop.report.words import phrase

    report = Report.load(args.source, lang=args.lang)
    if args.redraw or not args.json:
        from fasthop.report.rung_words import rung_words

        report = Report(report.result, report.folder, lang=args.lang, rung_words=rung_words())
    if args.redraw and report.folder is not None:
        folder = report.folder
        paths = [report.write_summary(folder), *report.draw(folder), report.write_page(folder)]
        names = [path.name for path in paths if path is not None]
        sys.stderr.write(phrase("cli.drawn", args.lang, files=", ".join(names)) + "\n")
    if args.open:
        show_page(report, args.lang)
    if args.json:
        sys.stdout.write(report.result.to_json() + "\n")
    else:
        report.show(full=args.full)
        if not args.full:
            sys.stderr.write(phrase("brief.in_full", args.lang, folder=args.source) + "\n")
    return 0


def show_page(report: Report, lang: str) -> None:
    """Opens the page in the browser; says why where there is no page, or where it lies."""
    from fasthop.report.words import phrase

    if report.page_path is None:
        sys.stderr.write(phrase("page.missing", lang, folder=report.folder) + "\n")
    elif not report.open():
        sys.stderr.write(phrase("page.saved", lang, path=report.page_path) + "\n")
