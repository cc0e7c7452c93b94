from __future__ import annotations

import dataclasses
import json

import pytest
import torch

from fasthop import cache
from fasthop.machine import peaks
from fasthop.machine.peaks import MachinePeaks, Peak, machine_peaks


@pytest.fixture(autouse=True)
def short_measurement(tmp_path, monkeypatch):
    """Small operands and few samples: what is tested is what is done with them."""
    monkeypatch.setenv("FASTHOP_CACHE", str(tmp_path))
    cache._writable_root.cache_clear()
    monkeypatch.setattr(peaks, "_SECONDS_PER_PEAK", 0.0)
    monkeypatch.setattr(peaks, "_LEAST_BYTES", 1 << 20)
    monkeypatch.setattr(peaks, "_MOST_BYTES", 1 << 20)
    monkeypatch.setattr(peaks, "_GATHERED_BYTES", 1 << 16)
    monkeypatch.setattr(peaks, "_MATRIX_SIZE", {"cpu": 64})
    monkeypatch.setattr(peaks, "_OPERATORS_PER_SAMPLE", 10)
    yield
    cache._writable_root.cache_clear()


def bounds(measured: MachinePeaks) -> list[Peak]:
    return [value for value in vars_of(measured).values() if isinstance(value, Peak)]


def vars_of(measured: MachinePeaks) -> dict:
    return {field.name: getattr(measured, field.name) for field in dataclasses.fields(measured)}


def test_every_peak_is_a_median_within_its_quartiles():
    measured = machine_peaks()
    assert len(bounds(measured)) == 7
    assert measured.matmul_fp16_gflops is None, "nothing trains in float16 on a CPU"
    assert all(0 < peak.low <= peak.median <= peak.high for peak in bounds(measured))
    assert (measured.device, measured.num_threads, measured.cached) == ("cpu", torch.get_num_threads(), False)


def test_the_second_call_reads_the_cache_and_remeasure_does_not(tmp_path, monkeypatch):
    first = machine_peaks()
    second = machine_peaks()
    assert second == dataclasses.replace(first, cached=True)
    assert len(list((tmp_path / "peaks").iterdir())) == 1, "nothing half-written is left beside it"
    other = dataclasses.replace(first, copy_gb_per_s=Peak(median=2.0, low=1.0, high=3.0))
    monkeypatch.setattr(peaks, "_measure", lambda device: other)
    assert machine_peaks() == second
    assert machine_peaks(remeasure=True) == other
    assert machine_peaks() == dataclasses.replace(other, cached=True)


def test_another_number_of_threads_is_another_measurement():
    before = torch.get_num_threads()
    first = machine_peaks()
    try:
        torch.set_num_threads(before + 1)
        assert not machine_peaks().cached
    finally:
        torch.set_num_threads(before)
    assert machine_peaks() == dataclasses.replace(first, cached=True)


@pytest.mark.parametrize(
    "damage",
    [
        lambda tree: "{",
        lambda tree: "[]",
        lambda tree: json.dumps({**tree, "schema_version": 0}),
        lambda tree: json.dumps({key: value for key, value in tree.items() if key != "operator_us"}),
        lambda tree: json.dumps({**tree, "operator_us": {"median": 1.0}}),
        lambda tree: json.dumps({**tree, "operator_us": {"median": 0.0, "low": 0.0, "high": 0.0}}),
        lambda tree: json.dumps({**tree, "operator_us": {"median": None, "low": 1.0, "high": 1.0}}),
        lambda tree: json.dumps({**tree, "operator_us": 3.0}),
        lambda tree: json.dumps({**tree, "schema_version": 1}),
        lambda tree: json.dumps({**tree, "autograd_us": None}),
        lambda tree: json.dumps({**tree, "matmul_fp16_gflops": {"median": -1.0, "low": 1.0, "high": 1.0}}),
        lambda tree: json.dumps({k: v for k, v in tree.items() if k != "matmul_fp16_gflops"}),
    ],
)
def test_a_damaged_cache_is_measured_again(tmp_path, damage):
    machine_peaks()
    (path,) = (tmp_path / "peaks").iterdir()
    path.write_text(damage(json.loads(path.read_text())))
    assert not machine_peaks().cached
    assert machine_peaks().cached


def test_a_cache_that_cannot_be_written_costs_only_the_cache(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError("read-only file system")

    monkeypatch.setattr("fasthop.machine.peaks.tempfile.mkstemp", refuse)
    assert not machine_peaks().cached
    assert not machine_peaks().cached
    monkeypatch.setattr(peaks, "cache_dir", refuse)
    assert not machine_peaks().cached


def test_the_random_stream_of_the_user_is_left_alone():
    state = torch.get_rng_state()
    machine_peaks()
    assert torch.equal(torch.get_rng_state(), state)


def test_a_gather_reads_out_of_a_table_that_the_last_cache_cannot_hold(monkeypatch):
    tables = []
    monkeypatch.setattr(peaks, "_LEAST_BYTES", 1 << 16)
    monkeypatch.setattr(peaks, "last_level_cache_bytes", lambda: 1 << 18)
    gather = peaks._gather

    def remembered(device, table_bytes, row_bytes):
        tables.append((table_bytes, row_bytes))
        return gather(device, table_bytes, row_bytes)

    monkeypatch.setattr(peaks, "_gather", remembered)
    machine_peaks()
    assert tables == [(1 << 19, 512), (1 << 19, 64)]


def test_the_last_cache_is_read_from_the_system():
    size = peaks.last_level_cache_bytes()
    assert size is None or size >= 1 << 15


@pytest.mark.gpu
def test_cuda_has_a_figure_in_float16():
    measured = machine_peaks("cuda")
    assert measured.matmul_fp16_gflops is not None
    assert len(bounds(measured)) == 8
