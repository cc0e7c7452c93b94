"""The examples of models of one's own do what they say, on the command line and in Python."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fasthop.cli.main import main
from fasthop.rewrites import ladder as ladders
from fasthop.rewrites.ladder import Recipe

ROOT = Path(__file__).resolve().parents[1]


def printed(example: str) -> str:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / example)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_model_in_one_file_learns():
    text = printed("own_model.py")
    assert "make_model was given in_channels = 1433, out_channels = 7" in text
    found = re.search(r"test (\d+\.\d+) %", text)
    assert found is not None
    assert float(found[1]) > 60


def test_several_labels_learn():
    text = printed("multi_label.py")
    assert "better than untrained: True" in text
    found = re.search(r"loss (\d\.\d+) at first, (\d\.\d+) at last", text)
    assert found is not None
    assert float(found[2]) < float(found[1])


def test_further_arguments_reach_the_forward():
    text = printed("extra_arguments.py")
    assert "Roads.forward was given edge_attr from the graph" in text
    found = re.search(r"test (\d+\.\d+) %", text)
    assert found is not None
    assert float(found[1]) > 60  # a quarter of the map without the positions


def test_the_command_line_takes_the_file_by_its_place(monkeypatch, tmp_path, capsys):
    """Down to the workers, which find the file themselves."""
    monkeypatch.setitem(
        ladders.LADDERS,
        "tutorial",
        lambda sample: (Recipe(name="baseline"), Recipe(name="sample", rungs=(sample,))),
    )
    monkeypatch.chdir(ROOT)
    line = "bench --model examples/own_model.py:make_model --model-arg hidden_channels=8 --metric macro_f1"
    options = ["--epochs", "4", "--seeds", "2", "--rounds", "6", "--threads", "1", "--quiet", "--json"]
    assert main([*line.split(), *options, "--out", str(tmp_path / "run")]) == 0
    tree = json.loads(capsys.readouterr().out)
    assert [recipe["skipped"] for recipe in tree["recipes"]] == [None, None]
    assert tree["task"]["model"] == "own_model.py:make_model"
    assert tree["task"]["model_args"] == {"hidden_channels": 8}
    assert tree["task"]["metric"] == "macro_f1"
    assert any("was given in_channels = 1433" in said["en"] for said in tree["task"]["notes"])
    assert "macro-F1" in (tmp_path / "run" / "summary.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("examples/own_modle.py:make_model", "Did you mean 'own_model.py'?"),
        ("examples/own_model.py:make_modle", "Did you mean 'make_model'?"),
    ],
)
def test_a_mistyped_place_is_a_sentence_and_exit_code_2(monkeypatch, capsys, tmp_path, place, words):
    monkeypatch.chdir(ROOT)
    assert main(["bench", "--model", place, "--out", str(tmp_path / "run")]) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert "Traceback" not in captured.err
    assert not (tmp_path / "run").exists()
