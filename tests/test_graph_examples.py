"""The examples that bring graphs of their own run as a reader would run them, with fewer epochs."""

from __future__ import annotations

import csv
import re
import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def run(monkeypatch, capsys):
    def example(name, *options):
        monkeypatch.setattr(sys, "argv", [name, *map(str, options)])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return example


def test_heterophilous_splits(run):
    printed = run("heterophilous_splits.py", "--splits", 3, "--epochs", 25)
    assert "edges holds each undirected edge once: both directions were made" in printed
    each = [float(value) for value in re.findall(r"split \d: test accuracy ([\d.]+) %", printed)]
    mean, std = re.search(r"over 3 splits: ([\d.]+) ± ([\d.]+) %", printed).groups()
    assert len(each) == 3
    assert float(mean) == pytest.approx(sum(each) / 3, abs=0.1)
    assert float(mean) > 35  # four classes: a guess is right for 25 %
    assert float(std) >= 0


def test_csv_edges(run, tmp_path):
    printed = run("csv_edges.py", "--epochs", 60, "--out", tmp_path / "predictions.csv")
    assert float(re.search(r"test accuracy ([\d.]+) %", printed)[1]) > 50  # three teams
    with (tmp_path / "predictions.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 60
    assert all(re.fullmatch(r"person-[0-9a-f]{6}", row["id"]) for row in rows)
    assert {row["label"] for row in rows} <= {"red", "green", "blue"}
