"""Keep the documents true: write what the commands print, and the figures of the committed run, into them.

    python scripts/refresh_docs.py               refresh every marked place and docs/cora's summaries and charts
    python scripts/refresh_docs.py --run FOLDER  first take FOLDER, a fresh run, as docs/cora; record anew
    python scripts/refresh_docs.py --record      record the examples' timed output anew as well

What a document may hold, in HTML comments that a reader does not see:

    <!-- output of: COMMAND -->           the fenced block below is what the command prints
    <!-- recorded output of: COMMAND -->  the same for output with times in it, which differs each time
    <!-- said of: RECIPE -->...<!-- end -->  the report's sentences on one recipe; `best` for the best, `whole` for the ladder
    <!--v:RECIPE.FIGURE-->...<!--/v-->    one figure of the run, see `figures`

`tests/test_docs.py` checks that refreshing changes nothing. The language is the document's: zh where its name says so.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

from fasthop.cli.main import main as fasthop_command
from fasthop.measure.run import Run
from fasthop.report.chart import chart_bytes
from fasthop.report.circumstances import machine_line
from fasthop.report.explain import best, explanations, interpretation
from fasthop.report.figures import fixed, measured, number, seconds, size
from fasthop.report.files import write_file
from fasthop.report.report import Report
from fasthop.report.rows import change, row
from fasthop.report.rung_words import rung_words

ROOT = Path(__file__).resolve().parents[1]
RUN = Path("docs/cora")
DOCUMENTS = (
    "README.md",
    "README.zh-CN.md",
    "CONTRIBUTING.md",
    "docs/tutorial.md",
    "docs/tutorial.zh.md",
)
# What a code block shows on GitHub without a scroll bar.
COLUMNS = 100

BLOCK = re.compile(
    r"<!-- (?P<kind>(?:recorded )?output of): (?P<command>[^;\n]*?) -->\n"
    r"```text\n(?P<body>.*?)```\n",
    re.DOTALL,
)
SAID = re.compile(r"<!-- said of: (?P<name>\S+) -->\n(?P<body>.*?)<!-- end -->\n", re.DOTALL)
VALUE = re.compile(r"<!--v:(?P<key>[^>]+?)-->(?P<body>.*?)<!--/v-->", re.DOTALL)

CHANGES = {
    "en": {
        "faster": "faster",
        "slower": "slower",
        "same": "neither faster nor slower beyond the noise",
        "alone": "not compared",
    },
    "zh": {"faster": "更快", "slower": "更慢", "same": "快慢无显著差别", "alone": "未比较"},
}


def language(document: str) -> str:
    """The language of a document, by its name."""
    return "zh" if ".zh" in document else "en"


def load(lang: str) -> Report:
    """The report of the committed run."""
    return Report.load(ROOT / RUN, lang=lang, rung_words=rung_words())


def refreshed(text: str, lang: str, *, record: bool = False) -> str:
    """The text of a document with every marked place as it is now.

    record: run the commands of recorded blocks too. Raises KeyError for a figure or recipe that is not there.
    """
    report = load(lang)
    values = figures(report, lang)
    said = dict(explanations(report.result, lang)) | {"best": best(report.result, lang)}
    said["whole"] = "\n>\n> ".join(interpretation(report.result, lang))

    def block(match: re.Match[str]) -> str:
        if match["kind"] != "output of" and not record:
            return match[0]
        printed = output(match["command"])
        start = match.start("body") - match.start()
        return f"{match[0][:start]}{printed}```\n"

    text = BLOCK.sub(block, text)
    text = SAID.sub(
        lambda match: f"<!-- said of: {match['name']} -->\n> {said[match['name']]}\n<!-- end -->\n", text
    )
    return VALUE.sub(lambda match: f"<!--v:{match['key']}-->{values[match['key']]()}<!--/v-->", text)


def output(command: str) -> str:
    """What a command prints on standard output, run in the repository's root at a fixed width.

    Raises CalledProcessError where it fails.
    """
    program, *arguments = shlex.split(command)
    if program == "fasthop":
        return _fasthop_output(arguments)
    environment = os.environ | {"COLUMNS": str(COLUMNS)}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


def _fasthop_output(arguments: list[str]) -> str:
    """In this process, because a fresh one spends seconds on imports."""
    before, folder = os.environ.get("COLUMNS"), Path.cwd()
    os.environ["COLUMNS"] = str(COLUMNS)
    os.chdir(ROOT)
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            code = fasthop_command(arguments)
    finally:
        os.chdir(folder)
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
    if code:
        raise subprocess.CalledProcessError(code, ["fasthop", *arguments])
    return printed.getvalue()


def figures(report: Report, lang: str) -> dict[str, Callable[[], str]]:
    """Every figure that prose may quote, by its key, as the report writes it."""
    result = report.result
    found: dict[str, Callable[[], str]] = {
        "target": lambda: fixed(result.target_accuracy),
        "machine": lambda: machine_line(result, lang),
        "created": lambda: result.created[:10],
        **{f"task.{key}": lambda value=value: _plain(value) for key, value in result.task.items()},
    }
    for run in result.runs:
        for key, value in _figures_of(run, result.baseline, lang).items():
            found[f"{run.name}.{key}"] = value
    return found


def _figures_of(run: Run, baseline: Run, lang: str) -> dict[str, Callable[[], str]]:
    cells = row(run, baseline, lang)
    time, ratio = measured(run.time_per_epoch_ms), measured(run.ratio_to_baseline)
    return {
        "time": lambda: number(time.median if time else None),
        "step_time": lambda: number(time.median / run.num_steps_per_epoch if time and run.num_steps_per_epoch else None),
        "steps": lambda: cells.one_line("steps"),
        "speed": lambda: number(ratio.median if ratio else None),
        "change": lambda: CHANGES[lang][change(run, baseline)],
        "first_epoch": lambda: seconds(run.first_epoch_s),
        "compile": lambda: seconds(run.compile_s),
        "prepare": lambda: seconds(run.prepare_s),
        "breaks": lambda: _plain(run.num_graph_breaks),
        "recompiles": lambda: _plain(run.num_recompiles),
        "memory": lambda: size(run.peak_bytes),
        "process": lambda: size(run.process_peak_bytes),
        "accuracy": lambda: cells.one_line("accuracy"),
        "to_accuracy": lambda: seconds(run.time_to_accuracy_s),
    }  # fmt: skip


def _plain(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else "–" if value is None else str(value)


def take_run(folder: Path) -> None:
    """Makes a run the committed one: its result.json, and everything else drawn and written from that.

    The committed run itself is drawn and written anew.
    """
    report = Report.load(folder, rung_words=rung_words())
    place = ROOT / RUN
    report.save(place, "en", page=False)  # 1 MB of it is the library of charts
    write_file(place / "ladder.zh.png", chart_bytes(report.result, "zh")["png"])
    write_file(place / "summary.zh.md", report.markdown("zh", "ladder.zh.png").encode("utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(description="Refreshes the marked places of the documents.")
    parser.add_argument("--run", type=Path, metavar="FOLDER", help="a fresh run to put in docs/cora's place")
    parser.add_argument("--record", action="store_true", help="run the timed examples again as well")
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        take_run(options.run if options.run is not None else ROOT / RUN)
        for name in DOCUMENTS:
            path = ROOT / name
            before = path.read_text(encoding="utf-8")
            after = refreshed(before, language(name), record=options.record or options.run is not None)
            if after != before:
                write_file(path, after.encode("utf-8"))
                sys.stdout.write(f"refreshed {name}\n")


if __name__ == "__main__":
    main()
