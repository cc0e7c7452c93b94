"""spmm by Intel's MKL through torch.sparse, for the shapes where it is the quicker one."""

from __future__ import annotations

import functools
import warnings

import torch
from torch import Tensor


def serves(x: Tensor, reduce: str) -> bool:
    """Whether MKL is there and knows this dtype and reduction."""
    return (
        torch.backends.mkl.is_available()
        and reduce in ("sum", "mean")
        and x.dtype in (torch.float32, torch.float64)
    )


def spmm(x: Tensor, rowptr: Tensor, col: Tensor, value: Tensor | None, reduce: str) -> Tensor:
    """As cpu.spmm, for what `serves` says. Without values a tensor of ones is made on each call, because MKL asks for one."""
    _first_matrix()
    values = x.new_ones(col.numel()) if value is None else value
    size = (rowptr.numel() - 1, x.size(0))
    matrix = torch.sparse_csr_tensor(rowptr.to(col.dtype), col, values, size, check_invariants=False)
    out = matrix @ x
    return out.div_(rowptr.diff().clamp_(min=1).unsqueeze(1)) if reduce == "mean" else out


@functools.cache
def _first_matrix() -> None:
    """torch says once a process that CSR tensors are in beta; a user who never asked for one need not read it."""
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="Sparse CSR tensor support is in beta state", category=UserWarning
        )
        index = torch.zeros(1, dtype=torch.int32)
        torch.sparse_csr_tensor(index, index[:0], torch.zeros(0), (0, 0), check_invariants=False)
