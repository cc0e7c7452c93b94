"""The hashes of draw.py in Triton: the same bits on a GPU as on the CPU.

Imported only where a kernel runs on a GPU; see spmm's gpu_passes.py.
"""

from __future__ import annotations

import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]

_WEYL: tl.constexpr = tl.constexpr(0x9E3779B97F4A7C15)
_MUL_1: tl.constexpr = tl.constexpr(0xBF58476D1CE4E5B9)
_MUL_2: tl.constexpr = tl.constexpr(0x94D049BB133111EB)


@triton.jit
def mix(z):
    """draw.mix: uint64 -> uint64."""
    z = (z ^ (z >> 30)) * _MUL_1
    z = (z ^ (z >> 27)) * _MUL_2
    return z ^ (z >> 31)


@triton.jit
def key_of(seed):
    """draw.draw_key of one seed, read from the device's memory: a CUDA graph that replays reads the new one."""
    return mix(mix(tl.load(seed).to(tl.uint64, bitcast=True) + _WEYL))


@triton.jit
def entry_bits(key, entry):
    """The 64 bits of each entry."""
    return mix(key + (entry.to(tl.int64) + 1).to(tl.uint64, bitcast=True) * _WEYL)
