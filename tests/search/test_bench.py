"""run_ladder measures every recipe in a process of its own, and no worker's misfortune costs more than its row."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

from fasthop.errors import InvalidConfig, TrialFailed
from fasthop.graph.graph import Graph
from fasthop.measure.run import Result
from fasthop.rewrites import ladder as ladders
from fasthop.rewrites.base import Rung
from fasthop.rewrites.ladder import Recipe
from fasthop.search.bench import run_ladder
from tests.search import models
from tests.train.graphs import digraph


class Heard:
    """A Progress that remembers."""

    def __init__(self):
        self.names, self.phases, self.outcomes, self.closed = [], [], {}, False

    def start(self, recipes):
        self.names = recipes

    def update(self, recipe, phase, fraction):
        assert fraction is None or 0.0 <= fraction <= 1.0
        self.phases.append((recipe, phase))

    def done(self, recipe, failure):
        self.outcomes[recipe] = failure

    def close(self):
        self.closed = True


@pytest.mark.usefixtures("small_ladder")
def test_a_whole_ladder(quick):
    heard = Heard()
    result = run_ladder(quick(batch_size=8, num_neighbors=(3, 2)), heard)
    assert heard.names == ["baseline", "sample", "sample+amp"]
    assert heard.closed
    assert heard.outcomes == dict.fromkeys(heard.names)
    assert {phase for _, phase in heard.phases} == {
        "start", "prepare", "first_epoch", "timing", "memory", "accuracy"
    }  # fmt: skip
    baseline, sample, both = result.runs
    assert (baseline.exactness, sample.exactness, both.exactness) == ("bitwise", "statistical", "statistical")
    assert both.rungs == ("sample", "amp")
    assert (baseline.num_steps_per_epoch, sample.num_steps_per_epoch) == (1, 3)
    for run in result.runs:
        assert run.skipped is None
        assert len(run.round_times_ms) == 6
        assert run.time_per_epoch_ms.low <= run.time_per_epoch_ms.median <= run.time_per_epoch_ms.high
        assert run.first_epoch_s > 0.0
        assert run.peak_bytes > 0
        assert run.process_peak_bytes > run.peak_bytes
        stages = {key: ms for key, ms in run.stages_ms.items() if "." not in key and key != "epoch"}
        assert sum(stages.values()) == pytest.approx(run.stages_ms["epoch"], rel=0.05)
        assert (run.stages_ms["sample"] > 0) == ("sample" in run.rungs)
        kinds = {key: num_bytes for key, num_bytes in run.memory_kinds.items() if "." not in key}
        inputs = kinds["features"] + kinds["graph"]
        assert sum(kinds.values()) - inputs == pytest.approx(run.peak_bytes, rel=0.05, abs=100_000)
        assert run.peak_operator is not None
        assert min(run.flops, run.moved_bytes, run.floor_ms, run.predicted_ratio) > 0
        assert run.accuracy.count == 2
        assert len(run.curve) == 2
        assert [round(t, 12) for t, _ in run.curve[0]] == sorted(round(t, 12) for t, _ in run.curve[0])
    assert baseline.ratio_to_baseline.median == 1.0
    assert baseline.break_even_epochs == 0.0
    assert baseline.predicted_ratio == 1.0
    assert result.machine["peaks"]["copy_gb_per_s"]["median"] > 0
    assert result.target_accuracy > 0.0
    assert result.finished
    assert result.task["num_train"] == int(digraph().train_mask.sum())
    assert Result.from_json(result.to_json()) == result


@pytest.mark.usefixtures("small_ladder")
def test_the_baseline_is_what_a_pyg_script_gets(quick):
    """The accuracies of the contest are those of a script by hand with the same seeds."""
    config = quick(seeds=1, epochs=30, num_neighbors=(3, 2))
    (baseline, *_) = run_ladder(config).runs
    graph = config.data
    torch.manual_seed(0)
    from fasthop.train.models import GCN

    model = GCN(8, 16, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    best = (-1.0, 0.0)
    for _ in range(30):
        model.train()
        optimizer.zero_grad()
        out = model(graph.x, graph.edge_index)
        torch.nn.functional.cross_entropy(out[graph.train_mask], graph.y[graph.train_mask]).backward()
        optimizer.step()
        model.eval()
        right = model(graph.x, graph.edge_index).argmax(dim=-1) == graph.y
        val, test = (100.0 * right[mask].double().mean().item() for mask in (graph.val_mask, graph.test_mask))
        if val > best[0]:
            best = (val, test)
    assert baseline.accuracy.mean == pytest.approx(best[1])


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (models.Dies, "exit code 7"),
        (models.IsKilled, "SIGKILL"),
        (models.Raises, "ValueError: the third layer is on strike"),
        (models.RunsOut, "ran out of memory"),
    ],
)
@pytest.mark.usefixtures("small_ladder")
def test_a_baseline_that_fails_is_told_in_a_sentence(quick, model, reason):
    with pytest.raises(TrialFailed, match=reason):
        run_ladder(quick(model=model))


class Sabotage(Rung):
    """A rung for these tests: puts a model that misbehaves in the place of the user's."""

    name = "sabotage"
    words = {}  # noqa: RUF012
    kind: str = "Dies"

    def __init__(self, kind):
        object.__setattr__(self, "kind", kind)

    from fasthop.exactness import Exactness

    exactness = Exactness.BITWISE

    def apply(self, setup):
        import dataclasses

        return dataclasses.replace(setup, model=getattr(models, self.kind)())


@pytest.mark.parametrize(
    ("kind", "reason", "limit_s"),
    [
        ("Dies", "exit code 7", 60.0),
        ("IsKilled", "memory ran out", 60.0),
        ("Raises", "ValueError: the third layer is on strike", 60.0),
        ("RunsOut", "ran out of memory", 60.0),
        ("Hangs", "within its limit of 20 s", 20.0),
    ],
)
def test_a_worker_that_fails_costs_only_its_own_row(quick, monkeypatch, kind, reason, limit_s):
    monkeypatch.setitem(
        ladders.LADDERS,
        "tutorial",
        lambda sample: (
            Recipe(name="baseline"),
            Recipe(name="bad", rungs=(Sabotage(kind),)),
            Recipe(name="sample", rungs=(sample,)),
        ),
    )
    result = run_ladder(quick(model=models.Plain, time_limit_s=limit_s))
    baseline, bad, sample = result.runs
    assert reason in bad.skipped
    assert bad.reason("zh") != bad.skipped or kind == "Raises"
    assert bad.time_per_epoch_ms is None
    assert baseline.skipped is None
    assert sample.skipped is None
    assert sample.accuracy.count == 2
    assert result.finished
    assert not [child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE]


def test_a_rung_that_does_not_apply_is_a_row_with_its_reason(quick, small_ladder):
    class NoGraph(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = torch.nn.Linear(8, 3)

        def forward(self, x, edge_index):
            return self.lin(x)

    result = run_ladder(quick(model=NoGraph))
    assert "has no PyG layer" in result.runs[1].skipped
    assert "没有 PyG 的图层" in result.runs[1].reason("zh")
    assert result.runs[0].accuracy.count == 2


@pytest.mark.usefixtures("small_ladder")
def test_what_a_model_prints_does_not_disturb_the_answers(quick):
    result = run_ladder(quick(model=models.Prints, seeds=1))
    assert [run.skipped for run in result.runs] == [None, None, None]


@pytest.mark.usefixtures("small_ladder")
def test_a_module_is_drawn_anew_for_every_seed_and_left_alone(quick):
    module = models.Plain()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    result = run_ladder(quick(model=module, seeds=2, epochs=3))
    assert result.task["model"] == "Plain"
    curves = result.runs[0].curve
    assert curves[0] != curves[1]
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


class AsksForDeterminism(models.Plain):
    """Fails unless the worker runs deterministically, with the threads that were asked for."""

    def forward(self, x, edge_index):
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.get_num_threads() == 2
        assert os.environ["OMP_NUM_THREADS"] == "2"
        return super().forward(x, edge_index)


@pytest.mark.usefixtures("small_ladder")
def test_determinism_and_threads_reach_the_worker(quick):
    run_ladder(quick(model=AsksForDeterminism, deterministic=True, threads=2, seeds=0))
    with pytest.raises(TrialFailed, match="AssertionError"):
        run_ladder(quick(model=AsksForDeterminism, deterministic=False, threads=2, seeds=0))


@pytest.mark.usefixtures("small_ladder")
def test_the_compile_caches_of_a_worker_are_cold_and_its_own(tmp_path):
    from fasthop.search.trial import worker_environment

    a, b = (worker_environment(1, tmp_path / name) for name in "ab")
    assert a["TORCHINDUCTOR_CACHE_DIR"] != b["TORCHINDUCTOR_CACHE_DIR"]
    assert not Path(a["TORCHINDUCTOR_CACHE_DIR"]).exists()
    assert a["TRITON_CACHE_DIR"].startswith(str(tmp_path / "a"))


@pytest.mark.usefixtures("small_ladder")
def test_what_the_maker_closes_over_is_an_input_and_not_the_recipes_memory(quick):
    ballast = torch.zeros(5_000_000)
    plain = run_ladder(quick(model=lambda: models.Plain(), seeds=0)).runs[0]
    heavy = run_ladder(quick(model=lambda: models.Plain() if len(ballast) else None, seeds=0)).runs[0]
    assert heavy.peak_bytes < plain.peak_bytes + 1_000_000


@pytest.mark.usefixtures("small_ladder")
def test_no_seeds_means_no_accuracy(quick):
    result = run_ladder(quick(seeds=0))
    assert all(run.accuracy is None and run.time_to_accuracy_s is None for run in result.runs)
    assert result.target_accuracy is None


@pytest.mark.usefixtures("small_ladder")
def test_an_accuracy_budget_leaves_out_seeds_and_says_so(quick):
    result = run_ladder(quick(epochs=100_000, seeds=3, accuracy_budget_s=0.5))
    assert all(run.accuracy is None for run in result.runs)
    assert "over 0 of 3 seeds" in result.runs[0].notes[-1]["en"]


def test_bad_options_and_graphs_are_refused_before_any_process_starts(quick, monkeypatch):
    def no_process(*args, **kwargs):
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", no_process)
    with pytest.raises(InvalidConfig, match="no ladder named 'spiral'"):
        run_ladder(quick(ladder="spiral"))
    if not torch.cuda.is_available():
        with pytest.raises(InvalidConfig, match="torch finds no CUDA device"):
            run_ladder(quick(device="cuda"))


SCRIPT = """
import torch, fasthop
from torch_geometric.nn import GCNConv

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = GCNConv(1433, 7)
    def forward(self, x, edge_index):
        return self.conv(x, edge_index)

def small(sample):
    from fasthop.rewrites.ladder import Recipe
    return (Recipe(name="baseline"), Recipe(name="sample", rungs=(sample,)))

from fasthop.rewrites import ladder
ladder.LADDERS["tutorial"] = small
report = fasthop.bench("cora", model=Net, rounds=6, epochs=3, seeds=1, threads=1, out="run")
print(report.result.to_json())
"""


def test_a_model_made_in_a_script_without_a_main_guard_reaches_the_worker(tmp_path):
    """A worker must not run the user's script again: the class travels by value."""
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(SCRIPT))
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path, timeout=200
    )
    assert done.returncode == 0, done.stderr
    tree = json.loads(done.stdout)
    assert [recipe["skipped"] for recipe in tree["recipes"]] == [None, None]
    assert tree["task"]["model"] == "Net"
    assert (tmp_path / "run" / "result.json").is_file()


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_a_parent_that_is_killed_leaves_no_worker_behind(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(SCRIPT).replace("epochs=3", "epochs=100000"))
    parent = subprocess.Popen([sys.executable, str(script)], cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        workers = _wait_for_workers(parent.pid)
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    _, alive = psutil.wait_procs(workers, timeout=20)
    assert workers
    assert not alive


def _wait_for_workers(pid):
    for _ in range(600):
        workers = [
            child
            for child in psutil.Process(pid).children(recursive=True)
            if "fasthop.search.worker" in " ".join(child.cmdline())
        ]
        if len(workers) >= 2:
            return workers
        time.sleep(0.1)
    return []


@pytest.mark.usefixtures("small_ladder")
def test_ctrl_c_keeps_what_was_measured(quick):
    class Interrupts(Heard):
        def update(self, recipe, phase, fraction):
            super().update(recipe, phase, fraction)
            if (recipe, phase) == ("sample", "accuracy"):
                raise KeyboardInterrupt

    result = run_ladder(quick(), Interrupts())
    assert not result.finished
    assert result.runs[0].accuracy.count == 2
    assert result.runs[1].accuracy is None
    assert result.runs[1].time_per_epoch_ms is not None


@pytest.mark.usefixtures("small_ladder")
def test_ctrl_c_in_the_middle_of_a_round_drops_the_unfinished_round(quick):
    class Interrupts(Heard):
        def update(self, recipe, phase, fraction):
            super().update(recipe, phase, fraction)
            if self.phases.count(("sample", "timing")) == 3:
                raise KeyboardInterrupt

    result = run_ladder(quick(), Interrupts())
    assert not result.finished
    assert [len(run.round_times_ms) for run in result.runs] == [2, 2, 2]
    assert all(run.ratio_to_baseline is None for run in result.runs)
    assert all(math.isfinite(run.time_per_epoch_ms.median) for run in result.runs)


@pytest.mark.usefixtures("small_ladder")
def test_ctrl_c_before_anything_was_timed_goes_on_to_the_caller(quick):
    class Interrupts(Heard):
        def update(self, recipe, phase, fraction):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_ladder(quick(), Interrupts())
    assert not [child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE]


def test_a_graph_reaches_the_worker_whole(tmp_path):
    from fasthop.search.bench_task import FIELDS, read_graph, save_graph

    graph = digraph(weighted=True)
    several = (torch.rand(60, 4) < 0.5).float()
    extras = {
        "edge_attr": torch.rand(graph.num_edges, 2),
        "pos": torch.rand(60, 3),
        "scale": 2.5,
        "what": object(),
    }
    for ids in (None, np.arange(60) * 7, np.array([f"paper {i}" for i in range(60)])):
        sent = dataclasses.replace(
            graph, y=several, num_classes=4, extras=extras, node_ids=ids, class_names=("a", "b", "c", "d")
        )
        save_graph(sent, tmp_path / "graph.pt")
        back = read_graph(tmp_path / "graph.pt", torch.device("cpu"))
        assert isinstance(back, Graph)
        for name in FIELDS:
            assert torch.equal(getattr(back, name), getattr(sent, name))
        assert set(back.extras) == {"edge_attr", "pos", "scale"}
        assert torch.equal(back.extras["edge_attr"], extras["edge_attr"])
        assert back.is_multilabel
        assert back.class_names == sent.class_names
        assert (back.node_ids is None) == (ids is None)
        assert ids is None or (back.node_ids.dtype == ids.dtype and (back.node_ids == ids).all())
