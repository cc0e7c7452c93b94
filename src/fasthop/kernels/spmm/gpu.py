"""spmm and its gradients on a GPU, in Triton: cpu.py's functions with cpu.py's arguments.

Deterministic: the same bits every time, hubs and all (see gpu_passes.py). Nothing waits for the device, so a CUDA graph can
hold every call. Nothing is checked here: op.py checks shapes and dtypes, adjacency.py the indices. These kernels ran in
Triton's interpreter and through its compiler, but have not yet run on a GPU; docs/design/gpu.md.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

from fasthop.kernels.spmm import gpu_passes

# Entries that a program takes of a long row. Not tuned: no GPU was at hand.
SPLIT = 256
# Numbers in a tile of entries x channels, and the widest row of a tile. Not tuned either.
TILE = 512
WIDEST_BLOCK = 128
_PASSES = {"sum": gpu_passes.SUM, "mean": gpu_passes.MEAN, "max": gpu_passes.MAX, "min": gpu_passes.MIN}


def spmm(x: Tensor, rowptr: Tensor, col: Tensor | None, value: Tensor | None, reduce: str) -> Tensor:
    """out[i] = reduce over entries e of row i of value[e] * x[col[e]]; see reference.py.

    x: [num_cols, C] float32, float64, bfloat16 or float16, contiguous; half precision is summed in float32. value: float32
    for half precision, else x's dtype. col: None where entry e reads row e of x.
    """
    out = x.new_empty(rowptr.numel() - 1, x.size(1))
    reduce_rows(_PASSES[reduce], rowptr, col, value, (x, x, x), out)
    return out


def tie_share(
    x: Tensor, rowptr: Tensor, col: Tensor, value: Tensor | None, y: Tensor, grad: Tensor
) -> Tensor:
    """The part of grad [num_rows, C] that each entry gets which ties for the extremum y; in x's dtype."""
    out = torch.empty_like(y)
    reduce_rows(gpu_passes.SHARE, rowptr, col, value, (x, y, grad), out)
    return out


def extremum_grad(
    x: Tensor, rowptr_t: Tensor, col_t: Tensor, value_t: Tensor | None, y: Tensor, share: Tensor
) -> Tensor:
    """The gradient to x of max and min, by the transposed matrix."""
    out = torch.empty_like(x)
    reduce_rows(gpu_passes.EXTREMUM_BACK, rowptr_t, col_t, value_t, (x, y, share), out)
    return out


def sddmm(x: Tensor, rowptr: Tensor, col: Tensor, grad: Tensor) -> Tensor:
    """[num_entries]: dot(grad[i], x[col[e]]), in float32 for half precision, else in x's dtype."""
    return _dots(x, rowptr, col, None, grad, None)


def extremum_value_grad(
    x: Tensor, rowptr: Tensor, col: Tensor, value: Tensor, y: Tensor, share: Tensor
) -> Tensor:
    """[num_entries]: the gradient to the values of max and min."""
    return _dots(x, rowptr, col, value, y, share)


def accumulated(dtype: torch.dtype) -> tl.dtype:
    """Triton's name of the dtype that x of `dtype` is summed in: float64 for float64, else float32."""
    return tl.float64 if dtype == torch.float64 else tl.float32


def blocks(channels: int) -> tuple[int, int, int]:
    """(entries of a tile, channels of a tile, warps)."""
    width = min(triton.next_power_of_2(channels), WIDEST_BLOCK)
    return TILE // width, width, 2


def num_chunks(num_entries: int) -> int:
    """How many chunks a long row may have a part in; 0 where no row can be long."""
    return triton.cdiv(num_entries, SPLIT) if num_entries > SPLIT else 0


def launch(
    kernel: Any, grid: tuple[int, ...], tensor: Tensor, *arguments: Any, num_warps: int = 4, **numbers: Any
) -> None:
    """Runs a kernel with `tensor` as its first argument. Triton launches on the current device, so tensor's is made that.

    On the CPU, where Triton's interpreter runs, there is none to choose.
    """
    with torch.cuda.device(tensor.device) if tensor.is_cuda else nullcontext():
        # Products are added in one rounding, as on the CPU; Triton 3.9 warns where it is not told, 3.10 will not fuse.
        kernel[grid](tensor, *arguments, num_warps=num_warps, enable_fp_fusion=True, **numbers)


def reduce_rows(
    which: tl.constexpr,
    rowptr: Tensor,
    col: Tensor | None,
    value: Tensor | None,
    operands: tuple[Tensor, Tensor, Tensor],
    out: Tensor,
) -> None:
    """Runs a pass over all rows, then over the parts of the long ones."""
    a, b, c = operands
    num_rows, channels = rowptr.numel() - 1, out.size(1)
    if num_rows == 0 or channels == 0:
        return
    num_entries = a.size(0) if col is None else col.numel()
    chunks = num_chunks(num_entries)
    acc = accumulated(a.dtype)
    block_e, block_c, warps = blocks(channels)
    wide = torch.float64 if acc == tl.float64 else torch.float32
    # A pointer is asked for even where nothing is written or read through it.
    scratch = torch.empty((max(chunks, 1), channels), dtype=wide, device=out.device)
    launch(
        gpu_passes.reduce_rows,
        (num_rows + chunks, triton.cdiv(channels, block_c)),
        rowptr,
        rowptr if col is None else col,
        scratch if value is None else value,
        a,
        b,
        c,
        out,
        scratch,
        num_rows,
        channels,
        PASS=which,
        HAS_VALUE=value is not None,
        HAS_COL=col is not None,
        SPLIT=SPLIT,
        BLOCK_E=block_e,
        BLOCK_C=block_c,
        ACC=acc,
        num_warps=warps,
    )
    if chunks:
        combine(which, rowptr, b, c, out, scratch)


def combine(which: tl.constexpr, rowptr: Tensor, b: Tensor, c: Tensor, out: Tensor, scratch: Tensor) -> None:
    """Puts the parts of long rows together: scratch [chunks, C] into out's rows."""
    channels = out.size(1)
    block_e, block_c, warps = blocks(channels)
    launch(
        gpu_passes.combine,
        (scratch.size(0), triton.cdiv(channels, block_c)),
        rowptr,
        b,
        c,
        out,
        scratch,
        rowptr.numel() - 1,
        channels,
        PASS=which,
        SPLIT=SPLIT,
        BLOCK_E=block_e,
        BLOCK_C=block_c,
        ACC=accumulated(scratch.dtype),
        num_warps=warps,
    )


def _dots(
    x: Tensor, rowptr: Tensor, col: Tensor, value: Tensor | None, b: Tensor, share: Tensor | None
) -> Tensor:
    wide = torch.promote_types(x.dtype, torch.float32)
    num_rows, channels = rowptr.numel() - 1, x.size(1)
    if channels == 0 or col.numel() == 0:
        return torch.zeros(col.numel(), dtype=wide, device=x.device)
    out = torch.empty(col.numel(), dtype=wide, device=x.device)
    block_e, block_c, warps = blocks(channels)
    launch(
        gpu_passes.dot_entries,
        (num_rows + num_chunks(col.numel()),),
        rowptr,
        col,
        out if value is None else value,
        x,
        b,
        b if share is None else share,
        out,
        num_rows,
        channels,
        IS_EXTREMUM=share is not None,
        HAS_VALUE=value is not None,
        SPLIT=SPLIT,
        BLOCK_E=block_e,
        BLOCK_C=block_c,
        ACC=accumulated(x.dtype),
        num_warps=warps,
    )
    return out
