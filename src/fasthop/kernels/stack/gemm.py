"""Large matrix products: the BLAS that torch carries (MKL, OpenBLAS), called from the tape on torch's own threads."""

from __future__ import annotations

import ctypes
import functools
import struct
from pathlib import Path
from typing import Any

import torch

from fasthop.kernels.stack.arithmetic import call_blas
from fasthop.kernels.stack.job import ARGUMENTS, GEMM, compiled
from fasthop.kernels.stack.plan import Plan, Word


def product() -> Any:
    """C = A B + beta C by ?gemm; its arguments lie in the job."""

    def work(job):
        call_blas(job[GEMM], job, ARGUMENTS)

    return work


@functools.cache
def gemm_address(kind: str) -> int:
    """The address of sgemm_ or dgemm_ in torch's libraries; 0 where they do not export it."""
    name = "dgemm_" if kind == "float64" else "sgemm_"
    folder = Path(torch.__file__).parent / "lib"
    for path in sorted(folder.glob("*torch_cpu*")):
        try:
            found = getattr(ctypes.CDLL(str(path)), name)
        except (OSError, AttributeError):
            continue
        return ctypes.cast(found, ctypes.c_void_p).value or 0
    return 0


def add_product(
    plan: Plan,
    out: Word,
    a: Word,
    b: Word,
    *,
    rows: int,
    cols: int,
    inner: int,
    turned_a: bool = False,
    turned_b: bool = False,
    accumulate: bool = False,
) -> None:
    """out [rows, cols] = a [rows, inner] @ b [inner, cols] (+ out), all by rows without gaps.

    turned_a, turned_b: a lies in memory as [inner, rows], b as [cols, inner].
    """
    # Fortran reads by columns, so it computes the transpose: out' = b' a'.
    start = ARGUMENTS
    words: dict[int, Word] = {
        GEMM: gemm_address(plan.kind),
        start: ord("T" if turned_b else "N"),
        start + 1: ord("T" if turned_a else "N"),
        start + 2: cols,
        start + 3: rows,
        start + 4: inner,
        start + 5: _bits(1.0, plan.kind),
        start + 6: b,
        start + 7: inner if turned_b else cols,
        start + 8: a,
        start + 9: rows if turned_a else inner,
        start + 10: _bits(1.0 if accumulate else 0.0, plan.kind),
        start + 11: out,
        start + 12: cols,
    }
    plan.add(compiled(product), words)


def _bits(value: float, kind: str) -> int:
    """The number's bits in a word; a float32's in its lower half."""
    if kind == "float64":
        return struct.unpack("<q", struct.pack("<d", value))[0]
    return struct.unpack("<i", struct.pack("<f", value))[0]
