"""The one decorator that compiles fasthop's kernels, and where the compiled code is kept.

numba keeps compiled code beside the source, or in the user's cache where that cannot be written,
and raises where neither can. It also takes a cached kernel for fresh as long as the kernel's own
file is unchanged, whatever became of the functions it calls in other files. So the folder is chosen
here: one per state of the kernels' sources, in the user's cache, and none at all (compile in every
process) where nothing can be written.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import config

from fasthop import cache

log = logging.getLogger("fasthop.kernels")

SOURCES = ("kernels", "graph")
"""The folders that hold kernels."""


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiles a function with numba: no Python objects, GIL released, serial, cached between processes.

    Serial, because numba's default threading layer ends the process when two threads start
    parallel kernels; callers run kernels side by side on Python threads instead.
    """
    folder = cache_dir()
    if folder is None:
        return numba.njit(nogil=True, error_model="numpy")(function)
    # numba reads its folder when it decorates; the user's own setting stands again afterwards.
    before = config.CACHE_DIR  # pyright: ignore[reportAttributeAccessIssue]
    config.CACHE_DIR = str(folder)  # pyright: ignore[reportAttributeAccessIssue]
    try:
        compiled = numba.njit(nogil=True, error_model="numpy", cache=True)(function)
    finally:
        config.CACHE_DIR = before  # pyright: ignore[reportAttributeAccessIssue]
    _survive_a_full_disk(compiled)
    return compiled


@functools.cache
def cache_dir() -> Path | None:
    """The folder of this version's compiled kernels, made if need be; None where none can be written.

    The first that can be written of NUMBA_CACHE_DIR and fasthop's own cache (`fasthop.cache`).
    """
    name = f"fasthop-kernels-{_digest()}"
    named = os.environ.get("NUMBA_CACHE_DIR")
    places = [lambda: Path(named)] if named else []
    places.append(lambda: cache.cache_dir("numba"))
    for place in places:
        try:
            folder = place() / name
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder) as probe:
                probe.write(b"a file that is written, not only opened: a full quota shows only then")
        except (OSError, RuntimeError):
            continue
        return folder
    log.info(
        "no folder can be written for compiled kernels: they are compiled in every process, "
        "which takes a few seconds; set NUMBA_CACHE_DIR to a folder that can be written"
    )
    return None


def _digest() -> str:
    """A short name for the state of all sources with kernels, so that no stale code is ever loaded."""
    state = hashlib.sha256()
    for folder in SOURCES:
        for path in sorted((Path(__file__).parent / folder).rglob("*.py")):
            state.update(path.read_bytes())
    return state.hexdigest()[:12]


def _survive_a_full_disk(compiled: Any) -> None:
    """A compiled kernel that cannot be saved is still a compiled kernel: the call goes on."""
    cache = getattr(compiled, "_cache", None)
    save = getattr(cache, "save_overload", None)
    if save is None:
        return

    def save_or_go_on(*args: Any) -> None:
        try:
            save(*args)
        except OSError as error:
            log.warning(
                "a compiled kernel could not be saved (%s); it will be compiled again next time", error
            )

    cache.save_overload = save_or_go_on  # pyright: ignore[reportOptionalMemberAccess]
