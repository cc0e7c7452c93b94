"""Which machine and which software a number was measured on."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

_PACKAGES = (
    "fasthop",
    "torch",
    "torch_geometric",
    "numpy",
    "numba",
    "scipy",
    "torch_sparse",
    "pyg_lib",
    "triton",
)
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "OMP_PROC_BIND",
    "KMP_AFFINITY",
)
_CGROUP = Path("/sys/fs/cgroup")


def fingerprint() -> dict[str, Any]:
    """The machine and the software at hand, ready for JSON: str, int, float, bool, None, dicts, lists.

    machine_id: a short hash that is the same on every run on the same machine (`machine_id`).
    cpu: model, logical and physical cores, cores that this process may use, torch's instruction set.
    memory_bytes: of the machine; limits: what a container allows, None where it sets no limit.
    threads: what torch uses within an operator, and the environment variables that decide it.
    gpus: a list of name, memory, driver and capability, empty without CUDA.
    versions: of Python and of every package that matters, None where it is not installed.
    compiler: the C++ compiler that torch.compile would find, None without one.
    on_battery: whether a laptop runs on its battery, which slows it; None without one.
    """
    import psutil
    import torch

    return {
        "machine_id": machine_id(),
        "cpu": {
            "model": _cpu_model(),
            "logical_cores": psutil.cpu_count(logical=True),
            "physical_cores": psutil.cpu_count(logical=False),
            "usable_cores": _usable_cores(),
            "capability": torch.backends.cpu.get_cpu_capability(),
        },
        "memory_bytes": psutil.virtual_memory().total,
        "limits": {"memory_bytes": _memory_limit(), "cpus": _cpu_limit()},
        "threads": {
            "torch": torch.get_num_threads(),
            "environment": {n: os.environ[n] for n in _THREAD_VARIABLES if n in os.environ},
        },
        "gpus": _gpus(),
        "os": {
            "system": platform.system(),
            "release": platform.release(),
            "architecture": platform.machine(),
        },
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in _PACKAGES}},
        "compiler": find_compiler(),
        "on_battery": _on_battery(),
    }


@functools.cache
def machine_id() -> str:
    """Twelve hexadecimal digits that name this machine's hardware: processor, cores, memory in
    GiB, a container's limits, GPUs, system. Software and the host's name do not enter."""
    import psutil

    limit = _memory_limit()
    hardware = [
        _cpu_model(),
        psutil.cpu_count(logical=True),
        _usable_cores(),
        _cpu_limit(),
        round(psutil.virtual_memory().total / 2**30),  # the kernel's own share varies by a few MB
        None if limit is None else round(limit / 2**30),
        [gpu["name"] for gpu in _gpus()],
        platform.system(),
        platform.machine(),
    ]
    return hashlib.sha256(json.dumps(hardware).encode()).hexdigest()[:12]


def find_compiler() -> str | None:
    """The path of a C++ compiler: $CXX first, then the usual names; None where there is none."""
    names = ("cl",) if sys.platform == "win32" else ("g++", "clang++", "c++")
    chosen = os.environ.get("CXX", "").split()[:1]
    return next((path for name in (*chosen, *names) if (path := shutil.which(name))), None)


@functools.cache
def _cpu_model() -> str:
    if sys.platform.startswith("linux"):
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    if sys.platform == "darwin":
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        if answer:
            return answer
    return platform.processor() or platform.machine() or "unknown"


def _usable_cores() -> int | None:
    if sys.platform.startswith("linux"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def _memory_limit() -> int | None:
    """A container's memory limit in bytes (control groups, version 2 and 1)."""
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        text = _read(_CGROUP / name)
        if text.isdigit() and int(text) < 1 << 60:  # version 1 writes "no limit" as a huge number
            return int(text)
    return None


def _cpu_limit() -> float | None:
    """A container's processor limit in cores (control groups, version 2 and 1)."""
    quota, _, period = _read(_CGROUP / "cpu.max").partition(" ")
    if not quota:
        quota, period = _read(_CGROUP / "cpu/cpu.cfs_quota_us"), _read(_CGROUP / "cpu/cpu.cfs_period_us")
    if quota.isdigit() and period.isdigit() and int(period) > 0:
        return round(int(quota) / int(period), 2)
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _gpus() -> list[dict[str, Any]]:
    import torch

    if not torch.cuda.is_available():
        return []
    gpus = []
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        gpus.append(
            {
                "name": properties.name,
                "memory_bytes": properties.total_memory,
                "capability": f"{properties.major}.{properties.minor}",
                "cuda": torch.version.cuda,
                "driver": _nvidia_driver(),
            }
        )
    return gpus


@functools.cache
def _nvidia_driver() -> str | None:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = answer.stdout.split()
    return lines[0] if answer.returncode == 0 and lines else None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)  # importing PyG to ask would take seconds
    except metadata.PackageNotFoundError:
        return None


def _on_battery() -> bool | None:
    import psutil

    sensors = getattr(psutil, "sensors_battery", None)
    try:
        battery = sensors() if sensors else None
    except (OSError, NotImplementedError, RuntimeError):
        return None
    return None if battery is None or battery.power_plugged is None else not battery.power_plugged
