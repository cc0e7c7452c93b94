"""torch.compile as fasthop uses it: a forward with a way back, and a watch that counts what it costs."""

from __future__ import annotations

import logging
import re
import shutil
import time
from types import TracebackType
from typing import Any

import torch

from fasthop.errors import InvalidConfig

logger = logging.getLogger("fasthop")

_ESCAPES = r"\x1b\[[0-9;]*m"
MODES = ("default", "reduce-overhead", "max-autotune")


def compiler_errors() -> tuple[type[BaseException], ...]:
    """The exceptions by which torch.compile says that it failed."""
    from torch._dynamo.exc import TorchDynamoException

    found: list[type[BaseException]] = [TorchDynamoException]
    try:
        from torch._inductor.exc import CppCompileError, InvalidCxxCompiler

        found += [CppCompileError, InvalidCxxCompiler]
    except ImportError:  # names of a torch that this code has not met
        pass
    return tuple(found)


def missing_compiler(device: torch.device) -> str | None:
    """What torch.compile lacks on this machine, as a clause, or None."""
    if device.type == "cpu":
        import os

        named = os.environ.get("CXX")
        candidates = [named] if named else ["g++", "clang++", "c++", "cl"]
        if not any(shutil.which(name.split()[0]) for name in candidates if name):
            return f"no C++ compiler was found (looked for {', '.join(candidates)})"
    elif device.type == "cuda":
        try:
            import triton  # noqa: F401  # pyright: ignore[reportMissingImports]
        except ImportError:
            return "the package triton is not installed"
    return None


class CompiledForward:
    """A module under torch.compile that goes on uncompiled, and says why, where the compiler fails.

    The module itself stays as it was: its `state_dict` has no `_orig_mod.` prefix.
    `failure` is None or the compiler's reason, one line.
    """

    def __init__(self, model: torch.nn.Module, mode: str, *, dynamic: bool | None = None) -> None:
        if mode not in MODES:
            raise InvalidConfig(f"There is no compile mode {mode!r}; there are {', '.join(MODES)}.")
        self.model = model
        self.failure: str | None = None
        self._compiled = torch.compile(model, mode=mode, dynamic=dynamic)
        self._errors = compiler_errors()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.failure is None:
            try:
                return self._compiled(*args, **kwargs)
            except self._errors as error:
                self.failure = first_line(error)
                logger.warning("torch.compile failed (%s); going on without it.", self.failure)
        return self.model(*args, **kwargs)


def first_line(error: BaseException) -> str:
    """The first line of an error's message that says something, without escape codes; where it only
    announces the next one ("backend raised:"), that one as well."""
    said = ""
    for line in str(error).splitlines():
        said = f"{said} {re.sub(_ESCAPES, '', line).strip()}".strip()
        if said and not said.endswith(":"):
            break
    return f"{type(error).__name__}: {said}"[:300] if said else type(error).__name__


class CompileWatch:
    """Counts, while it is open, what torch.compile does: seconds, recompiles and graph breaks.

    seconds: wall time between the start and the end of each compilation, as torch reports them.
    num_recompiles: compilations of a frame that had been compiled before.
    num_graph_breaks: places where a frame was cut in two, as torch counts them.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.num_compilations = 0
        self.num_recompiles = 0
        self._start = 0.0
        self._breaks_before = 0
        self._breaks_after: int | None = None

    def __enter__(self) -> CompileWatch:
        from torch._dynamo.callback import callback_handler

        callback_handler.register_start_callback(self._on_start)
        callback_handler.register_end_callback(self._on_end)
        self._breaks_before = _graph_breaks()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        from torch._dynamo.callback import callback_handler

        callback_handler.remove_start_callback(self._on_start)
        callback_handler.remove_end_callback(self._on_end)
        self._breaks_after = _graph_breaks()

    @property
    def num_graph_breaks(self) -> int:
        """Graph breaks from the start of the watch until now, or until it was closed."""
        after = _graph_breaks() if self._breaks_after is None else self._breaks_after
        return after - self._breaks_before

    def _on_start(self, args: Any) -> None:
        self._start = time.perf_counter()
        self.num_compilations += 1
        # A compile id reads "frame/attempt": attempt 0 is the first compilation of that frame.
        match = re.search(r"(\d+)/(\d+)", str(args.compile_id))
        if match and int(match[2]) > 0 and "BACKWARD" not in str(args.callback_trigger):
            self.num_recompiles += 1

    def _on_end(self, args: Any) -> None:
        self.seconds += time.perf_counter() - self._start


def _graph_breaks() -> int:
    from torch._dynamo.utils import counters

    return sum(counters["graph_break"].values())
