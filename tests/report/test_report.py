"""A Report on screen and in its files: the same figures, written whole or not at all."""

from __future__ import annotations

import errno
import json
import math
import os
from dataclasses import replace

import pytest

from fasthop.errors import FasthopError, InvalidConfig
from fasthop.measure.run import Interval
from fasthop.report.files import CannotWrite, make_folder, write_file
from fasthop.report.report import Report
from tests.report import results

FILES = {"result.json", "summary.md", "ladder.png", "ladder.svg", "report.html"}


@pytest.mark.parametrize("kind", sorted(results.ALL))
def test_what_is_saved_reads_back_as_what_is_on_screen(kind, tmp_path):
    report = Report(results.ALL[kind]())
    assert report.save(tmp_path / "run") == tmp_path / "run"
    assert {path.name for path in (tmp_path / "run").iterdir()} == FILES
    for source in (tmp_path / "run", tmp_path / "run" / "result.json"):
        again = Report.load(source)
        assert again.result == report.result
        assert again.folder == tmp_path / "run"
        for lang in ("en", "zh"):
            assert again.text(lang, 100) == report.text(lang, 100)
            assert again.markdown(lang) == report.markdown(lang)


def test_a_figure_that_is_not_finite_shows_as_in_its_file(tmp_path):
    lost = replace(results.FAST, time_per_epoch_ms=Interval(median=math.nan, low=math.nan, high=math.nan))
    report = Report(results.result(results.BASELINE, lost))
    report.save(tmp_path)
    assert Report.load(tmp_path).text("en", 100) == report.text("en", 100)


def test_result_json_has_the_schema(tmp_path):
    Report(results.normal()).save(tmp_path)
    tree = json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))
    assert tree["schema_version"] == 2
    assert {"machine", "task", "recipes"} <= set(tree)
    wanted = {
        "name", "rungs", "exactness", "time_per_epoch_ms", "first_epoch_s", "compile_s", "break_even_epochs",
        "ratio_to_baseline", "peak_bytes", "process_peak_bytes", "accuracy", "time_to_accuracy_s", "skipped",
    }  # fmt: skip
    for entry in tree["recipes"]:
        assert wanted <= set(entry)


def test_print_show_and_notebook(capsys):
    report = Report(results.normal(), lang="zh")
    print(report)
    printed = capsys.readouterr().out
    report.show()
    assert capsys.readouterr().out == printed
    assert "\x1b" not in printed
    assert "无显著变化" in report._repr_html_()
    assert "compile" in repr(report)
    report.show("en")
    assert "significant" in capsys.readouterr().out


def test_rung_words_stand_in_text_and_file(tmp_path):
    report = Report(results.normal(), rung_words={"en": {"sample": "Samples."}, "zh": {"sample": "采样。"}})
    assert "sample: Samples. An epoch" in report.text("en", 200, full=True)
    assert "Samples." not in report.text("en", 200)
    report.save(tmp_path, "zh")
    assert "采样。每个 epoch" in (tmp_path / "summary.md").read_text(encoding="utf-8")


def test_an_unknown_language_is_refused_at_once():
    with pytest.raises(InvalidConfig, match="'fr'"):
        Report(results.normal(), lang="fr")


def test_saving_replaces_its_own_files_only(tmp_path):
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    Report(results.normal()).save(tmp_path)
    Report(results.cuda()).save(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == FILES | {"mine.txt"}
    assert Report.load(tmp_path).result == results.cuda()


def test_a_full_disk_leaves_the_old_file_and_no_rest(tmp_path, monkeypatch):
    Report(results.normal()).save(tmp_path)
    before = (tmp_path / "result.json").read_bytes()

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        CannotWrite, match=r"result\.json cannot be written \(no space left on device\)"
    ) as caught:
        Report(results.cuda()).save(tmp_path)
    assert isinstance(caught.value, FasthopError)
    assert (tmp_path / "result.json").read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == FILES


def test_an_interruption_leaves_no_rest(tmp_path, monkeypatch):
    def stop(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", stop)
    with pytest.raises(KeyboardInterrupt):
        write_file(tmp_path / "a", b"1")
    assert not list(tmp_path.iterdir())


def test_a_failing_chart_does_not_cost_the_measurement(tmp_path, monkeypatch):
    monkeypatch.setattr("fasthop.report.chart.chart_bytes", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        Report(results.normal()).save(tmp_path)
    assert Report.load(tmp_path).result == results.normal()


def test_a_file_in_the_folders_place_is_a_sentence(tmp_path):
    (tmp_path / "taken").write_text("", encoding="utf-8")
    with pytest.raises(CannotWrite, match=r"taken cannot be written \(file exists\)"):
        Report(results.normal()).save(tmp_path / "taken")
    with pytest.raises(CannotWrite, match="cannot be written"):
        make_folder(tmp_path / "taken" / "below")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_folder_is_a_sentence(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(CannotWrite, match="cannot be written"):
        make_folder(tmp_path / "run")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"There is no .*result\.json"),
        (b"{", "is not a result of fasthop"),
        (b'{"schema_version": 99}', "schema version 99"),
        (b'{"schema_version": 1}', "damaged"),
        (b"\xff\xfe", "cannot be read"),
    ],
)
def test_loading_what_is_no_result_is_a_sentence(content, message, tmp_path):
    if content is not None:
        (tmp_path / "result.json").write_bytes(content)
    with pytest.raises(InvalidConfig, match=message):
        Report.load(tmp_path)
