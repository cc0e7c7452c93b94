"""What every test may ask for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("FASTHOP_SHARED", Path(__file__).parents[2] / "shared"))


@pytest.fixture(scope="session")
def planetoid_root() -> Path:
    """The folder with the raw files of Planetoid's Cora and PubMed; skips where it is not at hand."""
    root = SHARED / "data" / "planetoid"
    if not root.is_dir():
        pytest.skip(
            f"the real Planetoid files are not at {root}; set FASTHOP_SHARED to the folder that has them"
        )
    return root


@pytest.fixture(scope="module", params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    """The device that a test runs on, "cpu" and "cuda" in turn."""
    return request.param


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips what is marked gpu where torch sees no CUDA device."""
    if item.get_closest_marker("gpu") is not None:
        import torch

        if not torch.cuda.is_available():
            pytest.skip("no CUDA device is available to torch")
