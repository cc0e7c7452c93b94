"""fasthop.bench around the measuring: its options, its run folder, and how it ends."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path

import pytest

import fasthop.search.bench
from fasthop.errors import InvalidConfig
from fasthop.report.bench import _slug, bench
from fasthop.report.files import CannotWrite
from fasthop.report.report import Report
from fasthop.search.config import BenchConfig
from tests.report import results

OWN = {"out", "lang", "progress"}
INNER = {"accuracy_budget_s", "round_s", "seed"}


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """Stands in for the measuring; holds the configurations that it was asked for."""
    configs: list[BenchConfig] = []

    def run_ladder(config, progress):
        configs.append(config)
        return results.normal()

    monkeypatch.setattr(fasthop.search.bench, "run_ladder", run_ladder)
    monkeypatch.chdir(tmp_path)
    return configs


def test_options_and_defaults_are_the_configurations(asked):
    missing = dataclasses.MISSING  # an empty dict, which a signature shows as None
    fields = {f.name: None if f.default is missing else f.default for f in dataclasses.fields(BenchConfig)}
    options = {name: p.default for name, p in inspect.signature(bench).parameters.items() if name not in OWN}
    assert {**options} == {name: value for name, value in fields.items() if name not in INNER}


def test_every_option_reaches_the_configuration(asked):
    given = {
        "model": "gat", "hidden": 8, "layers": 3, "dropout": 0.5, "lr": 0.02, "weight_decay": 0.0, "epochs": 3,
        "rounds": 7, "seeds": 2, "num_neighbors": (4, 3, 2), "batch_size": 9, "ladder": "full", "device": "cpu",
        "threads": 1, "deterministic": True, "time_limit_s": 5.0, "root": "x", "split": 1,
        "transform": "normalize_features", "unsafe_pickle": True, "nodes": "n.csv", "undirected": True, "optimizer": "sgd",
        "loss": "nll", "class_weight": "balanced", "label_smoothing": 0.1, "metric": "macro_f1", "output": 1, "head": True,
        "forward_args": {"pos": "pos"},
    }  # fmt: skip
    bench("planetoid:Cora", **given)
    bench(model="net.py:make", model_args={"width": 3})
    assert asked == [
        BenchConfig(data="planetoid:Cora", **given),
        BenchConfig(model="net.py:make", model_args={"width": 3}),
    ]


def test_the_run_folder_is_named_after_the_run_and_never_taken_twice(asked):
    first, second = bench("planetoid:Cora"), bench("planetoid:Cora")
    assert first.folder is not None
    assert second.folder is not None
    assert first.folder != second.folder
    assert first.folder.parent == Path("runs")
    assert first.folder.name.split("-", 2)[2].startswith("planetoid-cora-gcn")
    assert Report.load(first.folder).result == results.normal()


def test_a_run_is_never_overwritten(asked, tmp_path):
    bench(out=tmp_path / "run")
    with pytest.raises(CannotWrite, match="never overwritten"):
        bench(out=tmp_path / "run")
    assert len(asked) == 1
    (tmp_path / "empty").mkdir()
    assert bench(out=tmp_path / "empty").folder == tmp_path / "empty"


def test_a_file_in_the_place_of_runs_is_a_sentence(asked):
    Path("runs").write_text("", encoding="utf-8")
    with pytest.raises(CannotWrite, match="cannot be written"):
        bench()
    assert not asked


def test_bad_options_are_refused_before_a_folder_is_made(asked):
    with pytest.raises(InvalidConfig, match="lang"):
        bench(lang="fr")
    with pytest.raises(InvalidConfig, match="epochs"):
        bench(epochs=0)
    assert not asked
    assert not Path("runs").exists()


def test_what_fails_leaves_no_empty_folder_and_closes_its_progress(monkeypatch, tmp_path):
    closed = []

    class Watched:
        def close(self):
            closed.append(True)

    def run_ladder(config, progress):
        raise KeyboardInterrupt

    monkeypatch.setattr(fasthop.search.bench, "run_ladder", run_ladder)
    with pytest.raises(KeyboardInterrupt):
        bench(out=tmp_path / "run", progress=Watched())  # type: ignore[arg-type]
    assert not (tmp_path / "run").exists()
    assert closed


def test_the_rungs_own_words_come_with_the_report(asked):
    text = bench(lang="en").text("en", 200, full=True)
    from fasthop.rewrites.ladder import RUNGS

    sample = next(rung for rung in RUNGS if rung.name == "sample")
    assert sample.words["en"].does in text


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("planetoid:Cora", "planetoid-cora"),
        ("/a/b/My Graph.pt", "my-graph"),
        (Path("graph.pt"), "graph"),
        ("synthetic:nodes=100,degree=4", "synthetic-nodes=100-degree=4"),
        ("../..", "run"),
        (dict, "dict"),
        ({}, "dict"),
    ],
)
def test_names_of_folders(value, name):
    assert _slug(value) == name
