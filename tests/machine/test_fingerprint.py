from __future__ import annotations

import json
import os
import platform
import re

import pytest
import torch

from fasthop.machine import fingerprint as module
from fasthop.machine.fingerprint import find_compiler, fingerprint, machine_id


def test_the_fingerprint_is_json_and_names_what_is_here():
    found = fingerprint()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["versions"]["python"] == platform.python_version()
    assert found["versions"]["torch"] == torch.__version__
    assert found["threads"]["torch"] == torch.get_num_threads()
    assert found["cpu"]["capability"] == torch.backends.cpu.get_cpu_capability()
    assert found["cpu"]["logical_cores"] >= 1
    assert found["cpu"]["model"]
    assert found["memory_bytes"] > 1 << 28
    assert len(found["gpus"]) == (torch.cuda.device_count() if torch.cuda.is_available() else 0)


def test_the_id_is_of_the_hardware_alone(monkeypatch):
    machine_id.cache_clear()
    before = machine_id()
    assert re.fullmatch(r"[0-9a-f]{12}", before)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    machine_id.cache_clear()
    assert machine_id() == before
    monkeypatch.setattr(module, "_cpu_model", lambda: "another processor")
    machine_id.cache_clear()
    assert machine_id() != before
    machine_id.cache_clear()


def test_thread_variables_are_kept(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    environment = fingerprint()["threads"]["environment"]
    assert environment["OMP_NUM_THREADS"] == "3"
    assert "MKL_NUM_THREADS" not in environment


@pytest.mark.skipif(os.name == "nt", reason="looks for POSIX names")
def test_the_compiler_is_the_one_that_cxx_names_or_none(tmp_path, monkeypatch):
    chosen = tmp_path / "my-c++"
    chosen.write_text("#!/bin/sh\n")
    chosen.chmod(0o755)
    monkeypatch.setenv("CXX", f"{chosen} -O2")
    assert find_compiler() == str(chosen)
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_compiler() is None


def test_container_limits_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_CGROUP", tmp_path)
    assert (module._memory_limit(), module._cpu_limit()) == (None, None)
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert (module._memory_limit(), module._cpu_limit()) == (None, None)
    (tmp_path / "memory.max").write_text("2147483648\n")
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    assert (module._memory_limit(), module._cpu_limit()) == (2147483648, 1.5)
