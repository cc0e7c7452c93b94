"""Lanes: a row of channels held in vector registers, as a type that numba's functions can compute with.

numba compiles a loop over channels to a loop: the row being summed goes to memory and back with
every entry (157 us for Cora x 16 on one thread, MKL 63). A `Lanes` value is an array of LLVM
vectors of one register each, so the whole row stays in registers (46 us). The last register may be
part full (`tail` channels), which is a masked load and store: an odd width costs what the next full one does.

Widths come in as two tuples of zeros, `full` (as many as there are full registers) and `tail` (as many as
there are channels left): a tuple's length is part of its numba type, so each width is compiled for itself.
bfloat16 arrays are uint16 to numba; their lanes are float32, widened by the load and rounded to nearest even by the store.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.core.datamodel.registry import register_default
from numba.extending import intrinsic

_INDEX = ir.IntType(64)
_INT32 = ir.IntType(32)


def _register_bytes() -> int:
    features = binding.get_host_cpu_features()
    return 64 if features.get("avx512f") else 32 if features.get("avx") else 16


# AVX-512 has 32 registers: 16 sums and room for the rest; elsewhere there are 16 (NEON: 32), and 8 sums fit.
REGISTER_BYTES = _register_bytes()
MAX_REGISTERS = 16 if REGISTER_BYTES == 64 else 8


def instruction(function: Callable[..., Any]) -> Callable[..., Any]:
    """numba's `intrinsic`, with a type that does not count the typing context among the caller's arguments."""
    return intrinsic(function)


class Lanes(types.Type):
    """The numba type: `num_registers` vectors of `scalar`, the last with `tail` channels in use (0: all)."""

    def __init__(self, scalar: types.Float, num_registers: int, tail: int) -> None:
        self.scalar, self.num_registers, self.tail = scalar, num_registers, tail
        self.per_register = REGISTER_BYTES * 8 // scalar.bitwidth
        super().__init__(name=f"Lanes({scalar} x {num_registers}, tail {tail})")

    @property
    def vector(self) -> ir.VectorType:
        """The LLVM type of one register."""
        return ir.VectorType(llvm_scalar(self), self.per_register)

    def used(self, register: int) -> int | None:
        """How many channels of a register are in use where that is not all of them."""
        return self.tail if self.tail and register == self.num_registers - 1 else None


@register_default(Lanes)
class LanesModel(models.PrimitiveModel):
    """An LLVM array of vectors; LLVM takes it apart into registers."""

    def __init__(self, dmm: Any, fe_type: Lanes) -> None:
        super().__init__(dmm, fe_type, ir.ArrayType(fe_type.vector, fe_type.num_registers))


def llvm_scalar(lanes: Lanes) -> ir.Type:
    return ir.FloatType() if lanes.scalar.bitwidth == 32 else ir.DoubleType()


def _lanes_for(x: types.Array, full: Any, tail: Any) -> Lanes:
    scalar = types.float64 if x.dtype == types.float64 else types.float32
    return Lanes(scalar, full.count + (1 if tail.count else 0), tail.count)


def splat(builder: Any, scalar: Any, vector: ir.VectorType) -> Any:
    undefined = ir.Constant(vector, ir.Undefined)
    one = builder.insert_element(undefined, scalar, _INT32(0))
    return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(_INT32, vector.count), None))


def each_register(context: Any, builder: Any, lanes: Lanes, make: Any) -> Any:
    """The lanes whose register k is make(k)."""
    out = ir.Constant(context.get_value_type(lanes), ir.Undefined)
    for k in range(lanes.num_registers):
        out = builder.insert_value(out, make(k), k)
    return out


def element_address(context: Any, builder: Any, array_type: Any, array: Any, offset: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [offset])


def _mask(lanes: Lanes, used: int) -> ir.Constant:
    bits = [1] * used + [0] * (lanes.per_register - used)
    return ir.Constant(ir.VectorType(ir.IntType(1), lanes.per_register), bits)


def llvm_function(builder: Any, name: str, returns: ir.Type, takes: list[ir.Type]) -> Any:
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(returns, takes), name)


def load_register(builder: Any, pointer: Any, vector: ir.VectorType, lanes: Lanes, k: int) -> Any:
    size = 8 * _bytes(vector)
    at = builder.bitcast(builder.gep(pointer, [_INDEX(k * lanes.per_register)]), vector.as_pointer())
    used = lanes.used(k)
    if used is None:
        return builder.load(at, align=size // 8)
    kind = "i" if isinstance(vector.element, ir.IntType) else "f"
    mask = _mask(lanes, used)
    name = f"llvm.masked.load.v{vector.count}{kind}{size}.p0"
    load = llvm_function(builder, name, vector, [at.type, _INT32, mask.type, vector])
    return builder.call(load, [at, _INT32(size // 8), mask, ir.Constant(vector, None)])


def store_register(builder: Any, value: Any, pointer: Any, lanes: Lanes, k: int) -> None:
    vector = value.type
    size = 8 * _bytes(vector)
    at = builder.bitcast(builder.gep(pointer, [_INDEX(k * lanes.per_register)]), vector.as_pointer())
    used = lanes.used(k)
    if used is None:
        builder.store(value, at, align=size // 8)
        return
    kind = "i" if isinstance(vector.element, ir.IntType) else "f"
    mask = _mask(lanes, used)
    name = f"llvm.masked.store.v{vector.count}{kind}{size}.p0"
    store = llvm_function(builder, name, ir.VoidType(), [vector, at.type, _INT32, mask.type])
    builder.call(store, [value, at, _INT32(size // 8), mask])


def _bytes(vector: ir.VectorType) -> int:
    element = vector.element
    return (
        element.width // 8
        if isinstance(element, ir.IntType)
        else 4
        if isinstance(element, ir.FloatType)
        else 8
    )


def _half_words(lanes: Lanes) -> ir.VectorType:
    return ir.VectorType(ir.IntType(16), lanes.per_register)


def constant_vector(vector: ir.VectorType, value: float) -> ir.Constant:
    return ir.Constant(vector, [value] * vector.count)


def widen(builder: Any, halves: Any, lanes: Lanes) -> Any:
    """bfloat16 bits to float32: the bits are the upper half."""
    words = ir.VectorType(_INT32, lanes.per_register)
    return builder.bitcast(builder.shl(builder.zext(halves, words), constant_vector(words, 16)), lanes.vector)


def narrow(builder: Any, value: Any, lanes: Lanes) -> Any:
    """float32 to bfloat16 bits, rounded to nearest even; not-a-number stays one."""
    words = ir.VectorType(_INT32, lanes.per_register)
    bits = builder.bitcast(value, words)
    odd = builder.and_(builder.lshr(bits, constant_vector(words, 16)), constant_vector(words, 1))
    rounded = builder.add(bits, builder.add(odd, constant_vector(words, 0x7FFF)))
    quiet = builder.or_(bits, constant_vector(words, 0x400000))
    is_nan = builder.fcmp_unordered("uno", value, value)
    kept = builder.lshr(builder.select(is_nan, quiet, rounded), constant_vector(words, 16))
    return builder.trunc(kept, _half_words(lanes))


@instruction
def constant(typingctx, x, full, tail, value):
    """Lanes for x's dtype and the width that full and tail tell, every channel `value`."""
    lanes = _lanes_for(x, full, tail)

    def codegen(context, builder, signature, args):
        scalar = context.cast(builder, args[3], signature.args[3], lanes.scalar)
        vector = splat(builder, scalar, lanes.vector)
        return each_register(context, builder, lanes, lambda k: vector)

    return lanes(x, full, tail, value), codegen


@instruction
def load(typingctx, x, offset, like):
    """The channels of `x` (1-D) from `offset` on, as many as `like` has."""

    def codegen(context, builder, signature, args):
        pointer = element_address(context, builder, signature.args[0], args[0], args[1])
        if x.dtype != types.uint16:
            return each_register(
                context, builder, like, lambda k: load_register(builder, pointer, like.vector, like, k)
            )
        halves = _half_words(like)
        return each_register(
            context,
            builder,
            like,
            lambda k: widen(builder, load_register(builder, pointer, halves, like, k), like),
        )

    return like(x, types.uint64, like), codegen


@instruction
def store(typingctx, x, offset, lanes):
    """x[offset : offset + width] = lanes."""

    def codegen(context, builder, signature, args):
        pointer = element_address(context, builder, signature.args[0], args[0], args[1])
        for k in range(lanes.num_registers):
            value = builder.extract_value(args[2], k)
            if x.dtype == types.uint16:
                value = narrow(builder, value, lanes)
            store_register(builder, value, pointer, lanes, k)
        return context.get_dummy_value()

    return types.void(x, types.uint64, lanes), codegen


@instruction
def prefetch(typingctx, x, offset, like, ahead):
    """Asks for the cache lines that `load(x, offset, like)` will read; nothing where `ahead` is the empty tuple."""

    def codegen(context, builder, signature, args):
        if ahead.count:
            byte = ir.IntType(8).as_pointer()
            fetch = llvm_function(builder, "llvm.prefetch.p0", ir.VoidType(), [byte, _INT32, _INT32, _INT32])
            pointer = element_address(context, builder, signature.args[0], args[0], args[1])
            per_line = 64 * 8 // x.dtype.bitwidth
            for channel in range(0, like.num_registers * like.per_register, per_line):
                at = builder.bitcast(builder.gep(pointer, [_INDEX(channel)]), byte)
                builder.call(fetch, [at, _INT32(0), _INT32(3), _INT32(1)])
        return context.get_dummy_value()

    return types.void(x, types.uint64, like, ahead), codegen


@instruction
def weight(typingctx, value, e, like, weighted):
    """value[e] in the lanes' dtype; the constant 1 where `weighted` is the empty tuple, which LLVM folds away."""

    def codegen(context, builder, signature, args):
        if not weighted.count:
            return ir.Constant(llvm_scalar(like), 1.0)
        return builder.load(element_address(context, builder, signature.args[0], args[0], args[1]))

    return like.scalar(value, types.uint64, like, weighted), codegen
