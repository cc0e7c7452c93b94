"""What attention can take: shapes and dtypes, in sentences. No element is looked at."""

from __future__ import annotations

import torch
from torch import Tensor

from fasthop.errors import InvalidConfig, InvalidGraph

DTYPES = (torch.float32, torch.float64, torch.bfloat16)


def check_gat(
    x: Tensor, a_src: Tensor, a_dst: Tensor, rowptr: Tensor, col: Tensor, seed: Tensor | None, dropout: float
) -> None:
    """Raises InvalidConfig or InvalidGraph where GAT cannot take these tensors."""
    _check_row(x, "x")
    _check_matrix(rowptr, col)
    _check_dropout(dropout, seed)
    _check_scores("a_src", a_src, x, (x.size(0), x.size(1)))
    _check_scores("a_dst", a_dst, x, (rowptr.size(0) - 1, x.size(1)))


def check_gatv2(
    x_l: Tensor, x_r: Tensor, att: Tensor, rowptr: Tensor, col: Tensor, seed: Tensor | None, dropout: float
) -> None:
    """Raises InvalidConfig or InvalidGraph where GATv2 cannot take these tensors."""
    _check_row(x_l, "x_l")
    _check_matrix(rowptr, col)
    _check_dropout(dropout, seed)
    if x_r.dtype != x_l.dtype:
        raise InvalidConfig(f"x_r must be {x_l.dtype} as x_l is, and got {x_r.dtype}; convert it.")
    wanted = (rowptr.size(0) - 1, x_l.size(1), x_l.size(2))
    if tuple(x_r.shape) != wanted:
        raise InvalidConfig(
            f"x_r must be [num_rows, heads, channels], {list(wanted)}, and got {list(x_r.shape)}."
        )
    _check_scores("att", att, x_l, (x_l.size(1), x_l.size(2)))


def _check_row(x: Tensor, name: str) -> None:
    if x.dim() != 3:
        raise InvalidConfig(
            f"{name} must have three dimensions, nodes x heads x channels, and got the shape {list(x.shape)}."
        )
    if x.dtype not in DTYPES:
        raise InvalidConfig(
            f"attention computes in float32, float64 and bfloat16, and got {name} of {x.dtype}; convert it."
        )


def _check_matrix(rowptr: Tensor, col: Tensor) -> None:
    if rowptr.dim() != 1 or rowptr.dtype != torch.int64 or not rowptr.is_contiguous():
        raise InvalidGraph(
            f"rowptr must be int64 [num_rows + 1], and got {rowptr.dtype} {list(rowptr.shape)}."
        )
    if col.dim() != 1 or col.dtype not in (torch.int32, torch.int64) or not col.is_contiguous():
        raise InvalidGraph(
            f"col must be int32 or int64 [num_entries], and got {col.dtype} {list(col.shape)}."
        )


def _check_dropout(dropout: float, seed: Tensor | None) -> None:
    if not 0.0 <= dropout <= 1.0:
        raise InvalidConfig(f"dropout is a probability from 0 to 1, and got {dropout}.")
    if dropout > 0 and seed is None:
        raise InvalidConfig(f"dropout of {dropout} needs a seed, and got none; give one.")
    if seed is not None and (seed.dtype != torch.int64 or seed.numel() != 1):
        raise InvalidConfig(f"seed must be one int64, and got {seed.dtype} {list(seed.shape)}.")


def _check_scores(name: str, scores: Tensor, x: Tensor, wanted: tuple[int, int]) -> None:
    dtype = torch.promote_types(x.dtype, torch.float32)
    if scores.dtype != dtype:
        raise InvalidConfig(f"{name} must be {dtype} for x of {x.dtype}, and got {scores.dtype}; convert it.")
    if tuple(scores.shape) != wanted:
        raise InvalidConfig(f"{name} must have the shape {list(wanted)}, and got {list(scores.shape)}.")
