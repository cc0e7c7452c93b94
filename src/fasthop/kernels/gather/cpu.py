"""Gather, compiled: rows are copied as machine words, so one kernel serves every dtype."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fasthop.jit import kernel
from fasthop.kernels.gather.stream import stream_rows

# An output as large as this has left a core's own caches (1 or 2 MB) before anyone reads it. Written past them, 103,000
# rows of 512 bytes take 6.3 ms in place of 9.5, and what reads them afterwards is no slower.
STREAM_FROM_BYTES = 8 << 20


@kernel
def all_below(index, bound):
    """Whether 0 <= index[i] < bound for all i: as unsigned numbers, negative ones are huge."""
    good = True
    for i in range(np.uint64(index.size)):
        good &= np.uint64(index[i]) < np.uint64(bound)
    return good


@kernel
def copy_rows(words, index, out):
    """out[i, :] = words[index[i], :]. Unsigned indices: numba emits no wrap-around, LLVM a wide copy."""
    width = np.uint64(words.shape[1])
    for i in range(np.uint64(index.size)):
        row = np.uint64(index[i])
        for j in range(width):
            out[i, j] = words[row, j]


def gather_rows(x: Tensor, index: Tensor, out: Tensor) -> None:
    """out[i] = x[index[i]] for contiguous x [N, ...] and out [n, ...] of one dtype; index int64 [n] on the CPU.

    Raises IndexError where an index lies outside 0 .. N - 1. Serial, with the GIL released: on
    several threads at once it takes no lock and wakes no pool that the model's own kernels use.
    """
    n_id = index.contiguous().numpy()
    if not all_below(n_id, x.size(0)):
        raise IndexError(
            f"an index lies outside 0 .. {x.size(0) - 1}, the rows of a tensor of shape {list(x.shape)}"
        )
    if out.numel() == 0:
        return
    word = _word(x, out)
    whole_lines = word == "int64" and out[0].nbytes % 64 == 0 and out.data_ptr() % 64 == 0
    copy = stream_rows if whole_lines and out.nbytes >= STREAM_FROM_BYTES else copy_rows
    copy(_words(x, word), n_id, _words(out, word))


def _word(*tensors: Tensor) -> str:
    """The widest word that the rows of all the tensors consist of and start at."""
    for name, size in (("int64", 8), ("int32", 4), ("int16", 2)):
        if all(t[0].nbytes % size == 0 and t.data_ptr() % size == 0 for t in tensors):
            return name
    return "uint8"


def _words(tensor: Tensor, word: str) -> np.ndarray:
    flat = tensor.detach().reshape(-1).view(torch.uint8)
    return flat.numpy().view(word).reshape(tensor.size(0), -1)
