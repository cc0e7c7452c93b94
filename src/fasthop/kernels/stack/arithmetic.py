"""What a stack computes channel by channel, beside what spmm's and attention's arithmetic have."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from fasthop.kernels.spmm.lanes import (
    REGISTER_BYTES,
    Lanes,
    constant_vector,
    each_register,
    element_address,
    instruction,
    llvm_function,
    load_register,
    splat,
    store_register,
)

_INDEX = ir.IntType(64)


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
def load_rows(typingctx, x, offset, step, like, count):
    """As many rows such as `like` as the tuple `count` is long: row q from x[offset + q * step] on."""
    block = Lanes(like.scalar, like.num_registers * count.count, 0)

    def codegen(context, builder, signature, args):
        rows = []
        for q in range(count.count):
            at = builder.add(args[1], builder.mul(args[2], _INDEX(q)))
            pointer = element_address(context, builder, signature.args[0], args[0], at)
            rows += [load_register(builder, pointer, like.vector, like, k) for k in range(like.num_registers)]
        return each_register(context, builder, block, lambda k: rows[k])

    return block(x, types.uint64, types.uint64, like, count), codegen


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
def turn_block(typingctx, x, offset, stride, out, out_offset, out_stride, like):
    """Transposes a square of as many rows and columns as a register of `like` has channels:
    out[out_offset + j * out_stride + i] = x[offset + i * stride + j]."""
    size = like.per_register

    def codegen(context, builder, signature, args):
        def place(array_type, array, start, step, k):
            at = builder.add(start, builder.mul(step, _INDEX(k)))
            return element_address(context, builder, array_type, array, at)

        kinds = signature.args
        registers = [
            load_register(builder, place(kinds[0], args[0], args[1], args[2], i), like.vector, like, 0)
            for i in range(size)
        ]
        distance = 1
        while distance < size:  # swaps the squares of this size beside the diagonal of those twice as wide
            low = [j if not j & distance else size + j - distance for j in range(size)]
            high = [j + distance if not j & distance else size + j for j in range(size)]
            for i in range(size):
                if not i & distance:
                    a, b = registers[i], registers[i + distance]
                    for row, picks in ((i, low), (i + distance, high)):
                        mask = ir.Constant(ir.VectorType(ir.IntType(32), size), picks)
                        registers[row] = builder.shuffle_vector(a, b, mask)
            distance *= 2
        for j in range(size):
            store_register(builder, registers[j], place(kinds[3], args[3], args[4], args[5], j), like, 0)
        return context.get_dummy_value()

    place = types.uint64
    return types.void(x, place, place, out, place, place, like), codegen


@instruction
def update_of(typingctx, first, second, per_root, eps):
    """first / (sqrt(second) * per_root + eps), Adam's update.

    In float32 with AVX-512 the root and the quotient start from the processor's 14-bit estimates and one step of Newton's
    method: right to 2 units in the last place, in a third of the time (6 us for 23,000, not 19).
    """
    is_estimated = REGISTER_BYTES == 64 and first.scalar.bitwidth == 32

    def codegen(context, builder, signature, args):
        vector = first.vector

        def number(value):
            return constant_vector(vector, value)

        def product(p, q):
            return builder.fmul(p, q, flags=["contract"])

        def estimate(name, x):
            mask = ir.IntType(16)
            function = llvm_function(
                builder, f"llvm.x86.avx512.{name}.ps.512", vector, [vector, vector, mask]
            )
            return builder.call(function, [x, number(0.0), mask(-1)])

        def root_of(x):
            if not is_estimated:
                name = f"llvm.sqrt.v{first.per_register}f{first.scalar.bitwidth}"
                return builder.call(llvm_function(builder, name, vector, [vector]), [x])
            y = estimate("rsqrt14", x)
            s, half = builder.fmul(x, y), builder.fmul(y, number(0.5))
            # s + y / 2 (x - s s)
            s = builder.fadd(
                s, product(half, builder.fsub(x, product(s, s), flags=["contract"])), flags=["contract"]
            )
            is_edge = builder.or_(
                builder.fcmp_ordered("==", x, number(0.0)),
                builder.fcmp_ordered("==", x, number(float("inf"))),
            )
            return builder.select(is_edge, x, s)

        def quotient(p, q):
            if not is_estimated:
                return builder.fdiv(p, q)
            r = estimate("rcp14", q)
            rest = builder.fsub(number(1.0), product(q, r), flags=["contract"])
            r = builder.fadd(r, product(r, rest), flags=["contract"])
            r = builder.select(builder.fcmp_ordered("==", q, number(float("inf"))), number(0.0), r)
            return builder.fmul(p, r)

        def make(k):
            p, q, c, e = (builder.extract_value(arg, k) for arg in args)
            return quotient(p, builder.fadd(product(root_of(q), c), e, flags=["contract"]))

        return each_register(context, builder, first, make)

    return first(first, second, per_root, eps), codegen


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
