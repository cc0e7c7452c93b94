"""What attention computes channel by channel, beside what spmm's arithmetic has."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir

from fasthop.kernels.spmm.arithmetic import binary
from fasthop.kernels.spmm.lanes import Lanes, constant_vector, each_register, instruction, splat


@instruction
def subtract(typingctx, a, b):
    """a - b."""
    return a(a, a), binary(a, lambda builder, p, q: builder.fsub(p, q))


@instruction
def multiply(typingctx, a, b):
    """a * b."""
    return a(a, a), binary(a, lambda builder, p, q: builder.fmul(p, q))


@instruction
def add_product(typingctx, a, b, total):
    """total + a * b, fused to one rounding where the processor can."""

    def codegen(context, builder, signature, args):
        def make(k):
            p, q, r = (builder.extract_value(arg, k) for arg in args)
            return builder.fadd(r, builder.fmul(p, q, flags=["contract"]), flags=["contract"])

        return each_register(context, builder, a, make)

    return a(a, a, a), codegen


@instruction
def gate(typingctx, z, a, slope):
    """a where z > 0, else slope * a: leaky_relu where a is z, and its gradient where a is the outer gradient."""

    def codegen(context, builder, signature, args):
        factor = splat(builder, context.cast(builder, args[2], signature.args[2], z.scalar), z.vector)

        def make(k):
            p, q = builder.extract_value(args[0], k), builder.extract_value(args[1], k)
            positive = builder.fcmp_ordered(">", p, constant_vector(z.vector, 0.0))
            return builder.select(positive, q, builder.fmul(factor, q))

        return each_register(context, builder, z, make)

    return z(z, z, slope), codegen


@instruction
def exp(typingctx, a):
    """e^a for a <= 0; 0 below the smallest normal number; not-a-number stays one."""

    def codegen(context, builder, signature, args):
        return each_register(
            context, builder, a, lambda k: exp_register(builder, a, builder.extract_value(args[0], k))
        )

    return a(a), codegen


def exp_register(builder: Any, a: Lanes, x: Any) -> Any:
    """The code of e^x for one register of `a`, x <= 0.

    x = n ln 2 + r with |r| <= ln 2 / 2 (ln 2 in two parts: Cody and Waite, "Software Manual for the Elementary
    Functions", 1980), e^r by Taylor's series, 2^n added to the exponent's bits. The series ends where what is left is below
    half a unit in the last place: r^8/8! < 6e-9 and r^14/14! < 5e-18. libm's, which LLVM would call head by head, takes
    about ten times as long.
    """
    is_double = a.scalar.bitwidth == 64
    degree = 13 if is_double else 7
    mantissa = 52 if is_double else 23
    # A sum with `magic` has n in its lowest bits, rounded to nearest.
    magic = 1.5 * 2.0**mantissa
    high, low = (
        (6.93147180369123816490e-01, 1.90821492927058770002e-10)
        if is_double
        else (0.693359375, -2.12194440e-4)
    )
    smallest = -708.0 if is_double else -87.0
    vector = a.vector
    bits = ir.VectorType(ir.IntType(a.scalar.bitwidth), a.per_register)

    def number(value):
        return constant_vector(vector, value if is_double else float(_single(value)))

    def plus_product(p, q, r):
        return builder.fadd(builder.fmul(p, q, flags=["contract"]), r, flags=["contract"])

    shifted = plus_product(x, number(math.log2(math.e)), number(magic))
    n = builder.fsub(shifted, number(magic))
    r = plus_product(n, number(-low), plus_product(n, number(-high), x))
    total = number(1.0 / math.factorial(degree))
    for power in range(degree - 1, -1, -1):
        total = plus_product(total, r, number(1.0 / math.factorial(power)))
    exponent = builder.shl(builder.bitcast(shifted, bits), constant_vector(bits, mantissa))
    result = builder.bitcast(builder.add(builder.bitcast(total, bits), exponent), vector)
    result = builder.select(builder.fcmp_ordered("<", x, number(smallest)), number(0.0), result)
    return builder.select(builder.fcmp_unordered("uno", x, x), x, result)


def _single(value: float) -> Any:
    """The float32 nearest to value: LLVM takes no constant that has more bits than its type."""
    return np.float32(value)
