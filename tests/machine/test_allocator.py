"""Freed memory that is kept: in a process of its own, since it holds until that ends."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fasthop.machine import allocator

# As a step does: blocks of several sizes, made while others live, and freed in another order. glibc's threshold for
# trimming follows the largest; together they have several times as much.
SCRIPT = """
import resource
import torch
from fasthop.machine.allocator import keep_freed_memory

def step():
    x = torch.ones(1 << 20, 8)
    kept = [x * 2 for _ in range(6)]
    total = sum(kept)
    kept.clear()
    return total.relu()

if {keep}:
    assert keep_freed_memory()
for _ in range(10):
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def new_pages(*, keep: bool) -> int:
    """Pages that the system hands out in ten steps after ten others."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(keep=keep)], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


@pytest.mark.skipif(not allocator.can_keep_freed_memory(), reason="the C library is not glibc")
def test_steps_after_the_first_need_few_new_pages():
    assert new_pages(keep=True) < 0.2 * new_pages(keep=False)


def test_another_c_library_is_told(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not allocator.can_keep_freed_memory()
    assert not allocator.keep_freed_memory()
