"""What a user may get wrong in a bench run is refused in a sentence, before any worker starts or with none left."""

from __future__ import annotations

import subprocess
import threading

import psutil
import pytest
import torch
from torch_geometric.nn import SAGEConv

from fasthop.errors import DoesNotFit, InvalidConfig, InvalidGraph
from fasthop.measure.run import Result
from fasthop.search import bench as ladder_bench
from fasthop.search.bench import run_ladder
from fasthop.search.bench_task import save_graph
from fasthop.search.config import BenchConfig
from fasthop.search.resident import Trained
from fasthop.search.trial import Trial
from fasthop.train.task_config import make_task
from tests.search import models
from tests.train.graphs import digraph


@pytest.fixture
def no_process(monkeypatch):
    def start(*args, **kwargs):
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", start)


@pytest.mark.parametrize(
    "options",
    [
        {"hidden": 10**12},
        {"layers": 1001},
        {"threads": 1025},
        {"batch_size": 10**30},
        {"epochs": 2**31},
        {"num_neighbors": (2**31, 5)},
        {"num_neighbors": (5,)},
        {"num_neighbors": (5, 5, 5)},
        {"num_neighbors": 5},
        {"num_neighbors": "10"},
        {"time_limit_s": 1e300},
        {"time_limit_s": "60"},
        {"dropout": None},
        {"lr": True},
        {"ladder": ["tutorial"]},
        {"root": 5},
        {"split": 1.5},
    ],
)
def test_values_beyond_what_torch_and_the_clock_take_are_refused(options):
    (name,) = options
    with pytest.raises(InvalidConfig, match=rf"^{name} "):
        BenchConfig(**options)


@pytest.mark.usefixtures("no_process")
def test_a_model_larger_than_the_machine_is_refused_before_it_is_made(quick):
    with pytest.raises(DoesNotFit, match=r"hidden = 2,000,000 .* GB with its optimiser"):
        run_ladder(quick(model="gcn", hidden=2_000_000, layers=3))


@pytest.mark.parametrize("x", [None, torch.zeros(60, 0)])
@pytest.mark.usefixtures("no_process")
def test_a_graph_without_features_is_refused_before_any_process_starts(quick, x):
    data = digraph(dtype=torch.float32).to_data()
    data.x = x
    with pytest.raises(InvalidGraph, match="no node features x"):
        run_ladder(quick(data=data))


class TakesWidths(models.Plain):
    def __init__(self, in_channels, depth, out_channels):
        super().__init__()


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (
            TakesWidths,
            r"TakesWidths\(.*which cannot be called .*'depth'.*in_channels = 8, out_channels = 3\. Give the rest",
        ),
        (lambda: "a model", "returned str"),
    ],
)
@pytest.mark.usefixtures("no_process")
def test_a_callable_that_makes_no_model_is_refused(quick, model, words):
    with pytest.raises(InvalidConfig, match=words):
        run_ladder(quick(model=model))


@pytest.mark.usefixtures("small_ladder", "no_process")
def test_a_model_that_cannot_travel_is_refused(quick):
    module = models.Plain()
    module.lock = threading.Lock()
    with pytest.raises(InvalidConfig, match=r"cannot be sent to the process that measures it .*lock"):
        run_ladder(quick(model=lambda: module))


class ReturnsText(models.Plain):
    def forward(self, x, edge_index):
        return "logits"


@pytest.mark.usefixtures("small_ladder")
def test_a_model_at_fault_is_wrong_input_and_no_failed_trial(quick):
    with pytest.raises(InvalidConfig, match="The model returns str"):
        run_ladder(quick(model=ReturnsText))


@pytest.mark.usefixtures("small_ladder")
def test_the_users_random_numbers_stay_where_they_are(quick):
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    config = quick(model=models.Plain).task
    ladder_bench.example_model(config, make_task(config, digraph(dtype=torch.float32)))
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.usefixtures("small_ladder")
def test_workers_that_run_are_ended_where_a_later_one_cannot_start(quick, monkeypatch):
    start, started = Trial.__init__, []

    def start_twice(self, *args, **kwargs):
        if len(started) == 2:
            raise OSError(28, "No space left on device")
        start(self, *args, **kwargs)
        started.append(self._process.pid)

    monkeypatch.setattr(Trial, "__init__", start_twice)
    with pytest.raises(OSError, match="No space left"):
        run_ladder(quick())
    assert len(started) == 2
    assert not any(psutil.pid_exists(pid) for pid in started)


def test_no_room_for_the_graph_is_told_with_the_way_out(monkeypatch, tmp_path):
    def full(tree, path):
        raise RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 1152 vs 1046")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(DoesNotFit, match=r"could not be written .* MB are free; make room, or set TMPDIR"):
        save_graph(digraph(dtype=torch.float32), tmp_path / "graph.pt")


def test_a_split_may_be_drawn(quick):
    with pytest.raises(InvalidConfig, match="percentages such as"):
        run_ladder(quick(split="half"))
    assert quick(split="60/20/20").split == "60/20/20"


@pytest.mark.usefixtures("small_ladder")
def test_without_nodes_to_validate_or_test_on_the_rest_is_measured(quick):
    data = digraph(dtype=torch.float32).to_data()
    data.val_mask = data.test_mask = torch.zeros(60, dtype=torch.bool)
    result = run_ladder(quick(data=data, model=models.Plain))
    assert result.target_accuracy is None
    for run in result.runs:
        assert run.time_per_epoch_ms is not None
        assert (run.accuracy, run.time_to_accuracy_s, run.curve) == (None, None, ())
    assert Result.from_json(result.to_json()) == result


def test_without_validation_the_last_epoch_is_tested():
    nan = float("nan")
    assert Trained(points=((1, nan, 50.0), (2, nan, 40.0))).test == 40.0


@pytest.mark.usefixtures("small_ladder")
def test_a_lazy_module_is_measured_memory_and_all(quick):
    result = run_ladder(quick(model=SAGEConv(-1, 3), seeds=0))
    assert all(run.peak_bytes for run in result.runs)


@pytest.mark.usefixtures("small_ladder")
def test_outputs_that_are_not_finite_are_the_reason_why_nothing_is_sampled(quick):
    data = digraph(dtype=torch.float32).to_data()
    data.edge_weight = -torch.ones(data.edge_index.size(1))
    sample = run_ladder(quick(data=data, seeds=0)).runs[1]
    assert "not all finite" in (sample.skipped or "")
