"""`fasthop tune` passes on what it is given, answers in sentences, and ends with the right exit code."""

from __future__ import annotations

import dataclasses
import inspect
import json

import pytest

from fasthop.cli.main import build_parser, main
from fasthop.graph.note import note
from fasthop.report import tune as report_tune
from fasthop.search import tune as search_tune
from fasthop.search.attempt import Attempt
from fasthop.search.candidate import search_space
from fasthop.search.tuned import Tuned
from tests.search.test_plan import a_plan

EVIDENCE = {
    "ratio_to_baseline": {"median": 4.0, "low": 3.5, "high": 4.5},
    "num_rounds": 10,
    "time_per_epoch_ms": {"plan": {"median": 2.0}, "baseline": {"median": 8.0}},
    "peak_bytes": {"plan": 1 << 20, "baseline": 4 << 20},
    "memory_bytes": 2 << 20,
    "target": 75.5,
    "time_to_accuracy_s": {"plan": 1.5, "baseline": 6.0},
    "verdict": {"sentence": note("It is proven.", "已证明。")},
    "accuracy": {"sentence": note("Accuracy is kept.", "准确率得以保持。")},
    "rungs": [{"sentence": note("amp stays.", "保留 amp。")}],
}


@pytest.fixture
def called(monkeypatch, tmp_path):
    """What tune_plan was called with; it answers with a plan at once."""
    calls = []

    def answer(config, folder, *, progress, resume):
        calls.append((config, folder, resume))
        space = search_space(device="cpu", threads=1, lr=0.01, num_train=10, num_hops=2, batch_size=128,
                             num_neighbors=None, tunes_lr=False)  # fmt: skip
        candidate = space.candidate("amp", lambda _, choices: choices[0])
        reason = note("Left behind by the halving.", "被逐次减半淘汰。")
        return Tuned(
            plan=a_plan(evidence=EVIDENCE), attempts=(Attempt(candidate=candidate, outcome="halved", reason=reason, times_ms=(3.25,)),),
            finals=(), stopped=note("It stopped.", "停止。"), notes=(note("A note.", "一条说明。"),), finished=len(calls) == 1,
            spent_s=61.0, budget_s=600.0, objective=config.objective, folder=tmp_path,
        )  # fmt: skip

    monkeypatch.setattr(search_tune, "tune_plan", answer)
    return calls


def test_options_reach_the_search_and_the_outcome_is_printed(called, capsys, tmp_path):
    code = main(
        ["tune", "--data", "cora", "--model", "sage", "--memory", "2GiB", "--max-accuracy-drop", "0.25", "--budget", "5min",
         "--objective", "epoch-time", "--num-neighbors", "7,3", "--lr", "0.02", "--out", str(tmp_path), "--no-resume"]
    )  # fmt: skip
    assert code == 0
    ((config, folder, resume),) = called
    assert (config.memory_bytes, config.budget_s, config.max_accuracy_drop) == (2**31, 300.0, 0.25)
    assert (config.objective, config.bench.model, config.bench.lr) == ("epoch-time", "sage", 0.02)
    assert config.bench.num_neighbors == (7, 3)
    assert (folder, resume) == (tmp_path, False)
    printed = capsys.readouterr().out
    for words in (
        "the plan for gcn on cora is sample+amp+compile",
        "4.00x [3.50, 4.50] as fast as the baseline's, by turns over 10 rounds (2 ms, 8 ms)",
        "Its peak is 1 MiB beside the graph (the baseline's 4 MiB, the limit 2 MiB)",
        "It reaches 75.50 % in 1.5 s",
        "the baseline in 6 s",
        "It is proven.",
        "Accuracy is kept.",
        "amp stays.",
        "left behind",
        "3.25",
        "Left behind by the halving.",
        "It stopped.",
        "It took 1 min 1 s of 10 min",
    ):
        assert words in printed, words


def test_chinese(called, capsys):
    assert main(["tune", "--lang", "zh"]) == 0
    printed = capsys.readouterr().out
    for words in (
        "cora 上 gcn 的计划是",
        "轮流测量 10 轮",
        "基线 4 MiB，上限 2 MiB",
        "准确率得以保持。",
        "被淘汰",
        "停止。",
    ):
        assert words in printed, words
    assert "halving" not in printed


def test_json_and_the_exit_code_after_ctrl_c(called, capsys):
    main(["tune", "--json", "--quiet"])
    tree = json.loads(capsys.readouterr().out)
    assert tree["plan"]["recipe_name"] == "sample+amp+compile"
    assert tree["trials"][0]["outcome"] == "halved"
    assert main(["tune", "--json", "--quiet"]) == 130
    assert json.loads(capsys.readouterr().out)["finished"] is False


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--memory", "lots"], "memory is 'lots'"),
        (["--budget", "soon"], "budget is 'soon'"),
        (["--max-accuracy-drop", "-1"], "from 0 to 100"),
        (["--objective", "speed"], "invalid choice: 'speed'"),
        (["--data", "nowhere"], "There is no graph 'nowhere'"),
        (["--num-neighbors", "a"], "not a list of whole numbers"),
        (["--seeds", "0"], "measures no accuracy"),
    ],
)
def test_a_mistake_is_a_sentence_and_exit_code_2(options, reason, capsys, tmp_path):
    assert main(["tune", *options, "--out", str(tmp_path / "out"), "--quiet"]) == 2
    heard = capsys.readouterr()
    assert reason in heard.err
    assert "Traceback" not in heard.err
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_is_said_at_once(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    assert main(["tune", "--out", str(tmp_path / "file" / "out"), "--quiet"]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_every_option_is_one_of_tunes():
    parameters = inspect.signature(report_tune.tune).parameters
    given = vars(
        build_parser().parse_args(
            ["tune", "--memory", "1GiB", "--epochs", "3", "--threads", "1", "--deterministic", "--time-limit", "9", "--seed", "1",
             "--prove-budget", "3", "--workers", "ray", "--max-trials", "3", "--split", "2", "--transform", "normalize_features",
             "--unsafe-pickle", "--root", ".", "--rounds", "8", "--batch-size", "9", "--device", "cpu"]
        )
    )  # fmt: skip
    assert set(given) - {"run"} <= set(parameters)
    assert dataclasses.is_dataclass(Tuned)
