"""Which module has the kernels of a device: numba's on the CPU, Triton's on CUDA, which are imported when they are first asked for."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import torch
from torch import Tensor

from fasthop.errors import InvalidConfig


@functools.cache
def gpu_kernels(module: str) -> Any:
    """A module of Triton kernels, by its full name. Raises InvalidConfig where Triton is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "triton":
            raise
        raise InvalidConfig(
            "fasthop's kernels for GPUs need the package triton, which comes with torch's CUDA wheels on Linux, and it is "
            "not installed; install it, or move the tensors to the CPU."
        ) from None


def check_one_device(what: str, first: Tensor, *others: Tensor | None) -> torch.device:
    """The device of all the tensors. Raises InvalidConfig where they lie on several, or on one without kernels.

    For what is about to run, not for a trace. what: the operation, for the message.
    """
    device = first.device
    if device.type not in ("cpu", "cuda") or any(t is not None and t.device != device for t in others):
        names = ", ".join(sorted({str(t.device) for t in (first, *others) if t is not None}))
        raise InvalidConfig(
            f"{what} has kernels for the CPU and for CUDA and takes all tensors on one device, and got tensors on {names}; "
            "move them to one."
        )
    return device
