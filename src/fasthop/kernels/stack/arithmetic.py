"""What a stack computes channel by channel, beside what spmm's and attention's arithmetic have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from fasthop.kernels.spmm.arithmetic import binary
from fasthop.kernels.spmm.lanes import (
    REGISTER_BYTES,
    Lanes,
    constant_vector,
    each_register,
    element_address,
    instruction,
    llvm_function,
    splat,
    store_register,
)

_INDEX = ir.IntType(64)


@instruction
def smaller(typingctx, a, b):
    """The smaller of a and b; not-a-number where either is."""

    def make(builder, p, q):
        take_q = builder.or_(builder.fcmp_ordered("<", q, p), builder.fcmp_unordered("uno", q, q))
        return builder.select(take_q, q, p)

    return a(a, a), binary(a, make)


@instruction
def where_positive(typingctx, y, a, b):
    """b where y <= 0, else a (also where y is not a number)."""

    def codegen(context, builder, signature, args):
        def make(k):
            p, q, r = (builder.extract_value(arg, k) for arg in args)
            return builder.select(builder.fcmp_ordered("<=", p, constant_vector(p.type, 0.0)), r, q)

        return each_register(context, builder, y, make)

    return y(y, y, y), codegen


@instruction
def root(typingctx, a):
    """The square root."""

    def codegen(context, builder, signature, args):
        name = f"llvm.sqrt.v{a.per_register}f{a.scalar.bitwidth}"
        sqrt = llvm_function(builder, name, a.vector, [a.vector])
        return each_register(
            context, builder, a, lambda k: builder.call(sqrt, [builder.extract_value(args[0], k)])
        )

    return a(a), codegen


def _reduced(builder: Any, a: Lanes, value: Any, rest: float, name: str, start: list[Any], make: Any) -> Any:
    """All channels of `a` reduced to one number; channels that are not in use count as `rest`."""
    total = None
    for k in range(a.num_registers):
        register = builder.extract_value(value, k)
        used = a.used(k)
        if used is not None:
            bits = [1] * used + [0] * (a.per_register - used)
            mask = ir.Constant(ir.VectorType(ir.IntType(1), a.per_register), bits)
            register = builder.select(mask, register, constant_vector(a.vector, rest))
        total = register if total is None else make(total, register)
    element = a.vector.element
    takes = [value.type for value in start] + [a.vector]
    function = llvm_function(
        builder, f"llvm.vector.reduce.{name}.v{a.per_register}f{a.scalar.bitwidth}", element, takes
    )
    # "reassoc" lets LLVM add the channels pairwise; without it the sum is a chain of 16.
    return builder.call(function, [*start, total], fastmath=["reassoc"])


@instruction
def sum_channels(typingctx, a):
    """The sum of all channels."""

    def codegen(context, builder, signature, args):
        start = [ir.Constant(a.vector.element, -0.0)]
        return _reduced(builder, a, args[0], 0.0, "fadd", start, lambda p, q: builder.fadd(p, q))

    return a.scalar(a), codegen


@instruction
def highest_channel(typingctx, a):
    """The largest channel; channels that are not a number are passed over."""

    def codegen(context, builder, signature, args):
        def larger(p, q):
            return builder.select(builder.fcmp_ordered(">", q, p), q, p)

        return _reduced(builder, a, args[0], float("-inf"), "fmax", [], larger)

    return a.scalar(a), codegen


@instruction
def several(typingctx, like, count):
    """Zeros in as many times the registers of `like` as the tuple `count` is long: one row of `like` after another."""
    block = Lanes(like.scalar, like.num_registers * count.count, 0)

    def codegen(context, builder, signature, args):
        return each_register(context, builder, block, lambda k: constant_vector(block.vector, 0.0))

    return block(like, count), codegen


@instruction
def add_outer(typingctx, block, x, offset, step, b):
    """block[q] + x[offset + q * step] * b for every row q of a block of `several` rows such as b."""
    rows = block.num_registers // b.num_registers

    def codegen(context, builder, signature, args):
        total = args[0]
        for q in range(rows):
            at = builder.add(args[2], builder.mul(args[3], _INDEX(q)))
            factor = builder.load(element_address(context, builder, signature.args[1], args[1], at))
            factor = splat(builder, factor, b.vector)
            for j in range(b.num_registers):
                place = q * b.num_registers + j
                product = builder.fmul(factor, builder.extract_value(args[4], j), flags=["contract"])
                added = builder.fadd(builder.extract_value(total, place), product, flags=["contract"])
                total = builder.insert_value(total, added, place)
        return total

    return block(block, x, types.uint64, types.uint64, b), codegen


def _row_of(typingctx, block, like, q):
    """Row q of a block, as lanes such as `like`; q is a number known when this is compiled."""
    row = q.literal_value * like.num_registers

    def codegen(context, builder, signature, args):
        return each_register(context, builder, like, lambda k: builder.extract_value(args[0], row + k))

    return like(block, like, q), codegen


row_of: Callable[..., Any] = intrinsic(prefer_literal=True)(_row_of)


@instruction
def store_rows(typingctx, x, offset, step, block, like):
    """x[offset + q * step : ...] = row q of a block of rows such as `like`, for all of them."""
    rows = block.num_registers // like.num_registers

    def codegen(context, builder, signature, args):
        for q in range(rows):
            at = builder.add(args[1], builder.mul(args[2], _INDEX(q)))
            pointer = element_address(context, builder, signature.args[0], args[0], at)
            for k in range(like.num_registers):
                value = builder.extract_value(args[3], q * like.num_registers + k)
                store_register(builder, value, pointer, like, k)
        return context.get_dummy_value()

    return types.void(x, types.uint64, types.uint64, block, like), codegen


@instruction
def pointer_like(typingctx, address, x):
    """The int64 address as a pointer to what the array x holds."""
    to = types.CPointer(x.dtype)

    def codegen(context, builder, signature, args):
        return builder.inttoptr(args[0], context.get_value_type(to))

    return to(types.int64, x), codegen


@instruction
def number_at(typingctx, job, word):
    """A word of a job as the float64 whose bits it has."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(builder.load(builder.gep(args[0], [args[1]])), ir.DoubleType())

    return types.float64(job, types.int64), codegen


@instruction
def call_job(typingctx, function, job):
    """Calls the C function at the address `function` with the address `job`."""

    def codegen(context, builder, signature, args):
        kind = ir.FunctionType(ir.VoidType(), [_INDEX])
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), [args[1]])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


@instruction
def call_team(typingctx, parallel, function, job, num_threads):
    """Calls `GOMP_parallel` at the address `parallel`: the C function with the job on num_threads threads."""

    def codegen(context, builder, signature, args):
        uint = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [_INDEX, _INDEX, uint, uint])
        threads = builder.trunc(args[3], uint)
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), [args[1], args[2], threads, uint(0)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64, types.int64), codegen


@instruction
def call_blas(typingctx, function, job, first):
    """Calls a Fortran `?gemm` whose 13 arguments lie in the words of a job from `first` on: transa, transb, m, n, k,
    alpha, a, lda, b, ldb, beta, c, ldc; a, b and c are addresses, the others are the words themselves."""

    def codegen(context, builder, signature, args):
        kind = ir.FunctionType(ir.VoidType(), [_INDEX] * 13)
        addresses = []
        for k in range(13):
            at = builder.gep(args[1], [builder.add(args[2], _INDEX(k))])
            addresses.append(builder.load(at) if k in (6, 8, 11) else builder.ptrtoint(at, _INDEX))
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), addresses)
        return context.get_dummy_value()

    return types.void(types.int64, job, types.int64), codegen


def registers(width: int, kind: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(full, tail): a width as the two tuples that lanes.py tells it by."""
    per = REGISTER_BYTES // (8 if kind == "float64" else 4)
    return (0,) * (width // per), (0,) * (width % per)
