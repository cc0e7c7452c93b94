"""What torch's own operators reach on this machine: the rates that a prediction takes beside the peaks.

A peak is what the hardware can do; an operator of torch writes into memory that it has just asked for, sums in a random order,
casts. How far that is from a peak differs by a factor of 10 from machine to machine, so it is measured: once, in about 4 s, and kept.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import tempfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from fasthop.cache import cache_dir
from fasthop.machine.fingerprint import machine_id
from fasthop.search.cost import COPY_SIZES

_SCHEMA_VERSION = 6
WIDTHS = (1, 8, 16, 128)
"""Channels of a row."""
NUMBERS = (1 << 16, 1 << 20, (1 << 23) - (1 << 12), 1 << 24)
"""Numbers that an operator writes or adds up: 256 KB, 4 MB, 32 MB, 64 MB in float32. What is larger than 32 MB, glibc asks the
system for each time, and its pages are cleared: an elementwise operator then takes up to ten times as long a number."""

NARROW = (16, 64, 256)
"""The least dimension of a matrix product."""
KINDS = ("rows", "inner", "columns")
"""Which of a product's dimensions is the least: a weight's gradient has few rows, a gradient of x few terms to a sum, a
forward pass few columns."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rates:
    """Nanoseconds a number, by operator; each tuple has an entry for each of NUMBERS, within it one for each of WIDTHS.

    elementwise: `x * 2` into new memory, a number written (no widths); scaled: `x * v` with a v for each row. gather: `index_select` of random rows, a number
    written; gather_wide: by an index as wide as the rows, as the backward pass of a scatter has it. scatter: `scatter_add_` of a message into its target's row, a number read; index_add: the same by `index_add_`, which
    the backward pass of a gather is; scatter_max: by `scatter_reduce_` with "amax". spmm: torch's CSR product, a message
    (entry x channel); spmm_t: by the transpose that torch makes anew each time. sort: of int64. cast_bf16: float32 to bfloat16, a
    number. scatter_bf16: as scatter, in bfloat16 at the middle width. Those in bfloat16 are at twice the NUMBERS, so as many bytes.
    product_gflops, product_bf16_gflops: of matrix products, an entry for each of KINDS and within it for each of NARROW: a product with
    16 columns reaches two thirds of the machine's best here, one with 16 rows less than half.
    forward_us, backward_us, optimizer_us: microseconds of the framework's own work an operator in a step of a PyG model
    (dispatch, autograd, Python), by the phase of the step.
    bf16_shape_us: what a bfloat16 product costs more where its shape is new. atomic_ns: an atomic addition of all threads, by which
    compiled code adds rows up (0 on a GPU, whose eager code has them too). page_us: of a page of new memory that the system clears. copy_gb_per_s: of copies of COPY_SIZES bytes
    (see `measure_copy_rates`). device, num_threads: of the measurement.
    """

    elementwise: tuple[float, ...]
    scaled: tuple[tuple[float, ...], ...]
    gather: tuple[tuple[float, ...], ...]
    gather_wide: tuple[tuple[float, ...], ...]
    scatter: tuple[tuple[float, ...], ...]
    index_add: tuple[tuple[float, ...], ...]
    scatter_max: tuple[tuple[float, ...], ...]
    spmm: tuple[tuple[float, ...], ...]
    spmm_t: tuple[tuple[float, ...], ...]
    sort: tuple[float, ...]
    cast_bf16: tuple[float, ...]
    gather_bf16: tuple[float, ...]
    scatter_bf16: tuple[float, ...]
    product_gflops: tuple[tuple[float, ...], ...]
    product_bf16_gflops: tuple[tuple[float, ...], ...]
    forward_us: float
    backward_us: float
    optimizer_us: float
    bf16_shape_us: float
    atomic_ns: float
    page_us: float
    copy_gb_per_s: tuple[float, ...]
    device: str
    num_threads: int

    def ns(self, operator: str, numbers: float, width: float = 16) -> float:
        """Of a number, at an amount of numbers and a width of rows: between the measured ones by their logarithms."""
        table = getattr(self, operator)
        rows = [_between(WIDTHS, row, width) if isinstance(row, tuple) else row for row in table]
        return _between(NUMBERS, rows, numbers)

    def gflops(self, rows: int, inner: int, columns: int, *, half: bool) -> float:
        """What a matrix product [rows, inner] x [inner, columns] reaches. half: of bfloat16 numbers."""
        table = self.product_bf16_gflops if half else self.product_gflops
        sizes = (rows, inner, columns)
        kind = sizes.index(min(sizes))
        return _between(NARROW, table[kind], sizes[kind])

    @property
    def of_kept_memory(self) -> Rates:
        """With the largest amount at the rate of the one below, which is the last whose memory glibc keeps."""
        tables = {
            field.name: (*table[:-2], table[-2], table[-2])
            for field in dataclasses.fields(self)
            if isinstance(table := getattr(self, field.name), tuple)
            and len(table) == len(NUMBERS)
            and field.name != "copy_gb_per_s"
        }
        return dataclasses.replace(self, **tables)

    @property
    def copy_rates(self) -> dict[int, float]:
        """As `floor_ms` takes them."""
        return dict(zip(COPY_SIZES, self.copy_gb_per_s, strict=True))


def _between(places: tuple[int, ...], values: Any, place: float) -> float:
    """The value at `place` of a line through the logarithms; beyond the ends, the end's."""
    if place <= places[0]:
        return values[0]
    for (left, a), (right, b) in zip(
        zip(places, values, strict=True), list(zip(places, values, strict=True))[1:], strict=False
    ):
        if place <= right:
            share = math.log(place / left) / math.log(right / left)
            return math.exp((1 - share) * math.log(a) + share * math.log(b))
    return values[-1]


def machine_rates(device: torch.device | str = "cpu", *, remeasure: bool = False) -> Rates:
    """The rates of `device` with as many threads as torch uses now; from the cache where they were measured before."""
    device = torch.device(device)
    path = _cache_path(device)
    if path is not None and not remeasure:
        known = _read(path)
        if known is not None:
            return known
    from fasthop.search.predict_bench import measure_rates  # late: it rehearses a step, which needs PyG

    rates = measure_rates(device)
    if path is not None:
        _write(path, rates)
    return rates


def _cache_path(device: torch.device) -> Path | None:
    version = metadata.version("torch").replace("+", "-")
    place = device.type if device.index is None else f"{device.type}{device.index}"
    try:
        folder = cache_dir("peaks")
    except OSError:
        return None
    return folder / f"rates-{machine_id()}-{place}-torch{version}-{torch.get_num_threads()}threads.json"


def _read(path: Path) -> Rates | None:
    """The rates in a file; None where there is none, or it is damaged or of another version."""
    try:
        tree: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if tree.pop("schema_version") != _SCHEMA_VERSION:
            return None
        rates = Rates(**{key: _tuples(value) for key, value in tree.items()})
        for field in dataclasses.fields(Rates):
            _check(getattr(rates, field.name))
        return rates
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _tuples(value: Any) -> Any:
    return tuple(_tuples(entry) for entry in value) if isinstance(value, list) else value


def _check(value: Any) -> None:
    if isinstance(value, tuple):
        for entry in value:
            _check(entry)
    elif not isinstance(value, str) and not (math.isfinite(value) and value >= 0):
        raise ValueError(value)


def _write(path: Path, rates: Rates) -> None:
    """Written beside, then renamed; a cache that cannot be written is no reason to fail."""
    tree = {"schema_version": _SCHEMA_VERSION, **dataclasses.asdict(rates)}
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".json.part")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(tree, file, indent=2)
            os.replace(temporary, path)
        except OSError:
            os.unlink(temporary)
    except OSError:
        return
