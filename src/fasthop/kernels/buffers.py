"""Buffers that are used again as soon as nobody can see what was in them.

A fresh 60 MB tensor costs eight times the copy into it (37 ms against 4.4 ms): the kernel hands out
zeroed pages one by one. So the memory of a batch is used again, but only after every tensor that
shares it is gone: a batch that is kept, a slice of it, or what autograd saved of it keeps the
memory, and the next batch gets another buffer.
"""

from __future__ import annotations

import math
import threading
import weakref

import numpy as np
import torch
from torch import Tensor

# Batches differ in size by a few per cent; with this much room over the largest so far the buffers settle.
HEADROOM = 1.125


class Buffer:
    """Raw bytes out of torch's allocator (so that its memory counts see them), lent out as a tensor.

    The tensor is made from a NumPy view of the bytes. torch keeps that view alive exactly as long
    as the tensor's storage, which all its slices, views and saved copies share; a weak reference to
    the view therefore tells when the last of them is gone.
    """

    __slots__ = ("_bytes", "_view")

    def __init__(self, num_bytes: int) -> None:
        self._bytes: np.ndarray = torch.empty(num_bytes, dtype=torch.uint8).numpy()
        self._view: weakref.ref[np.ndarray] | None = None

    @property
    def num_bytes(self) -> int:
        """How many bytes there are."""
        return self._bytes.size

    @property
    def is_lent(self) -> bool:
        """Whether a tensor over these bytes is still alive."""
        return self._view is not None and self._view() is not None

    def array(self, dtype: str) -> np.ndarray:
        """All the bytes as a NumPy array; for writing before the buffer is lent."""
        return self._bytes[: self.num_bytes - self.num_bytes % np.dtype(dtype).itemsize].view(dtype)

    def grow(self, num_bytes: int, *, keep: int) -> None:
        """At least num_bytes; the first `keep` bytes stay as they are."""
        if num_bytes > self.num_bytes:
            old = self._bytes
            self._bytes = torch.empty(_roomy(num_bytes), dtype=torch.uint8).numpy()
            self._bytes[:keep] = old[:keep]

    def lend(self, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
        """The first bytes as a contiguous tensor; the buffer counts as lent while its storage lives."""
        view = self._bytes[: math.prod(shape) * dtype.itemsize]
        if view.size == 0:
            return torch.empty(shape, dtype=dtype)
        self._view = weakref.ref(view)
        return torch.from_numpy(view).view(dtype).view(shape)


class BufferPool:
    """Buffers by name, handed out again once they are no longer lent. Safe for several threads.

    max_buffers: how many of one name are kept track of; where all of them are lent, further ones are
        ordinary memory that goes with its tensor. 0: nothing is ever used again.
    """

    def __init__(self, max_buffers: int) -> None:
        self._max_buffers = max_buffers
        self._buffers: dict[str, list[Buffer]] = {}
        self._largest: dict[str, int] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[BufferPool], tuple[int]]:
        # Copies and pickles start with no buffers: memory that is lent out is this pool's alone.
        return type(self), (self._max_buffers,)

    def take(self, name: str, num_bytes: int) -> Buffer:
        """A buffer of at least num_bytes for the caller alone, with room for the largest so far where it can be."""
        with self._lock:
            kept = self._buffers.setdefault(name, [])
            free = [buffer for buffer in kept if not buffer.is_lent]
            if free:
                best = max(free, key=lambda buffer: buffer.num_bytes)
                kept.remove(best)
                if best.num_bytes >= num_bytes:
                    return best
            room = max(num_bytes, self._largest.get(name, 0)) if self._max_buffers else num_bytes
        return Buffer(_roomy(room) if self._max_buffers else room)

    def lend(self, name: str, buffer: Buffer, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
        """The buffer's tensor; the pool takes the buffer back when the tensor and all its views are gone."""
        tensor = buffer.lend(dtype, shape)
        with self._lock:
            self._largest[name] = max(self._largest.get(name, 0), tensor.nbytes)
            kept = self._buffers.setdefault(name, [])
            if len(kept) < self._max_buffers:
                kept.append(buffer)
        return tensor

    def tensor(self, name: str, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
        """A tensor with any content, in used memory where that is free."""
        return self.lend(name, self.take(name, math.prod(shape) * dtype.itemsize), dtype, shape)


def _roomy(num_bytes: int) -> int:
    return math.ceil(num_bytes * HEADROOM / 64) * 64
