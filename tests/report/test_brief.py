"""The terminal's thirty lines, and that no name from a file does anything to the terminal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len

from fasthop.report.explain import best_sentences, brief
from fasthop.report.report import Report
from fasthop.report.summary import LINES, brief_text, summary_markdown, summary_text
from fasthop.report.table import table_html
from tests.report import page_results, results

CORA = Path(__file__).parents[2] / "docs" / "cora"


def tutorial():
    """Five recipes with stages: one slower for each of three reasons, one skipped."""
    stages = {
        "sample": {"sample": 1.1, "gather": 2.2, **page_results.STAGES, "epoch": 8.9},
        "sample+amp": {"sample": 1.2, "gather": 2.3, **page_results.STAGES, "forward.transform": 0.9, "epoch": 10.1},
        "compile": {"forward": 3.0, "forward.fused": 2.2, "forward.transform": 0.8, "backward": 2.9, "epoch": 6.4},
    }  # fmt: skip
    made = [
        replace(run, stages_ms=stages.get(run.name), round_times_ms=(times,) * 8)
        for run, times in zip(results.normal().runs[1:], (9.87, 17.2, 5.38, 1.0), strict=True)
    ]
    return results.result(page_results.full().runs[0], *made, machine={**results.MACHINE, "peaks": page_results.PEAKS})  # fmt: skip


RESULTS = {
    "cora": lambda: Report.load(CORA).result,
    "tutorial": tutorial,
    "normal": results.normal,
    "full": page_results.full,
    "cuda": results.cuda,
}


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("kind", sorted(RESULTS))
def test_five_recipes_fit_into_thirty_lines_of_a_hundred_columns(kind, lang):
    result = RESULTS[kind]()
    text = brief_text(result, lang, width=100)
    lines = text.rstrip("\n").split("\n")
    assert len(lines) <= LINES == 30
    assert max(map(cell_len, lines)) <= 100
    joined = "".join(text.split())
    for name, told in brief(result, lang):  # each recipe's chief sentence is whole
        assert "".join(f"{name}{'：' if lang == 'zh' else ':'}{told[0]}".split()) in joined
    assert "".join(best_sentences(result, lang)[0].split()) in joined


def test_the_full_text_has_what_the_brief_one_leaves_out():
    report = Report.load(CORA)
    brief_one, full = report.text("en", 100), report.text("en", 100, full=True)
    for part in ("seed 0", "What the ladder shows", "Peak memory:", "The whole process peaked"):
        assert part in full
        assert part not in brief_one
    assert len(full.splitlines()) > LINES


def test_on_a_narrow_terminal_nothing_is_cut():
    text = brief_text(tutorial(), "en", width=40)
    assert max(map(len, text.splitlines())) <= 40
    assert "compile+sample+amp" in "".join(text.split())


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_no_escape_code_of_a_file_reaches_the_terminal(lang):
    result = page_results.hostile()
    report = Report(result)
    texts = (
        brief_text(result, lang, 100), summary_text(result, lang, None, 100), report.table(lang, 100),
        summary_markdown(result, lang), table_html(result, lang),
    )  # fmt: skip
    for text in texts:
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "\N{REPLACEMENT CHARACTER}[31m" in text.replace("\\", "")
