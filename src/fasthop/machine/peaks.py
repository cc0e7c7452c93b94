"""What this machine can do at best: the roofs that every speed is held against.

Each a median with its quartiles: bandwidth of a copy, of a gather of random rows of 512 and of 64 bytes, matrix products in
float32 and bfloat16 (float16 on CUDA), and the cost of calling one operator on next to nothing, without and with autograd.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from fasthop.cache import cache_dir
from fasthop.machine.clock import elapsed_ns, synchronizer
from fasthop.machine.fingerprint import machine_id

_SCHEMA_VERSION = 2
_SECONDS_PER_PEAK = 0.3  # eight peaks and their warm-up then take about 3 s
_MIN_SAMPLES = 5
# What is read, and for a copy as much written, is at least 128 MiB, past any cache of a desktop's; where the last cache is
# larger (260 MiB on a server), twice that, up to 1 GiB.
_LEAST_BYTES, _MOST_BYTES = 1 << 27, 1 << 30
_ROW_BYTES = 512  # 128 float32 features, the row of an arxiv-shaped graph
_SHORT_ROW_BYTES = 64  # 16 hidden channels: one cache line
_GATHERED_BYTES = 1 << 25
_MATRIX_SIZE = {"cpu": 1024, "cuda": 8192}  # 0.01 s at 200 GFLOP/s; a GPU needs more to fill it
_OPERATORS_PER_SAMPLE = 1000
_PEAKS = (
    "copy_gb_per_s",
    "gather_gb_per_s",
    "gather_64_gb_per_s",
    "matmul_fp32_gflops",
    "matmul_bf16_gflops",
    "operator_us",
    "autograd_us",
)
_PEAKS_OF_SOME = ("matmul_fp16_gflops",)


@dataclass(frozen=True, kw_only=True, slots=True)
class Peak:
    """A median over samples, with the first and third quartile, in the unit of the field that holds it."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True, slots=True)
class MachinePeaks:
    """What one device can do, measured with as many threads as torch used then.

    copy_gb_per_s: bytes read plus bytes written by a copy that no cache holds (128 MiB to 1 GiB), 1e9 a second.
    gather_gb_per_s, gather_64_gb_per_s: bytes read plus bytes written by a gather of random rows of 512 and of 64 bytes, out of
        a table that no cache holds into a reused buffer, 1e9 a second.
    matmul_fp32_gflops, matmul_bf16_gflops: 2 n^3 operations of a square matrix product, 1e9 a second.
        float32 with torch's settings of that moment (TF32 on CUDA only where the user allowed it).
    matmul_fp16_gflops: the same in float16; None on the CPU, where nothing trains in it.
    operator_us: microseconds that one call of an operator on four elements takes, as the host sees it.
    autograd_us: the same where autograd records the call, and its share of the backward pass.
    cached: whether the figures come from an earlier run of the same machine, torch and thread count.
    """

    copy_gb_per_s: Peak
    gather_gb_per_s: Peak
    matmul_fp32_gflops: Peak
    matmul_bf16_gflops: Peak
    operator_us: Peak
    device: str
    num_threads: int
    gather_64_gb_per_s: Peak | None = None
    matmul_fp16_gflops: Peak | None = None
    autograd_us: Peak | None = None
    cached: bool = False


def machine_peaks(device: torch.device | str = "cpu", *, remeasure: bool = False) -> MachinePeaks:
    """The peaks of `device`: from the cache where they were measured before, else measured now,
    which takes about 3 s and 1 GB at the most, and cached where the cache can be written.

    remeasure: measure again and replace what is cached.
    """
    device = torch.device(device)
    path = _cache_path(device)
    if not remeasure and path is not None:
        known = _read(path)
        if known is not None:
            return known
    peaks = _measure(device)
    if path is not None:
        _write(path, peaks)
    return peaks


def _measure(device: torch.device) -> MachinePeaks:
    table_bytes = min(max(_LEAST_BYTES, 2 * (last_level_cache_bytes() or 0)), _MOST_BYTES)
    with torch.no_grad():
        peaks = MachinePeaks(
            copy_gb_per_s=_copy(device, table_bytes // 2 if table_bytes > _LEAST_BYTES else table_bytes),
            gather_gb_per_s=_gather(device, table_bytes, _ROW_BYTES),
            gather_64_gb_per_s=_gather(device, table_bytes, _SHORT_ROW_BYTES),
            matmul_fp32_gflops=_matmul(device, torch.float32),
            matmul_bf16_gflops=_matmul(device, torch.bfloat16),
            matmul_fp16_gflops=_matmul(device, torch.float16) if device.type == "cuda" else None,
            operator_us=_operator(device),
            device=_device_name(device),
            num_threads=torch.get_num_threads(),
        )
    return dataclasses.replace(peaks, autograd_us=_autograd(device))


def last_level_cache_bytes() -> int | None:
    """The size of the largest cache that the system names for its first processor; None where it names none."""
    found = []
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        try:
            text = path.read_text(encoding="ascii").strip()
            found.append(int(text.rstrip("KMG")) << {"K": 10, "M": 20, "G": 30}.get(text[-1:], 0))
        except (OSError, ValueError):
            continue
    return max(found, default=None)


def _copy(device: torch.device, num_bytes: int) -> Peak:
    source = torch.ones(num_bytes // 4, device=device)
    target = torch.empty_like(source)
    return _rate(lambda: target.copy_(source), 2 * num_bytes / 1e9, device)


def _gather(device: torch.device, table_bytes: int, row_bytes: int) -> Peak:
    x = torch.ones(table_bytes // row_bytes, row_bytes // 4, device=device)
    num_rows = _GATHERED_BYTES // row_bytes
    generator = torch.Generator().manual_seed(0)  # the user's random stream stays where it is
    index = torch.randint(x.size(0), (num_rows,), generator=generator).to(device)
    out = torch.empty(num_rows, x.size(1), device=device)
    moved = 2 * num_rows * row_bytes
    return _rate(lambda: torch.index_select(x, 0, index, out=out), moved / 1e9, device)


def _matmul(device: torch.device, dtype: torch.dtype) -> Peak:
    size = _MATRIX_SIZE.get(device.type, 2048)
    # Ones would let some processors save power and clock higher than real weights do.
    a = torch.rand(size, size, generator=torch.Generator().manual_seed(0)).to(device, dtype)
    out = torch.empty_like(a)
    return _rate(lambda: torch.matmul(a, a, out=out), 2 * size**3 / 1e9, device)


def _operator(device: torch.device) -> Peak:
    x = torch.ones(4, device=device)

    def call_operators() -> None:
        for _ in range(_OPERATORS_PER_SAMPLE):
            torch.add(x, x)

    return _peak([seconds / _OPERATORS_PER_SAMPLE * 1e6 for seconds in _samples(call_operators, device)])


def _autograd(device: torch.device) -> Peak:
    x = torch.ones(4, device=device, requires_grad=True)
    gradient = torch.ones(4, device=device)

    def call_operators() -> None:
        y = x
        for _ in range(_OPERATORS_PER_SAMPLE):
            y = torch.add(y, x)
        torch.autograd.grad(y, x, gradient)

    with torch.enable_grad():
        return _peak([seconds / _OPERATORS_PER_SAMPLE * 1e6 for seconds in _samples(call_operators, device)])


def _rate(call: Callable[[], object], amount: float, device: torch.device) -> Peak:
    return _peak([amount / seconds for seconds in _samples(call, device)])


def _samples(call: Callable[[], object], device: torch.device) -> list[float]:
    """Seconds of each of as many calls as fit in the time for one peak, after two for warm-up."""
    synchronize = synchronizer(device)
    call()
    call()
    samples: list[float] = []
    deadline = time.perf_counter() + _SECONDS_PER_PEAK
    while len(samples) < _MIN_SAMPLES or time.perf_counter() < deadline:
        samples.append(max(elapsed_ns(call, synchronize), 1) / 1e9)
    return samples


def _peak(values: list[float]) -> Peak:
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Peak(median=median, low=low, high=high)


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def _cache_path(device: torch.device) -> Path | None:
    """The file that holds these peaks; None where no folder can be had."""
    torch_version = metadata.version("torch").replace("+", "-")
    # Which of several GPUs it is matters, since they may differ; on the CPU there is one.
    place = device.type if device.index is None else f"{device.type}{device.index}"
    try:
        folder = cache_dir("peaks")
    except OSError:
        return None
    return folder / f"{machine_id()}-{place}-torch{torch_version}-{torch.get_num_threads()}threads.json"


def _read(path: Path) -> MachinePeaks | None:
    """The peaks in a file; None where there is none, or it is damaged or of another version."""
    try:
        tree: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if tree.pop("schema_version") != _SCHEMA_VERSION:
            return None
        for name in (*_PEAKS, *(name for name in _PEAKS_OF_SOME if tree[name] is not None)):
            peak = tree[name] = Peak(**tree[name])
            if not all(math.isfinite(bound) and bound > 0 for bound in (peak.low, peak.median, peak.high)):
                return None
        return MachinePeaks(**{**tree, "cached": True})
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _write(path: Path, peaks: MachinePeaks) -> None:
    """Written beside, then renamed, so that no other process reads half a file. A cache that
    cannot be written is no reason to fail: the peaks are measured again next time."""
    tree = {"schema_version": _SCHEMA_VERSION, **dataclasses.asdict(peaks)}
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".json.part")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(tree, file, indent=2)
            os.replace(temporary, path)
        except OSError:
            os.unlink(temporary)
    except OSError:
        return
