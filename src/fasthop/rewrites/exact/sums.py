"""Sums that are written into their first term, where autograd and the dtypes allow it: a tensor of nodes x channels less."""

from __future__ import annotations

import torch
from torch import Tensor

from fasthop.rewrites.exact.constant import Constant
from fasthop.rewrites.exact.hops import Value, dense, linear


def plus(out: Tensor, term: Tensor, alpha: float = 1.0) -> Tensor:
    """out + alpha * term, written into out unless the sum has another dtype.

    out must be the caller's own, made by an operation that does not keep its result for the gradient (a product, a sum).
    """
    if torch.result_type(out, term) != out.dtype:
        return torch.add(out, term, alpha=alpha)
    return out.add_(term, alpha=alpha)


def plus_linear(out: Tensor, x: Value, weight: Tensor) -> Tensor:
    """out + x @ weight.T, the product added to out as it is computed. For an out as `plus` takes it."""
    if isinstance(x, Constant) and x.sparse is not None:
        return plus(out, linear(x, weight))
    x = dense(x)
    if torch.is_autocast_enabled(x.device.type) or not (out.dtype == x.dtype == weight.dtype):
        return plus(out, linear(x, weight))
    return out.addmm_(x, weight.t())
