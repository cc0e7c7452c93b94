"""Dropout on the entries of a sparse matrix: whether an entry stays is a hash of (seed, its place).

A zero that is dropped stays zero, so dropout on the entries has the distribution of dropout on the whole matrix. No
mask is kept: the transpose, which the weight's gradient reads, asks for the same places in another order.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.library import custom_op, register_fake

from fasthop.jit import kernel
from fasthop.kernels.device import check_one_device, gpu_kernels
from fasthop.kernels.sample.draw import WEYL, draw_key, mix


@kernel
def _scale(out, perm, is_permuted, key, threshold, scale):
    """out[e] = scale where the hash of (key, place) is below threshold, else 0; place is perm[e], or e."""
    for e in range(np.uint64(out.size)):
        place = np.uint64(perm[e]) if is_permuted else e
        bits = mix(key + (place + np.uint64(1)) * WEYL) >> np.uint64(11)
        out[e] = scale if bits < threshold else 0.0


@custom_op("fasthop::entry_dropout", mutates_args=(), device_types=("cpu", "cuda"))
def entry_dropout(
    seed: Tensor, num_entries: int, p: float, perm: Tensor | None, dtype: torch.dtype
) -> Tensor:
    """The factor of each entry: 1 / (1 - p) for those that stay, 0 for the others; [num_entries] of `dtype`.

    seed: int64, one element. perm: the factors come in this order of the places (a transpose's); None as they are.
    Exact to 2^-53 in p. dtype: float32 or float64. The result is on seed's device; the draws are the same on each.
    """
    if check_one_device("dropout on entries", seed, perm).type == "cuda":
        return gpu_kernels("fasthop.kernels.sparse_linear.gpu").entry_dropout(
            seed, num_entries, p, perm, dtype
        )
    out = torch.empty(num_entries, dtype=dtype)
    order = torch.empty(0, dtype=torch.int32) if perm is None else perm
    kept = 1.0 - p
    threshold = np.uint64(round(kept * 2.0**53))
    # Neighbouring seeds must not give shifted masks: the seed is hashed before places are added.
    key = np.uint64(draw_key(int(seed)))
    _scale(out.numpy(), order.numpy(), perm is not None, key, threshold, 1.0 / kept if kept > 0 else 0.0)
    return out


@register_fake("fasthop::entry_dropout")
def _entry_dropout_fake(
    seed: Tensor, num_entries: int, p: float, perm: Tensor | None, dtype: torch.dtype
) -> Tensor:
    return seed.new_empty(num_entries, dtype=dtype)
