"""Where compiled kernels are kept, and that they run where nothing can be."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fasthop import jit

SAMPLE = """
import torch
from fasthop.kernels.sample.cpu import NeighborSampler
from fasthop.kernels.sample import hop
from fasthop.jit import cache_dir
sampler = NeighborSampler(torch.tensor([0, 2, 2]), torch.tensor([0, 1]), num_neighbors=[1])
print(sampler.sample(torch.tensor([0, 1]), key=0).num_sampled_edges, cache_dir())
print(sum(hop.draw_hop.stats.cache_hits.values()), sum(hop.draw_hop.stats.cache_misses.values()))
"""
NOWHERE = """
import tempfile
def fail(*args, **kwargs): raise OSError(30, "Read-only file system")
tempfile.TemporaryFile = fail
"""


def run(code: str, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_the_second_process_does_not_compile(tmp_path):
    first = run(SAMPLE, NUMBA_CACHE_DIR=str(tmp_path))
    second = run(SAMPLE, NUMBA_CACHE_DIR=str(tmp_path))
    assert first[0] == second[0]
    assert first[0].startswith(f"[1] {tmp_path}")
    assert (first[1], second[1]) == ("0 1", "1 0")


@pytest.mark.slow
def test_a_read_only_install_writes_to_the_users_cache_only(tmp_path):
    """The package itself is not touched, so it may as well be read-only."""
    install = tmp_path / "site"
    shutil.copytree(
        Path(jit.__file__).parent, install / "fasthop", ignore=shutil.ignore_patterns("__pycache__")
    )
    before = sorted(install.rglob("*"))
    out = run(SAMPLE, PYTHONPATH=str(install), XDG_CACHE_HOME=str(tmp_path / "cache"), NUMBA_CACHE_DIR="", PYTHONDONTWRITEBYTECODE="1")  # fmt: skip
    assert out[0].startswith(f"[1] {tmp_path / 'cache'}")
    assert sorted(install.rglob("*")) == before


@pytest.mark.slow
def test_where_nothing_can_be_written_kernels_still_run():
    assert run(NOWHERE + SAMPLE)[0] == "[1] None"


def test_a_change_in_any_kernel_source_changes_the_folder(tmp_path, monkeypatch):
    for folder in jit.SOURCES:
        shutil.copytree(Path(jit.__file__).parent / folder, tmp_path / folder)
    monkeypatch.setattr(jit, "__file__", str(tmp_path / "jit.py"))
    before = jit._digest()
    with (tmp_path / "kernels" / "sample" / "draw.py").open("a") as file:
        file.write("# changed\n")
    assert jit._digest() != before


def test_a_full_disk_does_not_stop_a_kernel(monkeypatch, tmp_path):
    from numba.core.caching import FunctionCache

    def fail(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(FunctionCache, "save_overload", fail)
    monkeypatch.setattr(jit, "cache_dir", lambda: tmp_path)

    @jit.kernel
    def total(values):
        out = 0.0
        for value in values:
            out += value
        return out

    assert total(np.ones(3)) == 3.0


def test_the_users_own_folder_setting_is_left_alone(tmp_path, monkeypatch):
    from numba.core import config

    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "theirs"))
    monkeypatch.setattr(jit, "cache_dir", lambda: tmp_path / "ours")
    jit.kernel(lambda x: x)
    assert str(tmp_path / "theirs") == config.CACHE_DIR
