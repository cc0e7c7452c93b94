"""What torch's own operators reach on this machine: the rates that a prediction takes beside the peaks.

A peak is what the hardware can do; an operator of torch writes into memory that it has just asked for, sums in a random order,
casts. How far that is from a peak differs by a factor of 10 from machine to machine, so it is measured: once, in about 4 s, and kept.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fasthop.cache import cache_dir
from fasthop.machine.clock import elapsed_ns, synchronizer
from fasthop.machine.fingerprint import machine_id
from fasthop.search.cost import COPY_SIZES, measure_copy_rates

_SCHEMA_VERSION = 1
WIDTHS = (1, 16, 128)
"""Channels of a row."""
NUMBERS = (1 << 16, 1 << 19, 1 << 22, 1 << 24)
"""Numbers that an operator writes or adds up: 256 KB, 2 MB, 16 MB, 64 MB in float32; the last is new memory each time."""
_ROWS_PER_NODE = 8
_SECONDS, _MOST_SECONDS, _MIN_SAMPLES = 0.02, 0.1, 5
_NEW_SHAPES = 8
_TINY = 64  # nodes of the graph on which a step is nothing but the framework's work


@dataclass(frozen=True, kw_only=True, slots=True)
class Rates:
    """Nanoseconds a number, by operator; each tuple has an entry for each of NUMBERS, within it one for each of WIDTHS.

    elementwise: `x * 2` into new memory, a number written (no widths). gather: `index_select` of random rows, a number
    written; gather_wide: by an index as wide as the rows, as the backward pass of a scatter has it. scatter: `scatter_add_` of a message into its target's row, a number read; index_add: the same by `index_add_`, which
    the backward pass of a gather is; scatter_max: by `scatter_reduce_` with "amax". spmm: torch's CSR product, a message
    (entry x channel). sort: of int64. cast_bf16: float32 to bfloat16, a number. scatter_bf16: as scatter, in bfloat16 at the middle width.
    step_us: microseconds of the framework's own work an operator in a step of a PyG model: dispatch, autograd, Python.
    bf16_shape_us: what a bfloat16 product costs more where its shape is new. copy_gb_per_s: of copies of COPY_SIZES bytes
    (see `measure_copy_rates`). device, num_threads: of the measurement.
    """

    elementwise: tuple[float, ...]
    gather: tuple[tuple[float, ...], ...]
    gather_wide: tuple[tuple[float, ...], ...]
    scatter: tuple[tuple[float, ...], ...]
    index_add: tuple[tuple[float, ...], ...]
    scatter_max: tuple[tuple[float, ...], ...]
    spmm: tuple[tuple[float, ...], ...]
    sort: tuple[float, ...]
    cast_bf16: tuple[float, ...]
    gather_bf16: tuple[float, ...]
    scatter_bf16: tuple[float, ...]
    step_us: float
    bf16_shape_us: float
    copy_gb_per_s: tuple[float, ...]
    device: str
    num_threads: int

    def ns(self, operator: str, numbers: float, width: float = 16) -> float:
        """Of a number, at an amount of numbers and a width of rows: between the measured ones by their logarithms."""
        table = getattr(self, operator)
        rows = [_between(WIDTHS, row, width) if isinstance(row, tuple) else row for row in table]
        return _between(NUMBERS, rows, numbers)

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
    rates = _measure(device)
    if path is not None:
        _write(path, rates)
    return rates


def _measure(device: torch.device) -> Rates:
    bench = _Bench(device)
    with torch.no_grad():
        tables = {
            name: tuple(tuple(call(numbers, width) for width in WIDTHS) for numbers in NUMBERS)
            for name, call in (
                ("gather", bench.gather), ("gather_wide", bench.gather_wide), ("scatter", bench.scatter), ("index_add", bench.index_add),
                ("scatter_max", bench.scatter_max), ("spmm", bench.spmm),
            )
        }  # fmt: skip
        lines = {
            name: tuple(call(numbers) for numbers in NUMBERS)
            for name, call in (
                ("elementwise", bench.elementwise), ("sort", bench.sort), ("cast_bf16", bench.cast),
                ("gather_bf16", lambda numbers: bench.gather(numbers, 16, torch.bfloat16)),
                ("scatter_bf16", lambda numbers: bench.scatter(numbers, 16, torch.bfloat16)),
            )
        }  # fmt: skip
        shape_us = bench.new_shape_us()
    return Rates(
        **tables,
        **lines,  # type: ignore[arg-type]
        step_us=bench.step_us(),
        bf16_shape_us=shape_us,
        copy_gb_per_s=tuple(measure_copy_rates().values()),
        device=device.type,
        num_threads=torch.get_num_threads(),
    )


class _Bench:
    """Small benchmarks of torch's operators as PyG calls them: each result is new memory."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.generator = torch.Generator().manual_seed(0)  # the user's random stream stays where it is
        self.synchronize = synchronizer(device)
        self.indices: dict[int, Tensor] = {}

    def elementwise(self, numbers: int) -> float:
        x = torch.ones(numbers, device=self.device)
        return self._ns(lambda: x * 2.0, numbers)

    def cast(self, numbers: int) -> float:
        x = torch.ones(numbers, device=self.device)
        return self._ns(lambda: x.to(torch.bfloat16), numbers)

    def gather(self, numbers: int, width: int, dtype: torch.dtype = torch.float32) -> float:
        index, nodes = self._index(numbers, width)
        x = torch.ones(nodes, width, device=self.device, dtype=dtype)
        return self._ns(lambda: x.index_select(0, index), numbers)

    def gather_wide(self, numbers: int, width: int) -> float:
        index, nodes = self._index(numbers, width)
        x = torch.ones(nodes, width, device=self.device)
        wide = index.view(-1, 1).expand(-1, width)
        return self._ns(lambda: x.gather(0, wide), numbers)

    def sort(self, numbers: int) -> float:
        numbers = min(numbers, 1 << 22)  # beyond it would take seconds, and a number costs little more
        key = torch.randint(numbers, (numbers,), generator=self.generator).to(self.device)
        return self._ns(lambda: key.sort(), numbers)

    def scatter(self, numbers: int, width: int, dtype: torch.dtype = torch.float32) -> float:
        index, nodes = self._index(numbers, width)
        message = torch.ones(index.numel(), width, device=self.device, dtype=dtype)
        wide = index.view(-1, 1).expand_as(message)
        return self._ns(lambda: message.new_zeros(nodes, width).scatter_add_(0, wide, message), numbers)

    def index_add(self, numbers: int, width: int) -> float:
        index, nodes = self._index(numbers, width)
        message = torch.ones(index.numel(), width, device=self.device)
        return self._ns(lambda: message.new_zeros(nodes, width).index_add_(0, index, message), numbers)

    def scatter_max(self, numbers: int, width: int) -> float:
        index, nodes = self._index(numbers, width)
        message = torch.ones(index.numel(), width, device=self.device)
        wide = index.view(-1, 1).expand_as(message)
        return self._ns(
            lambda: message.new_zeros(nodes, width).scatter_reduce_(
                0, wide, message, "amax", include_self=False
            ),
            numbers,
        )

    def spmm(self, numbers: int, width: int) -> float:
        index, nodes = self._index(numbers, width)
        rowptr = torch.arange(0, index.numel() + 1, _ROWS_PER_NODE, device=self.device)
        value = torch.ones(index.numel(), device=self.device)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
            matrix = torch.sparse_csr_tensor(rowptr, index, value, (nodes, nodes), check_invariants=False)
        x = torch.ones(nodes, width, device=self.device)
        return self._ns(lambda: matrix @ x, index.numel() * width)

    def new_shape_us(self) -> float:
        """A product whose shape was never seen, over the same again."""
        sizes = [256 + 3 * place for place in range(_NEW_SHAPES)]
        weight = torch.ones(128, 16, device=self.device, dtype=torch.bfloat16)
        gains = []
        for size in sizes:
            x = torch.ones(size, 128, device=self.device, dtype=torch.bfloat16)
            first, again = (elapsed_ns(lambda x=x: x @ weight, self.synchronize) for _ in range(2))
            gains.append(max(first - again, 0) / 1e3)
        return statistics.median(gains[1:])

    def step_us(self) -> float:
        """Of an operator in a step of a two-layer GCN on next to nothing: the step's time over its operators."""
        from fasthop.rewrites.ladder import Recipe
        from fasthop.search.predict_rehearsal import Sizes, small_graph
        from fasthop.search.predict_trace import record_step, unchanged_generator
        from fasthop.train.models import GCN
        from fasthop.train.setup import Setup
        from fasthop.train.task import Task

        sizes = Sizes(num_nodes=_TINY, num_edges=2 * _TINY, num_rows=_TINY // 2)
        mask = torch.zeros(_TINY, dtype=torch.bool)
        mask[0] = True
        with torch.enable_grad(), unchanged_generator():
            graph = small_graph(_like(mask), sizes)
            task = Task(graph=graph, make_model=lambda: GCN(8, 8, 2), loss=F.cross_entropy)
            setup = Recipe(name="baseline").on(Setup.baseline(task, seed=0, device=torch.device("cpu")))
            (batch,) = setup.batches
            num_calls = len(record_step(setup, batch))
            step = setup.step()
            return self._ns(lambda: step(batch), num_calls) / 1e3

    def _index(self, numbers: int, width: int) -> tuple[Tensor, int]:
        """Random rows, and out of how many: eight of them a node."""
        nodes = max(numbers // width // _ROWS_PER_NODE, 1)
        rows = nodes * _ROWS_PER_NODE
        if rows not in self.indices:
            self.indices[rows] = torch.randint(nodes, (rows,), generator=self.generator).to(self.device)
        return self.indices[rows], nodes

    def _ns(self, call: Callable[[], object], amount: float) -> float:
        """Nanoseconds over `amount`; the quickest of as many calls as fit in the time, after one for warm-up.

        Not the median: on a busy machine a call of 10 us waits 8 ms for its second thread more often than not.
        """
        call()
        samples: list[int] = []
        start = time.perf_counter()
        while (passed := time.perf_counter() - start) < _SECONDS or len(samples) < _MIN_SAMPLES:
            if passed > _MOST_SECONDS and samples:
                break
            samples.append(max(elapsed_ns(call, self.synchronize), 1))
        return min(samples) / amount


def _like(mask: Tensor) -> Any:
    from fasthop.graph.graph import Graph

    n = mask.numel()
    none = torch.zeros_like(mask)
    return Graph(
        x=torch.ones(n, 8), edge_index=torch.zeros(2, 1, dtype=torch.int64), y=torch.zeros(n, dtype=torch.int64),
        train_mask=mask, val_mask=none, test_mask=none, num_nodes=n, num_classes=2,
    )  # fmt: skip


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
