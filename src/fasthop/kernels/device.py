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


def check_one_device(what: str, *tensors: Tensor | None) -> torch.device:
    """The device of all the tensors. Raises InvalidConfig where they lie on several, or on one without kernels.

    For what is about to run, not for a trace. what: the operation, for the message.
    """
    devices = {tensor.device for tensor in tensors if tensor is not None}
    if len(devices) > 1 or next(iter(devices)).type not in ("cpu", "cuda"):
        names = ", ".join(sorted(str(device) for device in devices))
        raise InvalidConfig(
            f"{what} has kernels for the CPU and for CUDA and takes all tensors on one device, and got tensors on {names}; "
            "move them to one."
        )
    return next(iter(devices))
