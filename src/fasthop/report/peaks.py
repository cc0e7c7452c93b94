"""The machine's measured peaks as a Result holds them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fasthop.measure.run import Result
from fasthop.report.figures import is_measured

NAMES = (
    "copy_gb_per_s",
    "gather_gb_per_s",
    "gather_64_gb_per_s",
    "matmul_fp32_gflops",
    "matmul_bf16_gflops",
    "matmul_fp16_gflops",
    "operator_us",
    "autograd_us",
)


def peaks_of(result: Result) -> dict[str, float]:
    """The medians by name, of the task's device, where the result has them: in `machine["peaks"]`, as
    `MachinePeaks` has its fields, or such by device."""
    peaks = result.machine.get("peaks")
    if not isinstance(peaks, Mapping):
        return {}
    of_device = peaks.get(str(result.task.get("device", "cpu")))
    if isinstance(of_device, Mapping):
        peaks = of_device
    found = {}
    for name in NAMES:
        value: Any = peaks.get(name)
        value = value.get("median") if isinstance(value, Mapping) else value
        if (
            isinstance(value, int | float)
            and not isinstance(value, bool)
            and is_measured(value)
            and value > 0
        ):
            found[name] = float(value)
    return found
