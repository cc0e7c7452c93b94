"""StopFlag: Ctrl-C and its like, asked for between steps instead of raised in the middle of one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from fasthop.interrupt import Stopped

SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


class StopFlag:
    """number: the signal that asked for an end, or None. A second one raises at once, for whoever will not wait."""

    def __init__(self) -> None:
        self.number: int | None = None

    def __bool__(self) -> bool:
        return self.number is not None

    def ask(self, number: int, frame: FrameType | None = None) -> None:
        """A signal handler."""
        if self.number is not None:
            raise KeyboardInterrupt if number == signal.SIGINT else Stopped(number)
        self.number = number


@contextmanager
def asked_to_stop() -> Iterator[StopFlag]:
    """Inside it, signals that ask the process to end set the flag. One that is ignored (nohup) stays so; off the main thread
    nothing changes."""
    flag = StopFlag()
    before = {}
    if threading.current_thread() is threading.main_thread():
        for name in SIGNALS:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) not in (signal.SIG_IGN, None):
                before[number] = signal.signal(number, flag.ask)
    try:
        yield flag
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
