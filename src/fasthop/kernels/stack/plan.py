"""Plan: the passes of a program in order, and the buffers that they read and write, each in memory only while it is needed."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from fasthop.kernels.stack import job

ALIGNMENT = 64


class Buffer:
    """Bytes that passes write and read; `first` and `last` are the first and the last pass that touch them.

    is_kept: they live as long as the plan, and start as zeros (an optimiser's state).
    """

    __slots__ = ("first", "is_kept", "last", "num_bytes", "offset")

    def __init__(self, num_bytes: int, *, is_kept: bool = False) -> None:
        self.num_bytes = -(-num_bytes // ALIGNMENT) * ALIGNMENT
        self.is_kept = is_kept
        self.first = self.last = -1
        self.offset = 0

    def touch(self, place: int) -> None:
        """Pass number `place` reads or writes these bytes."""
        self.first = place if self.first < 0 else self.first
        self.last = place


class Slot:
    """An address that is not known before a call: a parameter, an output, a gradient."""

    __slots__ = ()


class Within:
    """A place within a buffer, in bytes from its start."""

    __slots__ = ("buffer", "num_bytes")

    def __init__(self, buffer: Buffer, num_bytes: int) -> None:
        self.buffer, self.num_bytes = buffer, num_bytes


Word = int | float | Buffer | Within | Slot | Tensor | None
"""What a word of a job may be given as. A float becomes its float64 bits, a tensor its address (and it is kept)."""


class Plan:
    """Passes in order. `add` appends one; `place_buffers` decides where the buffers lie once all are there."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.kind = "float64" if dtype == torch.float64 else "float32"
        self.passes: list[tuple[int, dict[int, Word], bool]] = []
        self.arena_bytes = 0
        self._buffers: list[Buffer] = []

    def buffer(self, count: int, *, is_kept: bool = False, itemsize: int | None = None) -> Buffer:
        """Room for `count` numbers of the plan's dtype, or of `itemsize` bytes each."""
        made = Buffer(count * (itemsize or self.dtype.itemsize), is_kept=is_kept)
        self._buffers.append(made)
        return made

    def add(self, function: int, words: Mapping[int, Word], *, team: bool = False) -> int:
        """Appends a pass: the address of its C function, the words of its job that are not 0, and whether it has
        enough to do for a team of threads. Returns its number."""
        place = len(self.passes)
        for word in words.values():
            buffer = word.buffer if isinstance(word, Within) else word
            if isinstance(buffer, Buffer):
                buffer.touch(place)
        self.passes.append((function, dict(words), team))
        return place

    def place_buffers(self) -> None:
        """Gives each buffer its place in one arena: the largest first, each at the lowest place that no buffer
        needed at the same time takes."""
        placed: list[Buffer] = []
        for buffer in self._buffers:
            if buffer.is_kept:
                buffer.first, buffer.last = 0, len(self.passes)
        used = [buffer for buffer in self._buffers if buffer.first >= 0]
        for buffer in sorted(used, key=lambda one: -one.num_bytes):
            others = [one for one in placed if one.first <= buffer.last and buffer.first <= one.last]
            offset = 0
            for other in sorted(others, key=lambda one: one.offset):
                if offset + buffer.num_bytes <= other.offset:
                    break
                offset = max(offset, other.offset + other.num_bytes)
            buffer.offset = offset
            placed.append(buffer)
        self.arena_bytes = max((one.offset + one.num_bytes for one in placed), default=0)


class Tape:
    """A plan with memory: its jobs filled in, ready to be run. Several tapes of one plan do not share memory."""

    def __init__(self, plan: Plan) -> None:
        arena = torch.empty(plan.arena_bytes + ALIGNMENT, dtype=torch.uint8)
        base = -(-arena.data_ptr() // ALIGNMENT) * ALIGNMENT
        self._arena, self.base = arena, base
        self.jobs = np.zeros((len(plan.passes), job.NUM_WORDS), dtype=np.int64)
        self.entries = np.zeros((len(plan.passes), 3), dtype=np.int64)
        self._slots: dict[Slot, list[tuple[int, int]]] = {}
        self._values: dict[Slot, int] = {}
        self._kept: list[Tensor] = []
        for buffer in plan._buffers:
            if buffer.is_kept:
                start = base - arena.data_ptr() + buffer.offset
                arena[start : start + buffer.num_bytes] = 0
        for place, (function, words, team) in enumerate(plan.passes):
            for word, value in words.items():
                self.jobs[place, word] = self._number(value, place, word)
            self.entries[place] = function, self.jobs[place].ctypes.data, team

    def _number(self, value: Word, place: int, word: int) -> int:
        if value is None:
            return 0
        if isinstance(value, float):
            return struct.unpack("<q", struct.pack("<d", value))[0]
        if isinstance(value, int):
            return value - (1 << 64) if value >= 1 << 63 else value
        if isinstance(value, Buffer):
            return self.base + value.offset
        if isinstance(value, Within):
            return self.base + value.buffer.offset + value.num_bytes
        if isinstance(value, Slot):
            self._slots.setdefault(value, []).append((place, word))
            return 0
        self._kept.append(value)
        return value.data_ptr()

    def set(self, slot: Slot, address: int) -> None:
        """Gives a slot its address wherever it stands."""
        if self._values.get(slot) != address:
            self._values[slot] = address
            for place, word in self._slots.get(slot, ()):
                self.jobs[place, word] = address

    def kept(self, buffer: Buffer, dtype: torch.dtype) -> Tensor:
        """A buffer's bytes as a 1-D tensor that shares them."""
        start = self.base - self._arena.data_ptr() + buffer.offset
        return self._arena[start : start + buffer.num_bytes].view(dtype)
