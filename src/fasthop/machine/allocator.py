"""The C library's allocator, told to keep what a program frees instead of giving it back to the system."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable

# glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4


def can_keep_freed_memory() -> bool:
    """Whether the C library has the switches: glibc does; musl, macOS and Windows do not."""
    return _mallopt() is not None


def keep_freed_memory() -> bool:
    """From now on freed memory stays with this process, for it to use again. True where the C library agreed.

    glibc otherwise asks the system for each block beyond a threshold (at most 32 MB) and trims the top of its heap, and the system
    clears every page that it hands out again. It holds for the whole process, until it ends; allocations already made are
    not touched. `mallopt(M_MMAP_MAX, 0)` and `mallopt(M_TRIM_THRESHOLD, -1)`; see mallopt(3).
    """
    mallopt = _mallopt()
    return mallopt is not None and mallopt(_M_MMAP_MAX, 0) == 1 and mallopt(_M_TRIM_THRESHOLD, -1) == 1


def _mallopt() -> Callable[[int, int], int] | None:
    if not sys.platform.startswith("linux"):
        return None
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018  musl has a mallopt that does nothing
        return library.mallopt
    except (OSError, AttributeError):
        return None
