"""The kernels for GPUs without a GPU: their numbers in Triton's interpreter, their code through Triton's compiler."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None,
    reason="Triton is not installed: it comes with torch's CUDA wheels, or by `pip install triton` on Linux",
)


def _version() -> tuple[int, ...]:
    return tuple(int(part) for part in metadata.version("triton").split(".")[:2])


@pytest.mark.slow
@pytest.mark.parametrize("section", ["spmm", "gat", "gatv2", "rest"])
@pytest.mark.parametrize("mode", ["interpret", "compile"])
def test_the_kernels_for_gpus(mode, section, tmp_path):
    """In a process of its own: Triton reads its switch when it is imported."""
    if mode == "interpret" and _version() < (3, 9):
        pytest.skip(
            "the interpreter of Triton 3.5 fails with NumPy 2.4, and none before 3.9 has been tried since"
        )
    environment = dict(os.environ, OMP_NUM_THREADS="1", TRITON_CACHE_DIR=str(tmp_path))
    environment["TRITON_INTERPRET"] = "1" if mode == "interpret" else "0"
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.kernels.triton_cases", mode, section],
        cwd=Path(__file__).parents[2],
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
