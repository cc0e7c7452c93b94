"""sparse_linear in plain torch, on dense features: the definition of correct."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import linear


def sparse_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """out = x @ weight.T + bias: x [N, F] dense, weight [C, F], bias [C] or None, out [N, C]."""
    return linear(x, weight, bias)


def dropout(x: Tensor, keep: Tensor, p: float) -> Tensor:
    """x where keep (bool, x's shape) is True, over 1 - p; elsewhere 0. For p = 1 all is 0, as torch has it."""
    return x * keep / (1 - p) if p < 1 else x * 0
