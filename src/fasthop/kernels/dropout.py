"""The one switch of all dropouts that fasthop's own kernels draw.

A proof compares two models with nothing random in either, and the train flag cannot be used for that: it changes more
than dropout. PyTorch's own dropout is switched off by its caller; this switches off what the kernels draw.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_IS_ON: ContextVar[bool] = ContextVar("fasthop_dropout_is_on", default=True)
# How many `without_dropout()` are open in any thread. torch.compile cannot read a ContextVar, and guards a plain number: a
# trace made while none is open is made anew when one is.
_num_open = 0
_LOCK = threading.Lock()


def dropout_is_on() -> bool:
    """Whether fasthop's dropouts drop anything; False inside `without_dropout()`."""
    return _num_open == 0 or _IS_ON.get()


@contextmanager
def without_dropout() -> Iterator[None]:
    """Inside it every dropout of fasthop's kernels is the identity, in this thread (or task) alone."""
    global _num_open
    token = _IS_ON.set(False)
    with _LOCK:
        _num_open += 1
    try:
        yield
    finally:
        with _LOCK:
            _num_open -= 1
        _IS_ON.reset(token)
