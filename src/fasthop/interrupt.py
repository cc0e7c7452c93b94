"""Signals that ask a run to stop: which ones do, and the moments that they must wait for."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType


class Stopped(KeyboardInterrupt):
    """The system or another program asked the process to end; it ends as after Ctrl-C.

    number: the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def stop_signals_raise() -> Iterator[None]:
    """SIGTERM and SIGHUP raise `Stopped`, so that workers and temporary folders go as they do after Ctrl-C.

    Does nothing off the main thread; a signal that is ignored (nohup) or handled already stays so.
    """
    taken: list[signal.Signals] = []
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _raise)
                taken.append(number)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C and its like do nothing meanwhile: for a second of work that is no use when half done, such as
    ending workers or saving what was measured. Does nothing off the main thread."""
    before = {}
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and callable(handler := signal.getsignal(number)):
                before[number] = handler
                # Not SIG_IGN, which processes started meanwhile would inherit.
                signal.signal(number, _wait)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def unwound_whole() -> Iterator[ExitStack]:
    """An ExitStack whose callbacks all run, uninterrupted: a second Ctrl-C leaves no worker and no folder behind."""
    stack = ExitStack()
    try:
        yield stack
    finally:
        with uninterrupted():
            stack.close()


def _raise(number: int, frame: FrameType | None) -> None:
    raise Stopped(number)


def _wait(number: int, frame: FrameType | None) -> None:
    pass
