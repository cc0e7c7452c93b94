"""The decorator of graph/'s numba functions: compiled once, kept between processes where that can be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiles a function to serial machine code that releases the GIL.

    numba keeps the code beside the source or in the user's cache and raises where neither can be
    written; then the function is compiled in every process, which takes a second or two.
    """
    try:
        return njit(nogil=True, cache=True)(function)
    except RuntimeError:
        return njit(nogil=True)(function)
