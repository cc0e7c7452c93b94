"""The charts: honest bars, whole text in both languages, and nothing global changed."""

from __future__ import annotations

import io
import logging
import re
import warnings
from dataclasses import replace

import matplotlib as mpl
import pytest
from matplotlib.ft2font import FT2Font

from fasthop.report.chart import chart_bytes, draw, memory_bars, time_bars
from fasthop.report.typeface import FONT_FILE, drawable
from fasthop.report.words import LANGUAGES
from tests.report import results


@pytest.fixture(scope="module")
def figures():
    return {lang: draw(results.normal(), lang) for lang in ("en", "zh")}


def texts(figure):
    found = [text.get_text() for text in figure.texts]
    for axes in figure.axes:
        found += [text.get_text() for text in axes.texts]
        found += [axes.get_title("left"), *(label.get_text() for label in axes.get_xticklabels())]
    for legend in figure.legends:
        found += [text.get_text() for text in legend.get_texts()]
    return found


def test_both_panels_are_logarithmic_with_a_bar_a_measured_recipe(figures):
    result = results.normal()
    time, memory = figures["en"].axes
    assert (time.get_xscale(), memory.get_xscale()) == ("log", "log")
    measured = [run for run in result.runs if run.time_per_epoch_ms]
    for axes, wanted in (
        (time, [run.time_per_epoch_ms.median for run in measured]),
        (memory, [run.peak_bytes / 1e6 for run in measured]),
    ):
        ends = [bar.get_x() + bar.get_width() for bar in axes.patches]
        assert ends == pytest.approx(wanted)
        low, high = axes.get_xlim()
        assert all(low < end < high for end in ends)


def test_intervals_are_drawn(figures):
    time, memory = figures["en"].axes
    assert len([c for c in time.containers if type(c).__name__ == "ErrorbarContainer"]) == 4
    assert not [c for c in memory.containers if type(c).__name__ == "ErrorbarContainer"]


def test_labels_say_values_ratios_and_what_is_missing(figures):
    found = texts(figures["en"])
    for text in ("5.41", "9.87  (0.548×)", "5.38  (n.s.)", "12.3 MB", "2 steps / epoch", "GCN on cora"):
        assert text in found
    assert [text.strip() for text in found].count("not measured") == 2
    assert "compile+sample+amp" in found


def test_colours_say_better_and_worse():
    assert [bar.color for bar in time_bars(results.with_faster(), "en")] == [
        "baseline",
        "better",
        "worse",
        "same",
    ]
    assert [bar.color for bar in memory_bars(results.with_faster(), "en")] == [
        "baseline",
        "better",
        "better",
        "same",
    ]
    assert [bar.value for bar in time_bars(results.no_baseline(), "en")] == [None, 9.87]


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("kind", sorted(results.ALL))
def test_every_shape_draws_without_a_warning(kind, lang, caplog):
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING, logger="matplotlib"):
        warnings.simplefilter("error")
        files = chart_bytes(results.ALL[kind](), lang)
    assert not caplog.records
    assert files["png"].startswith(b"\x89PNG")
    svg = files["svg"].decode("utf-8")
    assert "<svg" in svg
    assert "<text" not in svg  # text is paths, so that it needs no font


def test_no_text_leaves_the_picture():
    for kind in ("normal", "large", "no_baseline"):
        for lang in ("en", "zh"):
            figure = draw(results.ALL[kind](), lang)
            renderer = figure.canvas.get_renderer()
            width, height = figure.canvas.get_width_height()
            shown = [t for axes in figure.axes for t in axes.texts] + list(figure.texts)
            for text in shown:
                box = text.get_window_extent(renderer)
                assert box.x0 >= -1, text.get_text()
                assert box.x1 <= width + 1, text.get_text()
                assert -1 <= box.y0 <= box.y1 <= height + 1, text.get_text()


def test_recipes_all_skipped_or_empty_memory_still_draw():
    lost = results.result(replace(results.SKIPPED, name="baseline"))
    assert chart_bytes(lost)["png"]
    zero = results.result(replace(results.BASELINE, peak_bytes=0))
    assert "0 B" in [text.strip() for text in texts(draw(zero))]


def test_the_same_result_gives_the_same_files():
    assert chart_bytes(results.normal(), "zh") == chart_bytes(results.normal(), "zh")


def test_nothing_global_changes_and_a_users_style_does_not_reach_it():
    plain = chart_bytes(results.normal())["png"]
    with mpl.rc_context(
        {"font.size": 30, "axes.facecolor": "black", "svg.fonttype": "none", "text.color": "red"}
    ):
        before = dict(mpl.rcParams)
        assert chart_bytes(results.normal())["png"] == plain
        assert dict(mpl.rcParams) == before


def test_every_chinese_character_of_the_charts_is_in_the_font():
    held = set(FT2Font(str(FONT_FILE)).get_charmap())
    needed = {sign for key, text in LANGUAGES["zh"].items() if key.startswith("chart.") for sign in text}
    missing = sorted(sign for sign in needed if ord(sign) not in held)
    assert not missing, "run scripts/make_font.py again"


def test_no_figure_of_a_chinese_chart_is_tofu(figures):
    held = set(FT2Font(str(FONT_FILE)).get_charmap())
    assert not {sign for text in texts(figures["zh"]) for sign in text if ord(sign) not in held} - {"\\"}


def test_the_font_is_renamed_and_licensed():
    font = FT2Font(str(FONT_FILE))
    assert font.family_name == "Fasthop Sans SC"
    assert "SIL OPEN FONT LICENSE Version 1.1" in (FONT_FILE.parent / "OFL.txt").read_text(encoding="utf-8")
    assert FONT_FILE.stat().st_size < 200_000


def test_what_cannot_be_drawn_becomes_a_question_mark():
    assert drawable("图\n龘\u0007 $x$ a") == r"图 ?? \$x\$ a"
    result = results.result(results.BASELINE, task={**results.TASK, "data": "我的龘图 $\\frac$"})
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw(result, "zh").savefig(buffer, format="png")
    assert re.match(rb"\x89PNG", buffer.getvalue())
