"""The worker: one recipe, resident in a process of its own, that does what its parent asks for.

Run as `python -m fasthop.search.worker`. Requests come on the standard input, answers go to what
was the standard output; whatever user code prints goes to the log instead.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from fasthop.search.protocol import Failure, receive, send


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """What a worker is started with. `config` is a BenchConfig, `recipe` a Recipe; both arrive pickled so
    that the parent's import path is in place before user code is unpickled."""

    graph_path: Path
    device: str
    threads: int
    deterministic: bool
    sys_path: list[str]
    pickled: bytes


def main() -> None:
    """Serves requests until the parent closes the pipe."""
    _die_with_parent()
    requests = sys.stdin.buffer
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        order: Order = receive(requests)
    except EOFError:
        return
    sys.path[:] = order.sys_path
    with contextlib.suppress(EOFError, BrokenPipeError):
        _serve(order, requests, answers)


def _serve(order: Order, requests: BinaryIO, answers: BinaryIO) -> None:
    started = _guarded(lambda: _start(order))
    send(answers, None if not isinstance(started, Failure) else started)
    if isinstance(started, Failure):
        return
    while True:
        name, arguments = receive(requests)
        if name == "accuracy":
            arguments = {**arguments, "on_progress": lambda done: send(answers, ("progress", done))}
        answer = _guarded(lambda name=name, arguments=arguments: getattr(started, name)(**arguments))
        send(answers, ("answer", answer))


def _start(order: Order) -> Any:
    import pickle

    import torch

    from fasthop.noise import silence

    silence()
    torch.set_num_threads(order.threads)
    if order.deterministic:
        torch.use_deterministic_algorithms(True)
    from fasthop.search.bench_task import read_graph
    from fasthop.search.resident import Resident
    from fasthop.train.task_config import make_task

    graph = read_graph(order.graph_path, torch.device(order.device))
    config, recipe = pickle.loads(order.pickled)
    # What is to be said of the task the parent has said.
    task = dataclasses.replace(make_task(config.task, graph), notes=())
    return Resident(task, recipe, config.seed, torch.device(order.device))


def _guarded(call: Callable[[], Any]) -> Any:
    """The result of `call`, or the Failure that tells what it raised."""
    try:
        return call()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return failure_of(error)


def failure_of(error: BaseException) -> Failure:
    """The Failure that tells of an exception, by its kind."""
    from fasthop.errors import FasthopError
    from fasthop.graph.note import note
    from fasthop.rewrites.base import Inapplicable
    from fasthop.train.compiled import compiler_errors, first_line

    trace = "".join(traceback.format_exception(error))
    if isinstance(error, Inapplicable):
        return Failure(kind="inapplicable", reason=error.reason)
    if isinstance(error, FasthopError):
        return Failure(kind="input", reason=note(str(error), str(error)))
    if isinstance(error, compiler_errors()):
        line = first_line(error)
        return Failure(
            kind="compiler",
            reason=note(f"torch.compile failed: {line}", f"torch.compile 失败：{line}"),
            traceback=trace,
        )
    if is_out_of_memory(error):
        return Failure(kind="memory", reason=note("It ran out of memory.", "内存不足。"), traceback=trace)
    line = first_line(error)
    return Failure(kind="error", reason=note(f"It raised {line}", f"抛出异常 {line}"), traceback=trace)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory ran out: Python's, CUDA's, or torch's CPU allocator."""
    import torch

    if isinstance(error, MemoryError | torch.cuda.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)


def _die_with_parent() -> None:
    """A worker whose parent was killed must not go on; and where memory runs out, Linux takes the
    worker, which costs one row, and not the parent."""
    if not sys.platform.startswith("linux"):
        return
    with contextlib.suppress(OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


if __name__ == "__main__":
    main()
