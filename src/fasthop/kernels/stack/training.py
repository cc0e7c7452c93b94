"""StackTraining: a step of training a stack (forward, loss, backward, optimiser) in one compiled call."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fasthop.errors import InvalidConfig
from fasthop.kernels.dropout import dropout_is_on
from fasthop.kernels.stack import emit, optimizer_pass
from fasthop.kernels.stack.backward import Backward
from fasthop.kernels.stack.forward import SEED, Forward
from fasthop.kernels.stack.job import NUM_CHUNKS, compiled
from fasthop.kernels.stack.optimizer_pass import (
    BETA1,
    BETA2,
    DAMPENING,
    DECAY,
    EPS,
    LR,
    MOMENTUM,
    NESTEROV,
    SIZE,
    STEPS,
    G,
    M,
    P,
    V,
)
from fasthop.kernels.stack.plan import Plan, Tape, Word
from fasthop.kernels.stack.stack import Stack, draw_seed
from fasthop.kernels.stack.walk import Walk

KINDS = ("adam", "adamw", "sgd")


@dataclass(frozen=True, kw_only=True, slots=True)
class Optimizer:
    """An optimiser as torch.optim has it, with torch's defaults. kind: "adam", "adamw" or "sgd"; weight_decay None is
    torch's default, 0.01 for adamw and 0 for the others. Raises InvalidConfig for values that cannot be."""

    kind: str = "adam"
    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float | None = None
    momentum: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InvalidConfig(f"There is no optimiser named {self.kind!r}; there are {', '.join(KINDS)}.")
        for name, value in (("lr", self.lr), ("eps", self.eps), ("momentum", self.momentum)):
            if not value >= 0:
                raise InvalidConfig(f"An optimiser's {name} is 0 or more, and got {value!r}.")
        if not self.decay >= 0:
            raise InvalidConfig(f"An optimiser's weight_decay is 0 or more, and got {self.weight_decay!r}.")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise InvalidConfig(f"Adam's betas lie in [0, 1), and got {self.betas!r}.")
        if self.nesterov and (self.momentum == 0 or self.dampening != 0):
            raise InvalidConfig("Nesterov's momentum needs a momentum above 0 and no dampening.")

    @property
    def decay(self) -> float:
        """The weight decay that is meant."""
        return (0.01 if self.kind == "adamw" else 0.0) if self.weight_decay is None else self.weight_decay


class StackTraining:
    """Trains a stack's parameters in place: each `step()` is one compiled call over buffers that stay where they are.

    labels: int64 [rows of the output], each a channel of it; the loss is the mean cross-entropy over all rows.
    optimizer: see `Optimizer`. Parameters that need no gradient stay as they are; `p.grad` is not touched, and hooks do not run.
    Parameters may be changed from outside between steps. Sums do not depend on the number of threads, but those of
    large products are BLAS's, which promises nothing.
    Raises InvalidConfig for labels that do not fit, or where no parameter needs a gradient.
    """

    def __init__(self, stack: Stack, *, labels: Tensor, optimizer: Optimizer | None = None) -> None:
        self.stack, self.optimizer = stack, optimizer or Optimizer()
        self.labels = _checked_labels(labels, *stack.output_shape)
        self._is_trained = tuple(p.requires_grad for p in stack.parameters)
        self._trained = [p for p in stack.parameters if p.requires_grad]
        if not self._trained:
            raise InvalidConfig("No parameter of the stack needs a gradient: there is nothing to train.")
        self.num_steps = 0
        self._programs: dict[bool, _Step] = {}
        self._moments: tuple[Tensor, Tensor] | None = None

    def step(self, *, seed: int | None = None) -> Tensor:
        """One step; returns the loss before it, a 0-d tensor of its own in the stack's dtype.

        seed: what dropouts draw from; None draws one from torch's generator.
        """
        stack = self.stack
        is_dropped = stack.has_dropout and dropout_is_on()
        program = self._programs.get(is_dropped)
        if program is None:
            program = self._programs[is_dropped] = _Step(self, dropout=is_dropped)
        if is_dropped and seed is None:
            seed = draw_seed()
        if tuple(p.requires_grad for p in stack.parameters) != self._is_trained:
            raise InvalidConfig(
                "Which parameters need a gradient has changed since this training was made; make it anew."
            )
        program.run(stack.addresses(), seed or 0, self.num_steps)
        self.num_steps += 1
        torch.autograd.graph.increment_version(self._trained)
        return program.loss.to(stack.dtype, copy=True)

    def restart(self) -> None:
        """Forgets the optimiser's state; the parameters stay."""
        self.num_steps = 0
        for program in self._programs.values():
            program.forget()

    @property
    def state(self) -> tuple[Tensor, Tensor] | None:
        """The optimiser's moments, over all trained parameters; None before the first step."""
        return self._moments

    def load_state(self, num_steps: int, moments: tuple[Tensor, Tensor] | None) -> None:
        """Goes on after `num_steps` steps with what `state` was then. Raises InvalidConfig where it is another stack's."""
        if moments is None:
            self.restart()
        elif self._moments is None:
            self._moments = (moments[0].clone(), moments[1].clone())
        else:
            for mine, theirs in zip(self._moments, moments, strict=True):
                _check_moment(theirs, mine.numel(), mine.dtype)
                mine.copy_(theirs)
        self.num_steps = num_steps

    @property
    def arena_bytes(self) -> int:
        """The memory of the steps made so far, all buffers together; constants and the optimiser's state are not in it."""
        return sum(program.arena_bytes for program in self._programs.values())

    def moments(self, size: int) -> tuple[Tensor, Tensor]:
        """The optimiser's state over the run of trained parameters, shared by the steps with and without dropout."""
        if self._moments is None:
            self._moments = (
                torch.zeros(size, dtype=self.stack.dtype),
                torch.zeros(size, dtype=self.stack.dtype),
            )
        for moment in self._moments:
            _check_moment(moment, size, self.stack.dtype)
        return self._moments


class _Step:
    """The tape of a step."""

    def __init__(self, training: StackTraining, *, dropout: bool) -> None:
        stack, labels = training.stack, training.labels
        plan = Plan(stack.dtype)
        forward = Forward(plan, stack.nodes(dropout=dropout), stack.matrices)
        forward.emit(out=None, all_parameters=True)
        emitter = forward.emitter
        rows, channels = stack.output_shape
        num_chunks = emitter.num_chunks(rows, 8 * rows * channels)
        grad = plan.buffer(rows * channels)
        losses = plan.buffer(num_chunks, itemsize=8, is_kept=True)
        sums = emitter.cross_entropy(forward.at(forward.nodes.output), labels, grad, losses, channels)
        Backward(forward).emit(grad, sums)
        self.moments = training.moments(forward.places.trained_size)
        self._update = _emit_update(plan, forward, training.optimizer, self.moments)
        forward.places.take_out()
        plan.place_buffers()
        self._keys_pass, self._slots = (
            forward.keys_pass,
            [forward.places.slots[id(p)] for p in stack.parameters],
        )
        self._tape = Tape(plan)
        self._addresses: list[int] = []
        self._losses = self._tape.kept(losses, torch.float64)[:num_chunks]
        self._loss = self._losses[0]
        self._walk = Walk(self._tape.entries, 0, len(plan.passes))
        self.arena_bytes = plan.arena_bytes

    def run(self, addresses: list[int], seed: int, num_steps: int) -> None:
        """The step."""
        tape = self._tape
        if addresses != self._addresses:
            for slot, address in zip(self._slots, addresses, strict=True):
                tape.set(slot, address)
            self._addresses = addresses
        if self._keys_pass >= 0:
            tape.jobs[self._keys_pass, SEED] = seed
        tape.jobs[self._update, STEPS] = num_steps
        self._walk()

    @property
    def loss(self) -> Tensor:
        """The last step's loss, float64."""
        return self._loss if self._losses.numel() == 1 else self._losses.sum()

    def forget(self) -> None:
        """Sets the optimiser's state to zero."""
        for moment in self.moments:
            moment.zero_()


def _emit_update(plan: Plan, forward: Forward, optimizer: Optimizer, moments: tuple[Tensor, Tensor]) -> int:
    places = forward.places
    size = places.trained_size
    is_team = 8 * size >= emit.TEAM_FROM
    words: dict[int, Word] = {
        NUM_CHUNKS: emit.TEAM_CHUNKS if is_team else 1,
        SIZE: size,
        P: places.values,
        G: places.grads,
        M: moments[0],
        V: moments[1],
        LR: float(optimizer.lr),
        DECAY: float(optimizer.decay),
        BETA1: float(optimizer.betas[0]),
        BETA2: float(optimizer.betas[1]),
        EPS: float(optimizer.eps),
        MOMENTUM: float(optimizer.momentum),
        DAMPENING: float(optimizer.dampening),
        NESTEROV: int(optimizer.nesterov),
    }
    if optimizer.kind == "sgd":
        function = compiled(optimizer_pass.sgd, plan.kind, optimizer.momentum != 0)
    else:
        function = compiled(optimizer_pass.adam, plan.kind, optimizer.kind == "adamw")
    return plan.add(function, words, team=is_team)


def _check_moment(moment: Tensor, size: int, dtype: torch.dtype) -> None:
    if moment.numel() != size or moment.dtype != dtype:
        raise InvalidConfig(
            f"The optimiser's state has {moment.numel():,} numbers in {moment.dtype}, and this stack trains {size:,} in "
            f"{dtype}; it is that of another model."
        )


def _checked_labels(labels: Tensor, num_rows: int, num_channels: int) -> Tensor:
    if labels.dtype != torch.int64 or tuple(labels.shape) != (num_rows,):
        raise InvalidConfig(
            f"labels are int64, one for each of the {num_rows} rows of the output, and got {labels.dtype} {list(labels.shape)}."
        )
    if num_rows == 0:
        raise InvalidConfig("There are no rows to train on: the mean over none is not a number.")
    low, high = (int(bound) for bound in torch.aminmax(labels))
    if low < 0 or high >= num_channels:
        wrong = low if low < 0 else high
        place = int((labels == wrong).nonzero()[0])
        raise InvalidConfig(
            f"labels[{place}] is {wrong}, and the output has the classes 0 to {num_channels - 1}."
        )
    return labels.detach().clone().contiguous()
