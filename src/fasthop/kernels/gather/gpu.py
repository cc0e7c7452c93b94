"""Gather on a GPU, in Triton: rows are copied as machine words, so one kernel serves every dtype."""

from __future__ import annotations

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

from fasthop.kernels.spmm.gpu import launch

# Words that a program copies, and the widest row of its tile. Not tuned: no GPU was at hand.
TILE = 1024
WIDEST_BLOCK = 256


@triton.jit
def _copy_rows(words, index, out, num_rows, width, BLOCK_N: tl.constexpr, BLOCK_W: tl.constexpr):
    """out[i, :] = words[index[i], :]."""
    row = tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    word = tl.program_id(1).to(tl.int64) * BLOCK_W + tl.arange(0, BLOCK_W)
    is_row = row < num_rows
    mask = is_row[:, None] & (word < width)[None, :]
    source = tl.load(index + row, mask=is_row, other=0)
    tile = tl.load(words + source[:, None] * width + word[None, :], mask=mask, other=0)
    tl.store(out + row[:, None] * width + word[None, :], tile, mask=mask)


def gather_rows(x: Tensor, index: Tensor, out: Tensor) -> None:
    """out[i] = x[index[i]] for contiguous x [N, ...] and out [n, ...] of one dtype; index int64 [n]; all on one device.

    Raises IndexError where an index lies outside 0 .. N - 1, which the host waits to hear; while a CUDA graph is
    captured it cannot wait, and the index is taken on trust.
    """
    is_captured = x.is_cuda and torch.cuda.is_current_stream_capturing()
    if index.numel() and not is_captured:
        low, high = (int(bound) for bound in torch.aminmax(index))
        if low < 0 or high >= x.size(0):
            raise IndexError(
                f"an index lies outside 0 .. {x.size(0) - 1}, the rows of a tensor of shape {list(x.shape)}"
            )
    if out.numel() == 0:
        return
    word = _word(x, out)
    words, target = (t.detach().reshape(-1).view(word).view(t.size(0), -1) for t in (x, out))
    width = words.size(1)
    block_w = min(triton.next_power_of_2(width), WIDEST_BLOCK)
    block_n = TILE // block_w
    grid = (triton.cdiv(index.numel(), block_n), triton.cdiv(width, block_w))
    launch(
        _copy_rows,
        grid,
        words,
        index.contiguous(),
        target,
        index.numel(),
        width,
        BLOCK_N=block_n,
        BLOCK_W=block_w,
    )


def _word(*tensors: Tensor) -> torch.dtype:
    """The widest integer that the rows of all the tensors consist of and start at."""
    for dtype in (torch.int64, torch.int32, torch.int16):
        size = dtype.itemsize
        if all(
            t[0].nbytes % size == 0 and t.data_ptr() % size == 0 and t.element_size() <= size for t in tensors
        ):
            return dtype
    return torch.int8
