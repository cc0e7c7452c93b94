"""The rung `keep_memory`: the same bits, on a CPU whose C library has it."""

from __future__ import annotations

import torch

from fasthop.exactness import Exactness
from fasthop.rewrites import keep_memory
from fasthop.rewrites.keep_memory import KeepMemory
from tests.rewrites.exact.tasks import Net, losses, refusal, setup_of


def test_it_trains_bit_for_bit_as_before(monkeypatch):
    asked = []
    monkeypatch.setattr(
        keep_memory, "keep_freed_memory", lambda: asked.append(1) or True
    )  # not for all tests
    assert KeepMemory.exactness is Exactness.BITWISE
    setup = setup_of(Net)
    assert losses(KeepMemory().on(setup)) == losses(setup_of(Net))
    assert asked == [1]


def test_what_it_needs_is_said(monkeypatch):
    reason = KeepMemory().missing(torch.device("cuda"))
    assert reason is not None
    assert "cuda" in reason["en"]
    monkeypatch.setattr(keep_memory, "can_keep_freed_memory", lambda: False)
    assert "glibc" in refusal(KeepMemory(), setup_of(Net))


def test_a_refusal_of_the_library_is_said(monkeypatch):
    monkeypatch.setattr(keep_memory, "keep_freed_memory", lambda: False)
    assert "refused" in refusal(KeepMemory(), setup_of(Net))
