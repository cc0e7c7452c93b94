"""On Ray each trial has a node to itself, and only ratios to the baseline of that very node are compared."""

from __future__ import annotations

import importlib.util
import warnings

import pytest

from fasthop.errors import InvalidConfig
from fasthop.graph.note import note
from fasthop.rewrites.amp import Amp
from fasthop.rewrites.pyg_sparse import PygSparse
from fasthop.search import candidate as candidates
from fasthop.search.candidate import search_space
from fasthop.search.ray_workers import Pair, _attempt, check_ray, measure_on_ray, measure_pair
from fasthop.search.study import open_study
from fasthop.search.track import Clock
from fasthop.search.tune_config import TuneConfig
from fasthop.search.yardstick import Yardstick
from tests.train.graphs import digraph


def space():
    return search_space(device="cpu", threads=1, lr=0.01, num_train=20, num_hops=2, batch_size=8, num_neighbors=None,
                        tunes_lr=False)  # fmt: skip


def test_a_slower_machine_does_not_make_a_candidate_slower():
    amp = space().candidate("amp", lambda _, choices: choices[0])
    value = Yardstick(objective="epoch-time", num_epochs=4, lr=0.01).value
    slow = Pair(
        machine_id="slow", baseline_ms=(100.0, 120.0, 110.0), times_ms=(50.0, 60.0, 55.0), num_steps=1
    )
    quick = Pair(machine_id="quick", baseline_ms=(10.0, 12.0, 11.0), times_ms=(5.0, 6.0, 5.5), num_steps=1)
    found = [_attempt(pair, amp, 8.0, value) for pair in (slow, quick)]
    assert [attempt.value for attempt in found] == [4.0, 4.0]
    assert [attempt.machine_id for attempt in found] == ["slow", "quick"]
    failed = _attempt(
        Pair(machine_id="m", failure="inapplicable", reason=note("No.", "不。")), amp, 8.0, value
    )
    assert (failed.outcome, failed.value) == ("inapplicable", None)
    assert Pair(machine_id="m", baseline_ms=(1.0,), times_ms=()).ratio is None


def test_a_node_measures_both_sides_by_turns(quick):
    amp = space().candidate("amp", lambda _, choices: choices[0])
    config = TuneConfig(bench=quick(seeds=0), objective="epoch-time")
    pair = measure_pair(config, config.bench.data, space().baseline, amp, "cpu", 120.0)
    assert len(pair.baseline_ms) == len(pair.times_ms) == 6
    assert pair.ratio > 0
    assert pair.peak_bytes > 0
    assert pair.failure is None


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is installed")
def test_without_ray_it_is_said_in_a_sentence():
    with pytest.raises(InvalidConfig, match=r"install fasthop\[ray\]"):
        check_ray()


def test_a_cluster_of_this_machine(quick, monkeypatch, tmp_path):
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install fasthop[ray]")
    monkeypatch.setattr(
        candidates, "families", lambda device: {"pyg_sparse": (PygSparse(),), "amp": (Amp(),)}
    )
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    config = TuneConfig(bench=quick(seeds=0), objective="epoch-time", workers="ray")
    value = Yardstick(objective="epoch-time", num_epochs=4, lr=0.01).value
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray's own
        ray.init(num_cpus=2, log_to_driver=False, logging_level="ERROR", include_dashboard=False)
        try:
            with open_study(
                tmp_path, space(), settings={}, graph="g", machine="m", seed=0, resume=True
            ) as study:
                measure_on_ray(config, digraph(dtype=config.bench.data.x.dtype), study, ["pyg_sparse", "amp"],
                               space().baseline, 5.0, value, "cpu", Clock(200.0))  # fmt: skip
                outcomes = {a.candidate.name: a for a in study.attempts}
        finally:
            ray.shutdown()
    assert set(outcomes) == {"pyg_sparse", "amp"}
    assert outcomes["amp"].outcome == "measured"
    assert outcomes["amp"].value > 0
    assert outcomes["amp"].machine_id
