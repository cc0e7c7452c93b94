"""The page as a file: it holds the figures of result.json, is of one piece, and takes no text for markup."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from fasthop.cli.main import build_parser
from fasthop.errors import InvalidConfig
from fasthop.report.figures import number, seconds, size
from fasthop.report.page import library
from fasthop.report.page.curves_figure import MOST_DOTS, mean_curve, thinned
from fasthop.report.page.library import NoChartLibrary, chart_library
from fasthop.report.page.page import page_html
from fasthop.report.page.parts_figures import leaf_kinds, leaf_stages, stage_order
from fasthop.report.page.reproduce import command, installation
from fasthop.report.page.roofline_figure import point
from fasthop.report.page.sections import content
from fasthop.report.peaks import peaks_of
from fasthop.report.report import Report
from tests.report import page_results, results

PAGES = {**results.ALL, "full": page_results.full, "hostile": page_results.hostile}
VOID = {"meta", "input", "br", "img", "link"}


class Reader(HTMLParser):
    """Collects the elements, checks that they are nested, and that no id comes twice."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.texts.append(data)


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    ids = [attributes["id"] for _, attributes in reader.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    return reader


def island(text: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text)[1])


@pytest.mark.parametrize("kind", sorted(PAGES))
def test_it_is_one_well_formed_file_in_both_languages(kind):
    text = page_html(PAGES[kind](), "zh")
    reader = read(text)
    tags = [tag for tag, _ in reader.elements]
    assert tags.count("script") == 3
    assert not {"iframe", "link", "object", "base"} & set(tags)
    for tag, attributes in reader.elements:
        assert not [name for name in attributes if name.startswith("on")], tag
        assert "src" not in attributes
        assert not (attributes.get("href") or "#").startswith(("http", "//"))
    shown = {attributes["data-language"]: attributes for _, attributes in reader.elements if "data-language" in attributes}  # fmt: skip
    assert set(shown) == {"en", "zh"}
    assert "hidden" in shown["en"]
    assert "hidden" not in shown["zh"]


def test_names_of_a_file_stay_text():
    text = page_html(page_results.hostile(), "en")
    reader = read(text)
    assert not [tag for tag, attributes in reader.elements if "onmouseover" in attributes]
    own = text.replace(chart_library(), "")  # the library's own patterns hold some
    assert "\x1b" not in own
    assert r"\u001b" not in own
    assert "\u202e" not in own
    said = page_results.HOSTILE.replace("\x1b", "\N{REPLACEMENT CHARACTER}").replace(
        "\u202e", "\N{REPLACEMENT CHARACTER}"
    )
    assert any(said in part for part in reader.texts)
    names = {datum["recipe"] for datum in island(text)["figures"]["en-chart-time"]["datasets"]["bars"]}
    assert len(names) == 5  # equal names are told apart


def test_the_tables_hold_the_figures_of_the_result():
    result = page_results.full()
    page = content(result, "en", None)
    figures = {figure.key: figure for figure in page.figures}
    assert set(figures) == {"time", "to_accuracy", "memory", "curves", "stages", "kinds", "roofline"}
    for figure in figures.values():
        assert {len(row) for row in figure.rows} == {len(figure.head)}
    for run, time, memory, accuracy in zip(
        result.runs, figures["time"].rows, figures["memory"].rows, figures["to_accuracy"].rows, strict=True
    ):
        assert time[0] == memory[0] == run.name
        median = None if run.time_per_epoch_ms is None else run.time_per_epoch_ms.median
        assert time[1] == number(median)
        assert memory[1] == size(run.peak_bytes)
        assert accuracy[1] == seconds(run.time_to_accuracy_s)
    for run, datum in zip(result.runs, figures["time"].datasets["bars"], strict=True):
        interval = run.time_per_epoch_ms
        assert datum["value"] == (interval.median if interval else None)
        assert (number(interval.median) in datum["tip"]) if interval else datum["tip"] == ""
    assert page.missing == []


def test_what_is_missing_is_said_in_one_line():
    result = results.normal()
    text = page_html(result, "en")
    (line,) = re.findall(r'<p class="left-out">(Not in this result[^<]*)</p>', text)
    for words in (
        "Accuracy against time",
        "Where an epoch&#x27;s time goes",
        "Memory at the peak",
        "What was proven",
    ):
        assert words in line
    assert 'class="left-out">' not in page_html(page_results.full(), "en").partition('data-language="zh"')[0]


def test_stages_are_those_within_and_the_rest_is_other():
    run = page_results.full().runs[0]
    leaves = leaf_stages(run)
    assert sum(leaves.values()) == pytest.approx(5.6)
    assert leaves["forward.other"] == pytest.approx(0.2)
    assert leaves["other"] == pytest.approx(0.5)
    assert "forward" not in leaves
    assert leaf_stages(replace(run, stages_ms={"epoch": 3.0})) == {}
    assert leaf_stages(replace(run, stages_ms={"sample": "3", "step": 1.0, "gather": None})) == {"step": 1.0}


def test_kinds_of_memory_add_up_and_show_the_messages_apart():
    run = page_results.full().runs[0]
    kinds = leaf_kinds(run)
    assert sum(kinds.values()) == sum(value for key, value in page_results.KINDS.items() if "." not in key)
    assert kinds["activations"] == 1_400_000
    assert kinds["activations.messages"] == 700_000
    only = leaf_kinds(replace(run, memory_kinds={"temporaries": 5, "temporaries.messages": 5, "graph": 0}))
    assert only == {"temporaries.messages": 5}


def test_stages_stand_in_the_order_of_an_epoch():
    keys = ["step", "mine", "backward.aggregate", "forward.transform", "forward.aggregate", "sample"]
    assert stage_order(keys) == [
        "sample", "forward.transform", "forward.aggregate", "backward.aggregate", "step", "mine"
    ]  # fmt: skip


def test_a_curve_is_the_mean_over_seeds():
    run = replace(
        results.BASELINE, curve=(((1.0, 50.0), (2.0, 70.0)), ((3.0, 60.0), (4.0, 80.0), (5.0, 81.0)), ())
    )
    assert mean_curve(run) == [(2.0, 55.0), (3.0, 75.0)]
    points = [(float(place), 0.0) for place in range(100)]
    assert len(thinned(points)) == MOST_DOTS
    assert thinned(points)[0] == points[0]
    assert thinned(points)[-1] == points[-1]
    assert thinned(points[:5]) == points[:5]


def test_a_point_of_the_roofline_is_work_over_time():
    result = page_results.full()
    place = point(result.runs[0])
    assert place is not None
    assert place.intensity == pytest.approx(1.6e9 / 1.2e8)
    assert place.speed == pytest.approx(1.6e9 / 5.41e-3 / 1e9)
    assert peaks_of(result)["matmul_fp32_gflops"] == 141.0
    flat = replace(result, machine={**result.machine, "peaks": page_results.PEAKS["cpu"]})
    assert peaks_of(flat) == peaks_of(result)
    for broken in (None, 3, {"cpu": {"copy_gb_per_s": "fast"}}, {"copy_gb_per_s": {"median": None}}):
        assert peaks_of(replace(result, machine={**result.machine, "peaks": broken})) == {}


@pytest.mark.parametrize("kind", sorted(set(PAGES) - {"hostile"}))
def test_the_command_is_one_that_fasthop_takes(kind):
    words = shlex.split(command(PAGES[kind]()))
    assert words[:2] == ["fasthop", "bench"]
    options = build_parser().parse_args(words[1:])
    assert options.data == "cora"
    assert options.num_neighbors == (10, 5)
    assert "torch==2.13.0" in shlex.split(installation(PAGES[kind]()))


def test_a_hostile_name_stays_one_word_of_the_command():
    words = shlex.split(command(page_results.hostile()))
    assert words[words.index("--data") + 1].startswith('<script>alert("x")</script>')


def test_without_the_library_the_run_is_saved_all_the_same(tmp_path, monkeypatch):
    def missing():
        raise NoChartLibrary("vl-convert-python is not installed.")

    (tmp_path / "report.html").write_text("of an older run", encoding="utf-8")
    monkeypatch.setattr("fasthop.report.page.page.chart_library", missing)
    report = Report(results.normal())
    report.save(tmp_path)
    assert report.page_path is None
    assert not (tmp_path / "report.html").exists()
    assert (tmp_path / "ladder.svg").exists()
    assert not report.open()


def test_a_library_that_is_damaged_in_the_cache_is_made_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(library, "cache_dir", lambda _: tmp_path)
    made = []
    monkeypatch.setattr(library, "_bundle", lambda: made.append(1) or "window.vegaEmbed = 1;")
    fresh = library.chart_library.__wrapped__
    assert fresh() == fresh() == "window.vegaEmbed = 1;"
    assert len(made) == 1
    (path,) = tmp_path.iterdir()
    path.write_text(path.read_text(encoding="utf-8") + "evil()", encoding="utf-8")
    assert fresh() == "window.vegaEmbed = 1;"
    assert len(made) == 2


def test_the_library_cannot_end_its_element():
    text = chart_library()
    assert "</script" not in text.lower()
    assert "<!--" not in text
    assert "window.vegaEmbed=" in text


def test_the_notebook_shows_chart_table_and_page(tmp_path):
    report = Report(page_results.full(), lang="zh")
    shown = report._repr_html_()
    assert "data:image/png;base64," in shown
    assert "网页报告位于" not in shown
    report.save(tmp_path)
    assert str(tmp_path / "report.html") in report._repr_html_()
    read(Report(page_results.hostile())._repr_html_())


def test_an_unknown_language_is_refused():
    with pytest.raises(InvalidConfig, match="'fr'"):
        page_html(results.normal(), "fr")
