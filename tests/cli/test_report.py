"""`fasthop report RUN`: an earlier run again, in either language, as JSON, and drawn again."""

from __future__ import annotations

import pytest

from fasthop.cli.main import main
from fasthop.report.report import Report
from tests.report import results


@pytest.fixture
def folder(tmp_path):
    return Report(results.normal()).save(tmp_path / "run")


def test_it_prints_the_report_from_a_folder_or_a_file(folder, capsys):
    assert main(["report", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "no significant change" in printed
    assert "Best here" in printed
    assert "An epoch takes" in printed
    assert main(["report", str(folder), "--full"]) == 0
    full = capsys.readouterr()
    assert "What is best here" in full.out
    assert "--full" not in full.err
    assert main(["report", str(folder / "result.json")]) == 0
    assert capsys.readouterr().out == printed


def test_in_chinese(folder, capsys):
    assert main(["report", str(folder), "--lang", "zh"]) == 0
    assert "无显著变化" in capsys.readouterr().out


def test_json_is_the_files_text(folder, capsys):
    assert main(["report", str(folder), "--json"]) == 0
    assert capsys.readouterr().out == (folder / "result.json").read_text(encoding="utf-8")


def test_redraw_writes_charts_and_summary_but_not_the_result(folder, capsys):
    before = (folder / "result.json").stat().st_mtime_ns
    for name in ("ladder.png", "ladder.svg", "summary.md"):
        (folder / name).unlink()
    assert main(["report", str(folder), "--redraw", "--lang", "zh"]) == 0
    assert "已重新绘制" in capsys.readouterr().err
    assert (folder / "ladder.png").read_bytes().startswith(b"\x89PNG")
    assert "结果解读" in (folder / "summary.md").read_text(encoding="utf-8")
    assert (folder / "result.json").stat().st_mtime_ns == before


@pytest.mark.parametrize("name", ["missing", "."])
def test_no_run_is_2(name, tmp_path, capsys):
    assert main(["report", str(tmp_path / name)]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("fasthop: There is no ")
    assert captured.out == ""


def test_a_damaged_result_is_2(folder, capsys):
    (folder / "result.json").write_text('{"schema_version": 1}', encoding="utf-8")
    assert main(["report", str(folder)]) == 2
    assert "damaged" in capsys.readouterr().err
