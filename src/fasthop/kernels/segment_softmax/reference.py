"""Attention in plain torch, as PyG computes it: the definition of correct."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from fasthop.kernels.sample.draw import WEYL, draw_key


def gat(
    x: Tensor,
    a_src: Tensor,
    a_dst: Tensor,
    rowptr: Tensor,
    col: Tensor,
    *,
    negative_slope: float = 0.2,
    factor: Tensor | None = None,
) -> Tensor:
    """Graph attention (Velickovic et al. 2018): score_e[h] = leaky_relu(a_src[col[e], h] + a_dst[i, h]) in `attend`.

    x: [num_cols, heads, channels]. a_src: [num_cols, heads]. a_dst: [num_rows, heads].
    """
    row = rows_of(rowptr)
    dtype = torch.promote_types(x.dtype, torch.float32)
    score = leaky_relu(a_src.to(dtype)[col.long()] + a_dst.to(dtype)[row], negative_slope)
    return attend(x, score, rowptr, col, factor)


def gatv2(
    x_l: Tensor,
    x_r: Tensor,
    att: Tensor,
    rowptr: Tensor,
    col: Tensor,
    *,
    negative_slope: float = 0.2,
    factor: Tensor | None = None,
) -> Tensor:
    """GATv2 (Brody et al. 2022): score_e[h] = att[h] . leaky_relu(x_l[col[e], h] + x_r[i, h]) in `attend`, over x_l.

    x_l: [num_cols, heads, channels]. x_r: [num_rows, heads, channels]. att: [heads, channels].
    """
    row = rows_of(rowptr)
    dtype = torch.promote_types(x_l.dtype, torch.float32)
    u = x_l.to(dtype)[col.long()] + x_r.to(dtype)[row]
    score = (leaky_relu(u, negative_slope) * att.to(dtype)).sum(-1)
    return attend(x_l, score, rowptr, col, factor)


def attend(x: Tensor, score: Tensor, rowptr: Tensor, col: Tensor, factor: Tensor | None = None) -> Tensor:
    """out[i, h] = sum over the entries e of row i of factor_e[h] softmax_e(score)[h] * x[col[e], h].

    x: [num_cols, heads, channels]. score: [E, heads]. factor: [E, heads] or None (all 1), which dropout gives.
    out: [num_rows, heads, channels] in x's dtype; bfloat16 is summed in float32. A row without entries is 0.
    Differentiable in x and score.
    """
    row = rows_of(rowptr)
    alpha = segment_softmax(score, rowptr)
    if factor is not None:
        alpha = alpha * factor.to(alpha.dtype)
    messages = alpha.unsqueeze(-1) * x.to(alpha.dtype)[col.long()]
    out = messages.new_zeros(rowptr.numel() - 1, x.size(1), x.size(2))
    return out.index_add(0, row, messages).to(x.dtype)


def segment_softmax(score: Tensor, rowptr: Tensor) -> Tensor:
    """exp(score_e - m) / sum over the row of it, m the row's largest: [E, heads]. No row's sum is below 1, so none needs the
    1e-16 that PyG adds to it."""
    row = rows_of(rowptr)
    shape = (rowptr.numel() - 1, score.size(1))
    index = row.unsqueeze(1).expand_as(score)
    highest = score.new_zeros(shape).scatter_reduce(0, index, score.detach(), "amax", include_self=False)
    weight = (score - highest[row]).exp()
    return weight / score.new_zeros(shape).scatter_add(0, index, weight)[row]


def rows_of(rowptr: Tensor) -> Tensor:
    """The row of each entry: int64 [E]."""
    return torch.repeat_interleave(torch.arange(rowptr.numel() - 1, device=rowptr.device), rowptr.diff())


def dropout_factor(seed: int, num_entries: int, heads: int, dropout: float) -> Tensor:
    """What dropout gives each entry and head: 1 / (1 - dropout), or 0 with the probability `dropout`; float64 [E, heads].

    Each is a hash of (seed, entry, head), so that no mask is kept and the backward pass draws the same again. Exact to 2^-32.
    """
    with np.errstate(over="ignore"):
        entry = np.arange(1, num_entries + 1, dtype=np.uint64)
        z = np.uint64(draw_key(seed)) + entry * WEYL
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
        low, high = z.astype(np.uint32)[:, None], (z >> np.uint64(32)).astype(np.uint32)[:, None]
        v = low + np.arange(heads, dtype=np.uint32) * np.uint32(0x9E3779B9)
        v = (v ^ (v >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        v = (v ^ (v >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        v = v ^ (v >> np.uint32(16)) ^ high
    stays = v.astype(np.uint64) < np.uint64(round((1.0 - dropout) * 2.0**32))
    scale = 1.0 / (1.0 - dropout) if dropout < 1 else 0.0
    return torch.from_numpy(np.where(stays, scale, 0.0))
