"""Heads and channels in vector registers: a number a head, spread over its channels, and channels summed by head.

A row of x is [heads, channels] without gaps, so it is one `Lanes` of heads * channels, and the scores of its heads are a
small `Lanes` of as many as there are heads. Going from one to the other is a fixed permutation of registers
(one instruction each where the processor has AVX-512 or AVX2), whatever the number of channels a head.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from fasthop.kernels.spmm.lanes import Lanes, constant_vector, each_register, instruction, splat

_INT32 = ir.IntType(32)
# The finaliser of MurmurHash3 (Appleby, public domain) and the golden ratio's 32 bits between heads.
_GOLDEN, _MUR_1, _MUR_2 = 0x9E3779B9, 0x85EBCA6B, 0xC2B2AE35


def width(lanes: Lanes) -> int:
    """How many channels of the lanes are in use."""
    return lanes.num_registers * lanes.per_register - (lanes.per_register - lanes.tail if lanes.tail else 0)


def _permuted(builder: Any, registers: list[Any], picks: list[int]) -> list[Any]:
    """Registers whose lane p is lane picks[p] of `registers`, counted through; any value beyond the picks."""
    per = registers[0].type.count
    vector = registers[0].type
    out = []
    for start in range(0, len(picks), per):
        wanted = picks[start : start + per]
        sources = sorted({pick // per for pick in wanted})
        if len(sources) == 1 and all(pick % per == p for p, pick in enumerate(wanted)):
            out.append(registers[sources[0]])
            continue
        total = registers[sources[0]]
        other = registers[sources[1]] if len(sources) > 1 else ir.Constant(vector, ir.Undefined)
        mask = [pick % per + per * (pick // per != sources[0]) for pick in wanted]
        mask = [m if wanted[p] // per in sources[:2] else p for p, m in enumerate(mask)]
        total = builder.shuffle_vector(total, other, _indices(mask, per))
        for source in sources[2:]:
            mask = [per + pick % per if pick // per == source else p for p, pick in enumerate(wanted)]
            total = builder.shuffle_vector(total, registers[source], _indices(mask, per))
        out.append(total)
    return out


def _indices(mask: list[int], per: int) -> ir.Constant:
    return ir.Constant(ir.VectorType(_INT32, per), mask + list(range(len(mask), per)))


def _registers(builder: Any, value: Any, lanes: Lanes) -> list[Any]:
    return [builder.extract_value(value, k) for k in range(lanes.num_registers)]


@instruction
def spread(typingctx, a, like):
    """a[h] for every channel of head h: lanes such as `like`, which has as many channels for each of a's heads."""
    num_heads = width(a)
    num_channels = width(like) // num_heads

    def codegen(context, builder, signature, args):
        picks = [h for h in range(num_heads) for _ in range(num_channels)]
        out = _permuted(builder, _registers(builder, args[0], a), picks)
        return each_register(context, builder, like, lambda k: out[k])

    return like(a, like), codegen


@instruction
def sum_by_head(typingctx, a, like):
    """The sum over each head's channels of `a`: lanes such as `like`, one a head. Channels are added pairwise."""
    num_heads = width(like)

    def codegen(context, builder, signature, args):
        registers = _registers(builder, args[0], a)
        channels = width(a) // num_heads
        while channels > 1:
            left = channels // 2
            halved = channels - left
            nothing = len(registers) * a.per_register
            low, high = [], []
            for h in range(num_heads):
                low += range(h * channels, h * channels + halved)
                high += [*range(h * channels + halved, (h + 1) * channels), *[nothing] * (halved - left)]
            sources = [*registers, constant_vector(a.vector, 0.0)]
            registers = [
                builder.fadd(p, q)
                for p, q in zip(
                    _permuted(builder, sources, low), _permuted(builder, sources, high), strict=True
                )
            ]
            channels = halved
        return each_register(context, builder, like, lambda k: registers[k])

    return like(a, like), codegen


@instruction
def keep(typingctx, bits, threshold, scale, like, first_head, dropped):
    """The factor that dropout gives each head of one entry: `scale` where the head stays, else 0; 1 where `dropped` is
    the empty tuple.

    bits: uint64, the hash of (seed, entry). The lower half, moved on by the head's number and mixed again, xor the upper
    half is the head's own 32 bits; it stays where they are below `threshold` (uint64, at most 2^32).
    """

    def codegen(context, builder, signature, args):
        if not dropped.count:
            return each_register(context, builder, like, lambda k: constant_vector(like.vector, 1.0))
        factor = context.cast(builder, args[2], signature.args[2], like.scalar)
        factors = keep_registers(builder, like, args[0], args[1], factor, args[4])
        return each_register(context, builder, like, lambda k: factors[k])

    return like(types.uint64, types.uint64, types.float64, like, types.uint64, dropped), codegen


def keep_registers(
    builder: Any, like: Lanes, bits: Any, threshold: Any, factor: Any, first_head: Any
) -> list[Any]:
    """The code of `keep`, a register after another; factor is a number of the lanes' dtype."""
    words = ir.VectorType(_INT32, like.per_register)
    wide = ir.VectorType(ir.IntType(64), like.per_register)
    low = splat(builder, builder.trunc(bits, _INT32), words)
    high = splat(builder, builder.trunc(builder.lshr(bits, ir.Constant(bits.type, 32)), _INT32), words)
    first = splat(builder, builder.trunc(first_head, _INT32), words)
    factor = splat(builder, factor, like.vector)

    def make(k):
        head = [k * like.per_register + p for p in range(like.per_register)]
        head = builder.add(first, ir.Constant(words, head))
        v = builder.add(low, builder.mul(head, constant_vector(words, _GOLDEN)))
        v = builder.xor(v, builder.lshr(v, constant_vector(words, 16)))
        v = builder.mul(v, constant_vector(words, _MUR_1))
        v = builder.xor(v, builder.lshr(v, constant_vector(words, 13)))
        v = builder.mul(v, constant_vector(words, _MUR_2))
        v = builder.xor(builder.xor(v, builder.lshr(v, constant_vector(words, 16))), high)
        stays = builder.icmp_unsigned("<", builder.zext(v, wide), splat(builder, threshold, wide))
        return builder.select(stays, factor, constant_vector(like.vector, 0.0))

    return [make(k) for k in range(like.num_registers)]
