"""What can be computed with `Lanes`: channel by channel, each operation one instruction a register."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from fasthop.kernels.spmm.lanes import each_register, instruction, llvm_function, narrow, splat, widen


def binary(lanes: Any, make: Any) -> Any:
    """The code of out[k] = make(builder, a[k], b[k])."""

    def codegen(context, builder, signature, args):
        return each_register(
            context,
            builder,
            lanes,
            lambda k: make(builder, builder.extract_value(args[0], k), builder.extract_value(args[1], k)),
        )

    return codegen


@instruction
def add(typingctx, a, b):
    """a + b."""
    return a(a, a), binary(a, lambda builder, p, q: builder.fadd(p, q))


@instruction
def divide(typingctx, a, b):
    """a / b."""
    return a(a, a), binary(a, lambda builder, p, q: builder.fdiv(p, q))


@instruction
def larger(typingctx, a, b):
    """The larger of a and b; not-a-number where either is, as torch has it."""

    def make(builder, p, q):
        take_q = builder.or_(builder.fcmp_ordered(">", q, p), builder.fcmp_unordered("uno", q, q))
        return builder.select(take_q, q, p)

    return a(a, a), binary(a, make)


@instruction
def equal(typingctx, a, b):
    """1 where a == b, else 0."""

    def make(builder, p, q):
        return builder.uitofp(builder.fcmp_ordered("==", p, q), p.type)

    return a(a, a), binary(a, make)


@instruction
def where_equal(typingctx, a, b, c):
    """c where a == b, else 0."""

    def codegen(context, builder, signature, args):
        def make(k):
            p, q, r = (builder.extract_value(arg, k) for arg in args)
            return builder.select(builder.fcmp_ordered("==", p, q), r, ir.Constant(r.type, None))

        return each_register(context, builder, a, make)

    return a(a, a, a), codegen


@instruction
def multiply_add(typingctx, scalar, a, total):
    """total + scalar * a, fused to one rounding where the processor can."""

    def codegen(context, builder, signature, args):
        factor = splat(builder, args[0], total.vector)

        def make(k):
            product = builder.fmul(factor, builder.extract_value(args[1], k), flags=["contract"])
            return builder.fadd(builder.extract_value(args[2], k), product, flags=["contract"])

        return each_register(context, builder, total, make)

    return total(total.scalar, total, total), codegen


@instruction
def message(typingctx, scalar, a, x):
    """scalar * a, rounded to the dtype of the array x: the very number that PyG would keep for this edge."""

    def codegen(context, builder, signature, args):
        factor = splat(builder, args[0], a.vector)

        def make(k):
            product = builder.fmul(factor, builder.extract_value(args[1], k))
            return widen(builder, narrow(builder, product, a), a) if x.dtype == types.uint16 else product

        return each_register(context, builder, a, make)

    return a(a.scalar, a, x), codegen


@instruction
def dot(typingctx, a, b):
    """sum over channels of a * b. Registers are added first, then the channels of one pairwise."""

    def codegen(context, builder, signature, args):
        total = None
        for k in range(a.num_registers):
            product = builder.fmul(
                builder.extract_value(args[0], k), builder.extract_value(args[1], k), flags=["contract"]
            )
            total = product if total is None else builder.fadd(total, product, flags=["contract"])
        element = a.vector.element
        name = f"llvm.vector.reduce.fadd.v{a.per_register}f{a.scalar.bitwidth}"
        reduce = llvm_function(builder, name, element, [element, a.vector])
        # "reassoc" lets LLVM add the channels pairwise; without it the sum is a chain of 16.
        return builder.call(reduce, [ir.Constant(element, -0.0), total], fastmath=["reassoc"])

    return a.scalar(a, a), codegen
