"""Stack: a GNN as a list of operations, run as one autograd function of two compiled calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import Parameter

from fasthop.errors import InvalidConfig
from fasthop.kernels.dropout import dropout_is_on
from fasthop.kernels.stack.backward import Backward
from fasthop.kernels.stack.check import dtype_of, shapes
from fasthop.kernels.stack.forward import SEED, Forward, Matrices
from fasthop.kernels.stack.nodes import Nodes, join, live
from fasthop.kernels.stack.ops import Dropout, Op, parameters
from fasthop.kernels.stack.plan import Plan, Slot, Tape
from fasthop.kernels.stack.walk import Walk

SEEDS = 2**62
KEPT_BYTES = 32 << 20
"""The largest memory that is kept between two forward passes without a backward."""


class Stack:
    """A program over constants and parameters; the last operation is its output.

    ops: in which each operation reads earlier ones (ops.py). dtype: float32 or float64; None takes the parameters'. Constants
    in another dtype are converted once; those in this one are read where they lie. Parameters are read at each call.
    What is read of the graph (int32 columns, transposes) is made once and shared by all that runs this stack.
    Raises InvalidConfig where operations do not fit together.
    """

    def __init__(self, ops: Sequence[Op], *, dtype: torch.dtype | None = None) -> None:
        self.ops = tuple(ops)
        self.shapes = shapes(self.ops)
        self.dtype = dtype_of(self.ops, dtype)
        self.matrices = Matrices(self.dtype)
        needed = live(self.ops)
        used = [op for op, is_needed in zip(self.ops, needed, strict=True) if is_needed]
        self.has_dropout = any(isinstance(op, Dropout) and op.p > 0 for op in used)
        self.parameters: tuple[Parameter, ...] = tuple(
            {id(p): p for op in used for p in parameters(op)}.values()
        )
        self._parameter_shapes = tuple(p.shape for p in self.parameters)
        self._programs: dict[tuple[bool, bool, tuple[bool, ...]], Program] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (self.ops, self.dtype)

    @property
    def output_shape(self) -> tuple[int, int]:
        """(rows, channels) of the output."""
        return self.shapes[-1]

    def nodes(self, *, dropout: bool) -> Nodes:
        """The operations joined into nodes, with or without what dropouts draw."""
        return join(self.ops, self.shapes, dropout=dropout)

    def run(self, *, seed: int | None = None, dropout: bool = True) -> Tensor:
        """The output [rows, channels], differentiable once with respect to the parameters.

        seed: what dropouts draw from; None draws one from torch's generator. dropout: False drops nothing, as does
        `without_dropout()`. The output is a tensor of its own. Raises InvalidConfig where a parameter's shape or dtype has changed.
        """
        is_dropped = dropout and self.has_dropout and dropout_is_on()
        if is_dropped and seed is None:
            seed = draw_seed()
        addresses = self.addresses()
        if torch.is_grad_enabled() and any(p.requires_grad for p in self.parameters):
            return _Run.apply(self, is_dropped, seed or 0, addresses, *self.parameters)
        program = self._program(is_dropped, False)
        tape = program.take()
        out = program.forward(tape, addresses, seed or 0)
        program.give(tape)
        return out

    def addresses(self) -> list[int]:
        """Where the parameters lie now."""
        found = []
        for parameter, shape in zip(self.parameters, self._parameter_shapes, strict=True):
            if parameter.dtype != self.dtype or parameter.shape != shape or not parameter.is_contiguous():
                raise InvalidConfig(
                    f"A parameter of this stack was {self.dtype} {list(shape)} without gaps, and is {parameter.dtype} "
                    f"{list(parameter.shape)} with strides {parameter.stride()} now; make the stack anew."
                )
            found.append(parameter.data_ptr())
        return found

    def _program(self, dropout: bool, backward: bool) -> Program:
        key = (dropout, backward, tuple(p.requires_grad for p in self.parameters))
        if key not in self._programs:
            self._programs[key] = Program(self, dropout=dropout, backward=backward)
        return self._programs[key]


class Program:
    """The plan of a stack's forward pass, and its backward pass if wanted; its tapes are used by one caller at a time."""

    def __init__(self, stack: Stack, *, dropout: bool, backward: bool) -> None:
        self.stack, self.has_backward = stack, backward
        self.plan = Plan(stack.dtype)
        self.out, self.grad = Slot(), Slot()
        self._forward = Forward(self.plan, stack.nodes(dropout=dropout), stack.matrices)
        self._forward.emit(out=self.out)
        self.num_forward = len(self.plan.passes)
        if backward:
            Backward(self._forward).emit(self.grad)
            self._forward.places.hand_out()
        self.plan.place_buffers()
        self._free: list[tuple[Tape, Walk, Walk]] = []

    def take(self) -> tuple[Tape, Walk, Walk]:
        """A tape that nobody else uses, and its two calls."""
        try:
            return self._free.pop()
        except IndexError:
            tape = Tape(self.plan)
            entries = tape.entries
            return tape, Walk(entries, 0, self.num_forward), Walk(entries, self.num_forward, len(entries))

    def give(self, tape: tuple[Tape, Walk, Walk]) -> None:
        """Takes a tape back. One is kept, because what is run again and again needs one; a large one for evaluation is not,
        because its memory is worth more to the training beside it."""
        if not self._free and (self.has_backward or self.plan.arena_bytes <= KEPT_BYTES):
            self._free.append(tape)

    def forward(self, taken: tuple[Tape, Walk, Walk], addresses: list[int], seed: int) -> Tensor:
        """Runs the forward pass; the output is a new tensor."""
        tape, run_forward, _ = taken
        places = self._forward.places
        for parameter, address in zip(self.stack.parameters, addresses, strict=True):
            tape.set(places.slots[id(parameter)], address)
        if self._forward.keys_pass >= 0:
            tape.jobs[self._forward.keys_pass, SEED] = seed
        out = torch.empty(self.stack.output_shape, dtype=self.stack.dtype)
        tape.set(self.out, out.data_ptr())
        run_forward()
        return out

    def backward(self, taken: tuple[Tape, Walk, Walk], grad: Tensor) -> list[Tensor | None]:
        """Runs the backward pass after the forward pass; the gradients are new tensors, None for frozen parameters."""
        tape, _, run_backward = taken
        tape.set(self.grad, grad.data_ptr())
        slots = self._forward.places.grad_slots
        grads: list[Tensor | None] = []
        for parameter in self.stack.parameters:
            slot = slots.get(id(parameter))
            made = None if slot is None else torch.empty_like(parameter)
            if slot is not None and made is not None:
                tape.set(slot, made.data_ptr())
            grads.append(made)
        run_backward()
        return grads


class _Lease:
    """A tape while a backward pass may need it; it goes back when that is done, or can no longer come."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.tape: tuple[Tape, Walk, Walk] | None = program.take()

    def forward(self, addresses: list[int], seed: int) -> Tensor:
        """The program's forward pass on this tape."""
        assert self.tape is not None
        return self.program.forward(self.tape, addresses, seed)

    def backward(self, grad: Tensor) -> list[Tensor | None]:
        """The program's backward pass, after which the tape is given back."""
        assert self.tape is not None
        grads = self.program.backward(self.tape, grad)
        self._end()
        return grads

    def _end(self) -> None:
        tape, self.tape = self.tape, None
        if tape is not None:
            self.program.give(tape)

    def __del__(self) -> None:
        self._end()


class _Run(torch.autograd.Function):
    """The whole stack. Its context is set up in forward; see spmm's op.py."""

    @staticmethod
    def forward(
        ctx: Any, stack: Stack, dropout: bool, seed: int, addresses: list[int], *parameters: Tensor
    ) -> Tensor:
        ctx.program = stack._program(dropout, True)
        ctx.seed, ctx.lease = seed, _Lease(ctx.program)
        ctx.save_for_backward(*parameters)  # so that torch notices when they change before the backward pass
        return ctx.lease.forward(addresses, seed)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        addresses = [parameter.data_ptr() for parameter in ctx.saved_tensors]
        program: Program = ctx.program
        lease = ctx.lease
        if lease.tape is None:  # a second backward pass (retain_graph): the first used its buffers up
            lease = _Lease(program)
            lease.forward(addresses, ctx.seed)
        grads = lease.backward(grad.to(program.stack.dtype).contiguous())
        return None, None, None, None, *grads


def draw_seed() -> int:
    """A seed from torch's generator, so that torch.manual_seed decides."""
    return int(torch.empty((), dtype=torch.int64).random_(SEEDS))


def _rebuilt(ops: tuple[Op, ...], dtype: torch.dtype) -> Stack:
    return Stack(ops, dtype=dtype)
