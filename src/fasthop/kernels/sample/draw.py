"""Random numbers that depend on where they are used and on nothing else.

Each number is a hash of (key, position of the target in the batch, number of the draw), so that a
batch comes out the same whichever thread makes it, and whatever was made before it. The hash is the
finaliser of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
OOPSLA 2014) over a Weyl sequence. Bounded integers are exact: the multiply-and-reject method of
Lemire, "Fast random integer generation in an interval", ACM TOMACS 2019.
"""

from __future__ import annotations

import numpy as np

from fasthop.jit import kernel

WEYL = np.uint64(0x9E3779B97F4A7C15)
MUL_1 = np.uint64(0xBF58476D1CE4E5B9)
MUL_2 = np.uint64(0x94D049BB133111EB)
LOW_32 = np.uint64(0xFFFFFFFF)
S27, S30, S31, S32 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)
MASK_64 = (1 << 64) - 1


def draw_key(*counters: int) -> int:
    """One 64-bit key out of several integers such as (seed, epoch, batch); order counts."""
    key = 0
    for counter in counters:
        key = mix_int(key ^ mix_int((counter + int(WEYL)) & MASK_64))
    return key


def mix_int(z: int) -> int:
    """`mix` in Python's integers."""
    z = ((z ^ (z >> 30)) * int(MUL_1)) & MASK_64
    z = ((z ^ (z >> 27)) * int(MUL_2)) & MASK_64
    return z ^ (z >> 31)


@kernel
def mix(z):
    """SplitMix64's finaliser: uint64 -> uint64, a bijection whose every output bit depends on every input bit."""
    z = (z ^ (z >> S30)) * MUL_1
    z = (z ^ (z >> S27)) * MUL_2
    return z ^ (z >> S31)


@kernel
def below(bits, bound):
    """A uniform integer in 0 .. bound - 1 from 64 random bits; bound from 1 to 2^32 - 1, uint64 all.

    floor(u * bound / 2^32) for u of 32 bits; u whose low product falls below 2^32 mod bound is
    drawn again, else some values would come up more often (by a part in 2^32 / bound).
    """
    product = (bits >> S32) * bound
    if (product & LOW_32) < bound:
        threshold = ((LOW_32 + np.uint64(1)) - bound) % bound
        while (product & LOW_32) < threshold:
            bits = mix(bits + WEYL)
            product = (bits >> S32) * bound
    return product >> S32
