"""summary.md and the text of the terminal: complete, escaped, and folded by width."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from fasthop.errors import InvalidConfig
from fasthop.report.circumstances import machine_line, task_line, task_notes
from fasthop.report.explain import interpretation
from fasthop.report.summary import brief_text, fold, summary_markdown, summary_text
from tests.report import results


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("kind", sorted(results.ALL))
def test_text_fits_its_width(kind, lang):
    for made in (summary_text, brief_text):
        text = made(results.ALL[kind](), lang, width=80)
        assert max(cell_len(line) for line in text.splitlines()) <= 80
        assert "\x1b" not in text


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("kind", sorted(results.ALL))
def test_markdown_has_its_parts(kind, lang):
    result = results.ALL[kind]()
    text = summary_markdown(result, lang)
    assert text.startswith("# GCN")
    assert text.count("\n## ") == 3 + bool(interpretation(result, lang))
    assert text.count("\n### ") == len(result.runs)
    assert "(ladder.png)" in text
    assert "(ladder.png)" not in summary_markdown(result, lang, chart=None)
    assert "\n\n\n" not in text


def test_markdown_escapes_names_from_outside():
    result = results.result(results.BASELINE, task={**results.TASK, "data": "my_<b>graph</b>"})
    text = summary_markdown(result, "en")
    assert "<b>" not in text.replace(r"\<", "")


def test_task_and_machine_lines():
    result = results.normal()
    line = task_line(result, "en")
    assert line.startswith("cora, GCN, 2,708 nodes, 10,556 directed edges")
    assert "num_neighbors 10,5" in line
    assert "notes" not in line
    assert task_line(replace(result, task={**results.TASK, "new_figure": 3})).endswith("new_figure 3")
    assert machine_line(result, "en").startswith("Example CPU 9000, 2 physical cores")
    assert "torch 2.13.0" in machine_line(result, "zh")
    assert "Example GPU 80.0 GB CUDA 12.8" in machine_line(results.cuda(), "en")
    assert task_notes(result, "zh") == ["合并了 2 条平行边。"]


def test_lines_bear_an_empty_machine_and_task():
    result = results.result(results.BASELINE, machine={}, task={})
    assert "?" in summary_text(result, "en", width=80)
    assert machine_line(result, "en") == ""


def test_an_unknown_language_is_refused():
    with pytest.raises(InvalidConfig, match="'de'"):
        summary_markdown(results.normal(), "de")


@given(st.text(alphabet="ab c,。（中文）9.%", max_size=200), st.integers(10, 60))
def test_fold_keeps_every_sign_and_the_width(text, width):
    folded = fold(text, width)
    assert "".join(folded.split()) == "".join(text.split())
    longest = max((cell_len(word) for word in text.split()), default=0)
    if longest <= width:
        assert max(cell_len(line) for line in folded.splitlines() or [""]) <= width
