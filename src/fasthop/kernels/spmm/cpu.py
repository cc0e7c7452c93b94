"""spmm and its gradients on the CPU: tensors in, one compiled pass after another, tensors out.

Nothing here is checked: op.py checks shapes and dtypes, adjacency.py the indices.
"""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from fasthop.kernels.spmm import job, team
from fasthop.kernels.spmm.rows import DOT, EXTREMUM, EXTREMUM_BACK, EXTREMUM_DOT, SHARE, SUM

# Below this many multiplications one thread does it: of Cora's 170,000 (18 us against 22) two save nothing worth having,
# and where other programs hold the cores a team costs 4 to 12 ms, because it ends with the last of its threads.
TEAM_FROM = 500_000
CHUNKS_PER_THREAD = 8
# An x that leaves a core's own caches (2 MB) is fetched ahead; one of 512 KB or more already where a row is 4 cache lines
# or more. One thread: Cora x 16 loses a third by it and PubMed x 16 (1.3 MB) an eighth; Cora x 100 (1.1 MB) gains 15 %,
# the arxiv shape 8 % at width 32 and more at 256.
PREFETCH_FROM = 4 << 20
PREFETCH_WIDE_FROM = 512 << 10
WIDE_ROW_BYTES = 256

_Words = ctypes.c_int64 * job.NUM_WORDS
KINDS = {torch.float32: "float32", torch.float64: "float64", torch.bfloat16: "uint16"}


def spmm(
    x: Tensor, rowptr: Tensor, col: Tensor, value: Tensor | None, reduce: str, num_threads: int | None = None
) -> Tensor:
    """out[i] = reduce over entries e of row i of value[e] * x[col[e]]; see reference.py.

    x: [num_cols, C] float32, float64 or bfloat16, contiguous. value: in float32 for bfloat16 x, else in
    x's dtype. num_threads: None takes torch's number, or one for little work; the bits are the same for any number.
    """
    out = x.new_empty(rowptr.numel() - 1, x.size(1))
    which, flag = {"sum": (SUM, 0), "mean": (SUM, 1), "max": (EXTREMUM, 1), "min": (EXTREMUM, -1)}[reduce]
    _run(which, rowptr, col, value, (x,), out, flag, num_threads)
    return out


def tie_share(
    x: Tensor, rowptr: Tensor, col: Tensor, value: Tensor | None, y: Tensor, grad: Tensor
) -> Tensor:
    """The part of grad [num_rows, C] that each entry gets which ties for the extremum y; in x's dtype."""
    out = torch.empty_like(y)
    _run(SHARE, rowptr, col, value, (x, y, grad), out, 0, None)
    return out


def extremum_grad(
    x: Tensor, rowptr_t: Tensor, col_t: Tensor, value_t: Tensor | None, y: Tensor, share: Tensor
) -> Tensor:
    """The gradient to x of max and min, by the transposed matrix."""
    out = torch.empty_like(x)
    _run(EXTREMUM_BACK, rowptr_t, col_t, value_t, (x, y, share), out, 0, None)
    return out


def sddmm(x: Tensor, rowptr: Tensor, col: Tensor, grad: Tensor) -> Tensor:
    """[num_entries]: dot(grad[i], x[col[e]]), in float32 for bfloat16, else in x's dtype."""
    out = torch.zeros(col.numel(), dtype=torch.promote_types(x.dtype, torch.float32))
    _run(DOT, rowptr, col, None, (x, grad), out, 0, None)
    return out


def extremum_value_grad(
    x: Tensor, rowptr: Tensor, col: Tensor, value: Tensor, y: Tensor, share: Tensor
) -> Tensor:
    """[num_entries]: the gradient to the values of max and min."""
    out = torch.zeros(col.numel(), dtype=torch.promote_types(x.dtype, torch.float32))
    _run(EXTREMUM_DOT, rowptr, col, value, (x, y, share), out, 0, None)
    return out


def _run(
    which: int,
    rowptr: Tensor,
    col: Tensor,
    value: Tensor | None,
    operands: tuple[Tensor, ...],
    out: Tensor,
    flag: int,
    num_threads: int | None,
) -> None:
    x = operands[0]
    num_rows, num_entries, stride = rowptr.numel() - 1, col.numel(), x.size(1)
    if num_rows == 0 or stride == 0:
        return
    kind = KINDS[x.dtype]
    if num_threads is None:
        num_threads = 1 if num_entries * stride < TEAM_FROM else torch.get_num_threads()
    num_chunks = 1 if num_threads == 1 else min(num_rows, num_threads * CHUNKS_PER_THREAD)
    pointers = [operand.data_ptr() for operand in operands]
    pointers += [0] * (3 - len(pointers))
    value_pointer = 0 if value is None else value.data_ptr()
    # A ctypes array in place of a NumPy one: 1 us to fill and pass, not 6.
    words = _Words(
        *(
            0,
            num_chunks,
            num_rows,
            stride,
            0,
            flag,
            num_entries,
            rowptr.data_ptr(),
            col.data_ptr(),
            value_pointer,
        ),
        *pointers,
        out.data_ptr(),
    )
    address = ctypes.addressof(words)
    runs_ahead = x.nbytes >= (PREFETCH_WIDE_FROM if stride * x.itemsize >= WIDE_ROW_BYTES else PREFETCH_FROM)
    block = job.channels_at_once(which, x.itemsize)
    for channel in range(0, stride, block):
        width = min(block, stride - channel)
        function = job.compiled(
            which,
            kind,
            "int32" if col.dtype == torch.int32 else "int64",
            width,
            value is not None,
            runs_ahead,
        )
        words[job.COUNTER], words[job.CHANNEL] = 0, channel
        team.run(function, address, num_threads)
