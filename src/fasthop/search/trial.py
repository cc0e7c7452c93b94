"""A Trial: one recipe in a process of its own, as its parent sees it. Whatever befalls the worker costs
only its own row, and becomes a sentence."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fasthop.errors import TrialFailed
from fasthop.graph.note import Note, note
from fasthop.search.protocol import Failure, receive, send
from fasthop.search.worker import Order

LOG_TAIL_CHARACTERS = 2000


class WorkerFailed(TrialFailed):
    """The worker of a trial answered with a failure, died or hung; `.failure` says which."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason["en"])
        self.failure = failure


class Trial:
    """A worker process and the pipe to it. It sleeps, blocked on a read, unless it has been asked something.

    folder: a folder of its own: cold compile caches and the log of what it printed.
    """

    def __init__(self, name: str, order: Order, folder: Path, *, time_limit_s: float) -> None:
        self.name = name
        self.time_limit_s = time_limit_s
        self.log_path = folder / "worker.log"
        folder.mkdir(parents=True)
        with self.log_path.open("wb") as log:
            self._process: subprocess.Popen[bytes] = subprocess.Popen(
                [sys.executable, "-m", "fasthop.search.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=worker_environment(order.threads, folder),
                # Ctrl-C in the terminal goes to the parent alone, which then ends its workers in order.
                start_new_session=True,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        with contextlib.suppress(OSError):  # a worker that is gone already is found out by `ready`
            send(self._process.stdin, order)

    def ready(self) -> None:
        """Waits until the worker has its graph and its baseline model. Raises WorkerFailed."""
        answer = self._next(self.time_limit_s)
        if isinstance(answer, Failure):
            self.close()
            raise WorkerFailed(answer)

    def ask(
        self, request: str, *, on_progress: Callable[[float], None] | None = None, **arguments: Any
    ) -> Any:
        """The worker's answer to a request (a method of `Resident`). Raises WorkerFailed where it
        answers with a failure, dies, or takes longer than the time limit; it is gone then."""
        assert self._process.stdin is not None
        try:
            send(self._process.stdin, (request, arguments))
        except OSError:
            raise WorkerFailed(self._obituary()) from None
        while True:
            kind, value = self._next(self.time_limit_s)
            if kind == "progress":
                if on_progress is not None:
                    on_progress(value)
                continue
            if isinstance(value, Failure):
                self.close()
                raise WorkerFailed(value)
            return value

    def close(self) -> None:
        """Ends the worker and all that it started; to be called more than once is fine."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()
        self._process.wait()
        # With the worker gone the reader meets the end of its pipe and ends too.
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with contextlib.suppress(OSError):  # what was buffered for a worker that is gone
                stream.close()

    def _next(self, time_limit_s: float) -> Any:
        try:
            answer = self._answers.get(timeout=time_limit_s)
        except queue.Empty:
            self.close()
            raise WorkerFailed(
                Failure(
                    kind="time",
                    reason=note(
                        f"It did not answer within its limit of {time_limit_s:g} s, and was ended.",
                        f"它没有在 {time_limit_s:g} 秒的时限内完成，已被终止。",
                    ),
                )
            ) from None
        if isinstance(answer, EOFError):
            raise WorkerFailed(self._obituary())
        return answer

    def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            while True:
                self._answers.put(receive(self._process.stdout))
        except (
            Exception
        ) as error:  # a pipe that broke, or an answer that cannot be read: the worker is no use
            self._answers.put(EOFError(str(error)))

    def _obituary(self) -> Failure:
        """Why a worker that is gone has gone."""
        try:
            code = self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            code = None
        self.close()
        return Failure(kind="died", reason=_cause_of_death(code), traceback=self.log_tail())

    def log_tail(self) -> str:
        """The end of what the worker printed."""
        with contextlib.suppress(OSError):
            return self.log_path.read_text(encoding="utf-8", errors="replace")[-LOG_TAIL_CHARACTERS:]
        return ""


def _cause_of_death(code: int | None) -> Note:
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        if name == "SIGKILL":
            return note(
                "Its process was killed (SIGKILL), most often by the system because memory ran out.",
                "它的进程被强行终止（SIGKILL），多半是系统内存不足所致。",
            )
        return note(f"Its process died of {name}.", f"它的进程因 {name} 终止。")
    return note(f"Its process ended with exit code {code}.", f"它的进程以退出码 {code} 结束。")


def worker_environment(threads: int, folder: Path) -> dict[str, str]:
    """The parent's environment with the worker's threads and its own, cold, compile caches."""
    count = str(threads)
    return {
        **os.environ,
        "OMP_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
        "NUMBA_NUM_THREADS": count,
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        # cuBLAS needs it for deterministic results and reads it once, when CUDA starts.
        "CUBLAS_WORKSPACE_CONFIG": os.environ.get("CUBLAS_WORKSPACE_CONFIG", ":4096:8"),
        "PYTHONUNBUFFERED": "1",
    }
