"""`fasthop bench`: its options reach fasthop.bench, its output is the report, its exit code says how it went."""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
from pathlib import Path

import pytest

import fasthop.search.bench
from fasthop.cli import bench as command
from fasthop.cli import model_options
from fasthop.cli.main import build_parser, main
from fasthop.errors import TrialFailed
from fasthop.report.files import CannotWrite
from fasthop.report.report import Report
from fasthop.search.config import BenchConfig
from fasthop.train import metric, objective, task, task_config
from fasthop.train.models import REFERENCE_MODELS
from tests.report import results


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """Stands in for the measuring; holds what it was asked for, and gives `answer`."""

    class Asked:
        configs: list[BenchConfig] = []  # noqa: RUF012
        answer = staticmethod(results.normal)

    asked = Asked()
    asked.configs = []

    def run_ladder(config, progress):
        asked.configs.append(config)
        progress.start(["baseline"])
        progress.update("baseline", "timing", 0.5)
        progress.done("baseline", None)
        return asked.answer()

    monkeypatch.setattr(fasthop.search.bench, "run_ladder", run_ladder)
    monkeypatch.chdir(tmp_path)
    return asked


def options() -> list[argparse.Action]:
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers())
    actions = parser._subparsers._group_actions[0].choices["bench"]._actions  # type: ignore[union-attr]
    return [action for action in actions if action.dest != "help"]


def test_without_options_the_defaults_are_the_functions(asked):
    assert main(["bench"]) == 0
    assert asked.configs == [BenchConfig()]


def test_the_help_tells_the_true_defaults():
    fields = {field.name: field.default for field in dataclasses.fields(BenchConfig)}
    told = 0
    for action in options():
        found = re.search(r"\(default: ([^)]*)\)", action.help or "")
        default = fields.get(action.dest)
        if found and isinstance(default, str | int | float) and not isinstance(default, bool):
            told += 1
            wanted = float(found[1]) if not isinstance(default, str) else found[1]
            assert wanted == default, action.dest
    assert told >= 12


def test_the_names_on_the_command_line_are_those_that_there_are():
    """Kept apart, so that --help imports no torch."""
    assert model_options.MODELS == task_config.MODELS == tuple(REFERENCE_MODELS)
    assert model_options.LOSSES == task_config.LOSSES == tuple(objective.PLAIN)
    assert model_options.METRICS == task_config.METRICS == tuple(metric.BY_NAME)
    assert model_options.OPTIMIZERS == task_config.OPTIMIZER_NAMES == tuple(task.OPTIMIZERS)


def test_every_option_has_a_help_and_a_place_to_go():
    fields = {field.name for field in dataclasses.fields(BenchConfig)}
    for action in options():
        assert action.help
        assert action.dest in fields | {"out", "lang", "json", "quiet", "open"}


def test_options_reach_the_configuration(asked):
    line = (
        "bench --data planetoid:Cora --root x --split 1 --transform normalize_features --model sage --hidden 8 "
        "--layers 3 --dropout 0.5 --lr 0.02 --weight-decay 0 --epochs 3 --rounds 7 --seeds 2 "
        "--num-neighbors 4,-1,2 --batch-size 9 --ladder full --device cpu --threads 1 --deterministic "
        "--time-limit 5 --unsafe-pickle --out run --lang zh --quiet"
    )
    assert main(line.split()) == 0
    assert asked.configs == [
        BenchConfig(
            data="planetoid:Cora", root="x", split=1, transform="normalize_features", model="sage", hidden=8,
            layers=3, dropout=0.5, lr=0.02, weight_decay=0.0, epochs=3, rounds=7, seeds=2, num_neighbors=(4, -1, 2),
            batch_size=9, ladder="full", device="cpu", threads=1, deterministic=True, time_limit_s=5.0,
            unsafe_pickle=True,
        )
    ]  # fmt: skip
    assert Report.load("run").result == results.normal()


def test_a_model_of_ones_own_reaches_the_configuration(asked):
    line = (
        "bench --model net.py:make --model-arg hidden_channels=64 --model-arg act=relu --model-arg widths=[8,8] "
        "--forward-arg pos=position --forward-arg scale=0.5 --output 1 --head --loss nll --class-weight 1,2.5 "
        "--label-smoothing 0.1 --metric macro_f1 --optimizer adamw --num-neighbors 3,3,3"
    )
    assert main(line.split()) == 0
    assert asked.configs == [
        BenchConfig(
            model="net.py:make", model_args={"hidden_channels": 64, "act": "relu", "widths": [8, 8]},
            forward_args={"pos": "position", "scale": 0.5}, output=1, head=True, loss="nll", class_weight=(1.0, 2.5),
            label_smoothing=0.1, metric="macro_f1", optimizer="adamw", num_neighbors=(3, 3, 3),
        )
    ]  # fmt: skip
    assert main(["bench", "--output", "logits", "--class-weight", "balanced"]) == 0
    assert (asked.configs[1].output, asked.configs[1].class_weight) == ("logits", "balanced")


def test_the_report_is_printed_and_progress_stays_apart(asked, capsys):
    assert main(["bench", "--out", "run"]) == 0
    captured = capsys.readouterr()
    assert captured.out == Report.load("run", lang="en", rung_words=_words()).text()
    assert "baseline: timing" in captured.err
    assert "Saved in run" in captured.err


def _words():
    from fasthop.report.rung_words import rung_words

    return rung_words()


def test_chinese(asked, capsys):
    assert main(["bench", "--lang", "zh"]) == 0
    captured = capsys.readouterr()
    assert "无显著变化" in captured.out
    assert "no significant" not in captured.out
    assert "已保存到" in captured.err


def test_quiet_says_nothing_beside_the_report(asked, capsys):
    assert main(["bench", "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def test_json_is_the_text_of_result_json_and_nothing_else(asked, capsys):
    assert main(["bench", "--json", "--out", "run"]) == 0
    captured = capsys.readouterr()
    assert captured.out == Path("run/result.json").read_text(encoding="utf-8")
    assert json.loads(captured.out)["recipes"][0]["name"] == "baseline"


def test_a_run_cut_short_is_saved_and_130(asked, capsys):
    asked.answer = results.unfinished
    assert main(["bench", "--out", "run"]) == 130
    assert "saved in run" in capsys.readouterr().err
    assert not Report.load("run").result.finished


def test_a_run_stopped_before_anything_is_130_and_leaves_nothing(asked, capsys):
    def stop():
        raise KeyboardInterrupt

    asked.answer = stop
    assert main(["bench", "--out", "run", "--lang", "zh"]) == 130
    assert "尚未测到任何结果" in capsys.readouterr().err
    assert not Path("run").exists()


def test_a_baseline_that_was_not_measured_is_1(asked, capsys):
    asked.answer = results.no_baseline
    assert main(["bench"]) == 1
    assert "ran out of memory" in capsys.readouterr().err

    def fail():
        raise TrialFailed("The baseline could not be measured: it hung.")

    asked.answer = fail
    assert main(["bench"]) == 1
    assert "fasthop: The baseline could not be measured: it hung." in capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    [
        "--epochs 0",
        "--rounds 1",
        "--dropout 1.5",
        "--num-neighbors 0",
        "--num-neighbors a,b",
        "--lr nan",
        "--lang fr",
        "--model gnn",
        "--model-arg 64",
        "--model net.py:make --model-arg a=1 --model-arg a=2",
        "--model-arg hidden_channels=64",
        "--class-weight heavy",
        "--class-weight=-1,2",
        "--label-smoothing 1",
        "--loss mse",
    ],
)
def test_bad_options_are_2_before_any_work(line, asked, capsys):
    assert main(["bench", *line.split()]) == 2
    assert not asked.configs
    assert not Path("runs").exists()
    assert "Traceback" not in capsys.readouterr().err


def test_an_existing_run_is_refused(asked, capsys):
    assert main(["bench", "--out", "run"]) == 0
    assert main(["bench", "--out", "run"]) == 2
    assert "never overwritten" in capsys.readouterr().err
    assert len(asked.configs) == 1


def test_the_parser_takes_no_abbreviations():
    with pytest.raises(Exception, match="unrecognized arguments: --epoch"):
        build_parser().parse_args(["bench", "--epoch", "3"])


def test_a_report_that_cannot_be_saved_is_still_printed(asked, monkeypatch, capsys, tmp_path):
    def fail(self, folder):
        raise CannotWrite("ladder.svg cannot be written (no space left on device).")

    monkeypatch.setattr(Report, "draw", lambda self, folder, lang=None: fail(self, folder))
    assert main(["bench", "--out", str(tmp_path / "run")]) == 1
    captured = capsys.readouterr()
    assert "baseline" in captured.out
    assert captured.err.endswith("fasthop: ladder.svg cannot be written (no space left on device).\n")
    assert (tmp_path / "run" / "result.json").exists()
