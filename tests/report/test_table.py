"""The table: honest, whole at every width, plain where it is piped, and escaped."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from rich.cells import cell_len

from fasthop.report.rows import COLUMNS, header_line, rows
from fasthop.report.table import broken_name, table_html, table_markdown, table_text
from tests.report import results

KINDS = sorted(results.ALL)
LANGS = ("en", "zh")


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [40, 80, 100, 120, 200])
def test_no_line_is_wider_than_the_terminal(kind, lang, width):
    text = table_text(results.ALL[kind](), lang, width)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    assert "\x1b" not in text
    assert not any(line != line.rstrip() for line in text.splitlines())


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [80, 120, 200])
def test_no_figure_is_cut_or_broken(kind, lang, width):
    result = results.ALL[kind]()
    text = table_text(result, lang, width)
    assert "…" not in text
    for row in rows(result, lang):
        for column in ("time", "first", "compile", "memory", "accuracy", "to_accuracy"):
            for part in row.cells[column]:
                assert part in text
        if row.change != "same":
            for part in row.cells["ratio"]:
                assert part in text


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("width", [80, 120, 200])
def test_columns_stand_below_each_other(lang, width):
    lines = table_text(results.normal(), lang, width).splitlines()
    ends = set()
    for value in ("5.41", "9.87", "17.2", "5.38"):
        line = next(line for line in lines if re.search(rf"(?<![\d.]){re.escape(value)}(?!\d)", line))
        ends.add(cell_len(line[: line.index(value)]) + len(value))
    assert len(ends) == 1


def test_colours_only_where_asked_for():
    assert "\x1b[" in table_text(results.normal(), "en", 120, color=True)
    assert "\x1b" not in table_text(results.normal(), "en", 120, color=False)


def test_a_slower_recipe_is_shown_slower():
    row = next(row for row in rows(results.normal(), "en") if row.cells["recipe"][0] == "sample+amp")
    assert row.change == "slower"
    assert row.cells["ratio"] == ("0.314", "0.308–0.320")


def test_an_interval_that_holds_one_is_no_change():
    row = next(row for row in rows(results.normal(), "en") if row.cells["recipe"][0] == "compile")
    assert row.one_line("ratio") == "no significant change"
    assert "1.01" not in table_text(results.normal(), "en", 200)


def test_a_skipped_recipe_stands_below_with_its_reason():
    text = table_text(results.normal(), "en", 200)
    assert "compile+sample+amp was not measured: there is no C++ compiler on this machine" in text
    assert "没有 C++ 编译器" in table_text(results.normal(), "zh", 200)
    assert "compile+sample+amp" not in [row.cells["recipe"][0] for row in rows(results.normal(), "en")]


def test_what_was_cut_short_says_so():
    assert "cut short" in table_text(results.unfinished(), "en", 120)
    assert "cut short" not in table_text(results.normal(), "en", 120)


def test_different_steps_are_pointed_out():
    assert "different numbers of steps" in table_text(results.normal(), "en", 200)
    same = results.result(results.BASELINE, results.COMPILE)
    assert "different numbers of steps" not in table_text(same, "en", 200)
    assert "2 steps" in table_text(results.normal(), "en", 80)


def test_without_a_baseline_nothing_is_compared():
    text = table_text(results.no_baseline(), "en", 120)
    assert "nothing can be compared" in text
    assert "out of memory" in text


def test_one_seed_has_no_spread():
    one = replace(results.BASELINE, accuracy=results.accuracy(80.0, 0.0, 1))
    assert rows(results.result(one), "en")[0].one_line("accuracy") == "80.0"


def test_broken_name():
    assert broken_name("compile+sample+amp") == ["compile+", "sample+amp"]
    assert broken_name("compile:reduce-overhead") == ["compile:", "reduce-", "overhead"]
    assert broken_name("baseline") == ["baseline"]
    assert "".join(broken_name("compile:max-autotune")) == "compile:max-autotune"


def test_markdown_is_a_table_and_escapes():
    odd = replace(results.BASELINE, name="a|b *c* <script>")
    lines = table_markdown(results.result(odd, results.SAMPLE), "en").splitlines()
    assert len(lines) == 4
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {len(COLUMNS) + 1}
    assert "<script>" not in lines[2].replace(r"\<", "")


def test_html_escapes():
    odd = replace(results.BASELINE, name="<script>alert(1)</script>")
    html = table_html(results.result(odd), "zh")
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert html.count("<tr>") == 2


def test_headers_on_one_line():
    assert header_line("time", "en") == "time / epoch (ms)"
    assert header_line("ratio", "zh") == "相对基线速度 (×)"
