from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from fasthop.machine.process import process_peak_bytes, reset_process_peak, rss_bytes

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def test_the_peak_is_at_least_what_is_resident():
    block = np.ones(10_000_000)  # 80 MB, touched
    resident = rss_bytes()
    peak = process_peak_bytes()
    assert resident > block.nbytes
    assert peak is not None
    assert peak >= 0.99 * resident


@linux
def test_the_peak_can_be_reset():
    block = np.ones(25_000_000)  # 200 MB
    del block
    high = process_peak_bytes()
    assert high is not None
    if not reset_process_peak():
        pytest.skip("this system forbids writing /proc/self/clear_refs")
    low = process_peak_bytes()
    assert low is not None
    assert low < high - 100_000_000


@linux
def test_a_child_does_not_inherit_its_parents_peak():
    block = np.ones(40_000_000)  # 320 MB in the parent
    code = "from fasthop.machine.process import process_peak_bytes; print(process_peak_bytes())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < block.nbytes // 2
