"""spmm by NVIDIA's cuSPARSE through torch.sparse, for the shapes where it is the quicker one: on CUDA what mkl.py is on the CPU."""

from __future__ import annotations

import torch
from torch import Tensor

from fasthop.kernels.spmm import mkl


def serves(x: Tensor, reduce: str) -> bool:
    """Whether cuSPARSE knows this dtype and reduction, and may be used: not where torch is told to be deterministic."""
    return (
        x.is_cuda
        and reduce in ("sum", "mean")
        and x.dtype in (torch.float32, torch.float64)
        and not torch.are_deterministic_algorithms_enabled()
    )


def spmm(x: Tensor, rowptr: Tensor, col: Tensor, value: Tensor | None, reduce: str) -> Tensor:
    """As gpu.spmm, for what `serves` says: torch picks the library by the device, so the call is MKL's."""
    return mkl.spmm(x, rowptr, col, value, reduce)
