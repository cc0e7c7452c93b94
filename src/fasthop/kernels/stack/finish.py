"""The end of a row, the same for all passes: what is added, activated, dropped, gated and summed before it is stored.

Forward: v = act(v + init + bias) * drop. Backward: v = (v + init) * drop * act'(y), y the output that the forward pass
stored, from which act' follows for every activation here; a dropped channel has the gradient 0 either way. Then
sums += v and out = v. What is not wanted has the address or the kind 0 in the job: a branch that goes the same way each time.

Written in LLVM's terms in one piece: as functions of numba it was not inlined, took 28 ns a row where this takes 2, and compiled for
most of a second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import register_jitable

from fasthop.kernels.sample.draw import MUL_1, MUL_2, WEYL
from fasthop.kernels.segment_softmax.arithmetic import exp_register
from fasthop.kernels.segment_softmax.heads import keep_registers
from fasthop.kernels.spmm.lanes import (
    Lanes,
    constant_vector,
    instruction,
    load_register,
    splat,
    store_register,
)
from fasthop.kernels.stack.arithmetic import number_at
from fasthop.kernels.stack.job import (
    ACTIVATE,
    BIAS,
    CHANNEL,
    ELU,
    GATE,
    INIT,
    INIT_ROWS,
    KEY,
    LEAKY_RELU,
    OUT,
    RELU,
    SCALE,
    SIGMOID,
    SLOPE,
    STRIDE,
    SUMS,
    TANH,
    THRESHOLD,
    UNSCALE,
    Y,
)

_INT64 = ir.IntType(64)
_ADDRESSES = ("out", "init", "bias", "y", "key", "sums")
_NUMBERS = ("init_rows", "activate", "gate", "stride", "channel", "threshold")


@register_jitable
def row_end(job):
    """All that `finish` reads from a job, read once before the rows: addresses and sizes, then numbers."""
    return (
        (
            job[OUT],
            job[INIT],
            job[BIAS],
            job[Y],
            job[KEY],
            job[SUMS],
            job[INIT_ROWS],
            job[ACTIVATE],
            job[GATE],
            job[STRIDE],
            job[CHANNEL],
            job[THRESHOLD],
        ),
        (number_at(job, SLOPE), number_at(job, SCALE), number_at(job, UNSCALE)),
    )


@register_jitable
def start_sums(job, chunk):
    """The place of this chunk's sums over its rows among all, in numbers."""
    return np.uint64(chunk * job[STRIDE] + job[CHANNEL])


@register_jitable
def is_stored_as_it_is(job):
    """Whether a row's end is nothing but to be stored."""
    return (job[INIT_ROWS] | job[BIAS] | job[ACTIVATE] | job[KEY] | job[GATE] | job[SUMS]) == 0


@instruction
def clear_sums(typingctx, like, sums_at, end):
    """Sets a chunk's sums to 0; nothing where none are wanted."""

    def codegen(context, builder, signature, args):
        row = _Row(builder, like, args[0], args[2])
        with row.where("sums"):
            pointer = row.pointer("sums", args[1])
            for k in range(like.num_registers):
                store_register(builder, constant_vector(like.vector, 0.0), pointer, like, k)
        return context.get_dummy_value()

    return types.void(like, types.uint64, end), codegen


@instruction
def finish(typingctx, v, i, sums_at, end):
    """Ends row i with the sum `v`; see the top. sums_at: from `start_sums`; end: from `row_end`."""

    def codegen(context, builder, signature, args):
        value, i, sums_at, packed = args
        row = _Row(builder, v, value, packed)
        at = builder.add(builder.mul(i, row.number("stride")), row.number("channel"))
        with builder.if_then(builder.icmp_unsigned("<", i, row.number("init_rows"))):
            row.change(row.load("init", at), lambda a, b: builder.fadd(a, b))
        with row.where("bias"):
            row.change(row.load("bias", row.number("channel")), lambda a, b: builder.fadd(a, b))
        with row.where("activate"):
            row.activate()
        with row.where("key"):
            row.drop(i)
        with row.where("gate"):
            row.gate(row.load("y", at))
        with row.where("sums"):
            pointer = row.pointer("sums", sums_at)
            for k in range(v.num_registers):
                before = load_register(builder, pointer, v.vector, v, k)
                store_register(builder, builder.fadd(before, row.get(k)), pointer, v, k)
        with row.where("out"):
            pointer = row.pointer("out", at)
            for k in range(v.num_registers):
                store_register(builder, row.get(k), pointer, v, k)
        return context.get_dummy_value()

    return types.void(v, types.uint64, types.uint64, end), codegen


class _Row:
    """A row's registers while the code of its end is written, and what the job says of it."""

    def __init__(self, builder: Any, lanes: Lanes, value: Any, packed: Any) -> None:
        self.builder, self.lanes, self.vector = builder, lanes, lanes.vector
        self.cells = [
            cgutils.alloca_once_value(builder, builder.extract_value(value, k))
            for k in range(lanes.num_registers)
        ]
        words, numbers = builder.extract_value(packed, 0), builder.extract_value(packed, 1)
        names = (*_ADDRESSES, *_NUMBERS)
        self._words = {name: builder.extract_value(words, k) for k, name in enumerate(names)}
        self._slope, self._scale, self._unscale = (
            builder.fptrunc(number, ir.FloatType()) if lanes.scalar.bitwidth == 32 else number
            for number in (builder.extract_value(numbers, k) for k in range(3))
        )

    def number(self, name: str) -> Any:
        """A word of the job."""
        return self._words[name]

    def where(self, name: str) -> Any:
        """A block that runs where a word is not 0."""
        return self.builder.if_then(self.builder.icmp_signed("!=", self._words[name], _INT64(0)))

    def get(self, k: int) -> Any:
        """Register k."""
        return self.builder.load(self.cells[k])

    def pointer(self, name: str, at: Any) -> Any:
        """The place number `at` of an array."""
        start = self.builder.inttoptr(self._words[name], self.vector.element.as_pointer())
        return self.builder.gep(start, [at])

    def load(self, name: str, at: Any) -> list[Any]:
        """The registers of an array from `at` on."""
        pointer = self.pointer(name, at)
        return [
            load_register(self.builder, pointer, self.vector, self.lanes, k)
            for k in range(self.lanes.num_registers)
        ]

    def change(self, others: list[Any], make: Callable[[Any, Any], Any]) -> None:
        """Each register by what is made of it and of another."""
        for cell, other in zip(self.cells, others, strict=True):
            self.builder.store(make(self.builder.load(cell), other), cell)

    def constant(self, value: float) -> Any:
        """A register of one number."""
        return constant_vector(self.vector, value)

    def by_kind(self, word: str, makes: dict[int, Callable[[Any, Any], Any]], others: list[Any]) -> None:
        """The change of the kind that a word of the job names."""
        for kind, make in makes.items():
            is_kind = self.builder.icmp_signed("==", self._words[word], _INT64(kind))
            with self.builder.if_then(is_kind):
                self.change(others, make)

    def positive(self, y: Any, a: Any, b: Any) -> Any:
        """b where y <= 0, else a (also where y is not a number)."""
        return self.builder.select(self.builder.fcmp_ordered("<=", y, self.constant(0.0)), b, a)

    def exp_of_minus_size(self, v: Any) -> Any:
        """e^-|v|."""
        below = self.builder.fsub(self.constant(0.0), v)
        return exp_register(self.builder, self.lanes, self.positive(v, below, v))

    def activate(self) -> None:
        """act(v)."""
        build, zero, one = self.builder, self.constant(0.0), self.constant(1.0)
        slope = splat(build, self._slope, self.vector)

        def elu(v, _):
            low = exp_register(build, self.lanes, self.positive(v, zero, v))
            return self.positive(v, v, build.fmul(slope, build.fsub(low, one)))

        def tanh(v, _):
            e = self.exp_of_minus_size(build.fadd(v, v))
            size = build.fdiv(build.fsub(one, e), build.fadd(one, e))
            return self.positive(v, size, build.fsub(zero, size))

        def sigmoid(v, _):
            e = self.exp_of_minus_size(v)
            return build.fdiv(self.positive(v, one, e), build.fadd(one, e))

        makes = {
            RELU: lambda v, _: self.positive(v, v, zero),
            LEAKY_RELU: lambda v, _: self.positive(v, v, build.fmul(slope, v)),
            ELU: elu,
            TANH: tanh,
            SIGMOID: sigmoid,
        }
        self.by_kind("activate", makes, [zero] * len(self.cells))

    def gate(self, y: list[Any]) -> None:
        """v * act'(z) where y = act(z) / unscale."""
        build, one = self.builder, self.constant(1.0)
        slope, unscale = splat(build, self._slope, self.vector), splat(build, self._unscale, self.vector)

        def elu(v, y):
            return self.positive(y, v, build.fmul(v, build.fadd(build.fmul(y, unscale), slope)))

        def tanh(v, y):
            a = build.fmul(y, unscale)
            return build.fmul(v, build.fsub(one, build.fmul(a, a)))

        def sigmoid(v, y):
            a = build.fmul(y, unscale)
            return build.fmul(v, build.fmul(a, build.fsub(one, a)))

        makes = {
            RELU: lambda v, y: self.positive(y, v, self.constant(0.0)),
            LEAKY_RELU: lambda v, y: self.positive(y, v, build.fmul(v, slope)),
            ELU: elu,
            TANH: tanh,
            SIGMOID: sigmoid,
        }
        self.by_kind("gate", makes, y)

    def drop(self, i: Any) -> None:
        """v * (1 / (1 - p), or 0): a hash of (key, i) for the row, mixed again for each channel."""
        build = self.builder
        key = build.load(build.inttoptr(self._words["key"], _INT64.as_pointer()))
        z = build.add(key, build.mul(build.add(i, _INT64(1)), _INT64(int(WEYL))))
        z = build.mul(build.xor(z, build.lshr(z, _INT64(30))), _INT64(int(MUL_1)))
        z = build.mul(build.xor(z, build.lshr(z, _INT64(27))), _INT64(int(MUL_2)))
        z = build.xor(z, build.lshr(z, _INT64(31)))
        factors = keep_registers(
            build, self.lanes, z, self._words["threshold"], self._scale, self._words["channel"]
        )
        self.change(factors, lambda a, b: build.fmul(a, b))
