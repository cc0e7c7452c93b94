"""`fasthop compare`: words, JSON and the exit codes that CI acts on."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fasthop.cli.main import main
from fasthop.report.files import write_file
from fasthop.report.page.markup import plain
from tests.measure.test_comparison import pair
from tests.report.page_results import HOSTILE


@pytest.fixture
def runs(tmp_path):
    """Writes two results; returns the folder of the first and the file of the second."""

    def write(before, after):
        paths = tmp_path / "old", tmp_path / "new"
        for path, result in zip(paths, (before, after), strict=True):
            path.mkdir(exist_ok=True)
            write_file(path / "result.json", result.to_json().encode("utf-8"))
        return str(paths[0]), str(paths[1] / "result.json")

    return write


def test_equal_runs_are_0_and_said_to_be_equal(runs, capsys):
    assert main(["compare", *runs(*pair()), "--fail-above", "5%"]) == 0
    printed = capsys.readouterr().out
    assert "No significant change in any recipe." in printed
    assert "No regression beyond 5.00 %." in printed


def test_a_slowdown_is_1_beyond_the_limit_only(runs, capsys):
    sources = runs(*pair(1.2))
    assert main(["compare", *sources, "--fail-above", "5%"]) == 1
    printed = capsys.readouterr().out
    assert "slower by" in printed
    assert "Regression beyond 5.00 %: csr_spmm." in printed
    assert main(["compare", *sources, "--fail-above", "30"]) == 0
    assert main(["compare", *sources]) == 0
    assert "egression" not in capsys.readouterr().out.rpartition("30.0 %")[2]


def test_in_chinese_and_narrow(runs, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    assert main(["compare", *runs(*pair(1.2)), "--lang", "zh", "--fail-above", "5%"]) == 1
    printed = capsys.readouterr().out
    assert "变慢" in printed
    assert "退步超过" in printed


def test_json_has_the_figures_and_nothing_else(runs, capsys):
    assert main(["compare", *runs(*pair(1.2)), "--json", "--fail-above", "5%"]) == 1
    tree = json.loads(capsys.readouterr().out)
    assert tree["regressions"] == ["csr_spmm"]
    assert tree["fail_above_percent"] == 5.0
    slow = tree["recipes"][1]
    assert slow["time_change"] == "slower"
    assert slow["time_ratio"]["low"] > 1


def test_other_machines_are_2_unless_told(runs, capsys):
    before, after = pair()
    sources = runs(before, replace(after, machine={**after.machine, "machine_id": "other"}))
    assert main(["compare", *sources]) == 2
    assert "machine.machine_id" in capsys.readouterr().err
    assert main(["compare", *sources, "--force"]) == 0
    assert "Compared although they differ: machine.machine_id" in " ".join(capsys.readouterr().out.split())
    assert main(["compare", *sources, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["exit_code"] == 2


@pytest.mark.parametrize("limit", ["five", "-1%", "nan", "inf", "5%%", ""])
def test_a_limit_that_is_none_is_2(limit, runs, capsys):
    assert main(["compare", *runs(*pair()), f"--fail-above={limit}"]) == 2
    assert "is not a percentage" in capsys.readouterr().err


def test_what_is_no_run_is_2(runs, tmp_path, capsys):
    old, _ = runs(*pair())
    assert main(["compare", old, str(tmp_path / "nowhere")]) == 2
    assert "There is no" in capsys.readouterr().err


def test_a_name_sends_nothing_to_the_terminal(runs, capsys):
    before, after = pair(1.3)
    before, after = (
        replace(result, runs=(result.runs[0], replace(result.runs[1], name=HOSTILE)))
        for result in (before, after)
    )
    main(["compare", *runs(before, after), "--fail-above", "5%"])
    printed = capsys.readouterr().out
    assert printed == plain(printed)
