"""Dropout on the entries of a sparse matrix, in Triton: the draws of entry_dropout.py, bit for bit."""

from __future__ import annotations

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

from fasthop.kernels.sample.gpu_draw import entry_bits, key_of
from fasthop.kernels.spmm.gpu import launch

_BLOCK = 1024


@triton.jit
def _scale(
    seed,
    perm,
    out,
    num_entries,
    THRESHOLD: tl.constexpr,
    SCALE: tl.constexpr,
    HAS_PERM: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """out[e] = SCALE where the hash of (seed, place) is below THRESHOLD, else 0; place is perm[e], or e."""
    entry = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    is_entry = entry < num_entries
    place = entry
    if HAS_PERM:
        place = tl.load(perm + entry, mask=is_entry, other=0).to(tl.int64)
    bits = (entry_bits(key_of(seed), place) >> 11).to(tl.int64)
    factor = tl.zeros((BLOCK,), out.dtype.element_ty) + SCALE
    tl.store(out + entry, tl.where(bits < THRESHOLD, factor, 0.0), mask=is_entry)


def entry_dropout(
    seed: Tensor, num_entries: int, p: float, perm: Tensor | None, dtype: torch.dtype
) -> Tensor:
    """As entry_dropout.entry_dropout; the seed is read on the device, so that nothing waits for it."""
    out = torch.empty(num_entries, dtype=dtype, device=seed.device)
    if num_entries == 0:
        return out
    kept = 1.0 - p
    # Numbers known when the kernel is compiled: a float argument would come as float32.
    launch(
        _scale,
        (triton.cdiv(num_entries, _BLOCK),),
        seed,
        seed if perm is None else perm,
        out,
        num_entries,
        THRESHOLD=round(kept * 2.0**53),
        SCALE=1.0 / kept if kept > 0 else 0.0,
        HAS_PERM=perm is not None,
        BLOCK=_BLOCK,
    )
    return out
