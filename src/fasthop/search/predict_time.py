"""How long recorded operators should take on this machine: each the longer of its arithmetic and its traffic, plus a call."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from fasthop.machine.peaks import MachinePeaks
from fasthop.search.cost import copy_rate
from fasthop.search.fresh_memory import PAGE_BYTES, fresh_bytes
from fasthop.search.predict_rates import Rates
from fasthop.search.predict_trace import BACKWARD, FORWARD, OPTIMIZER, Call, Shape

GATHERS = ("aten::index_select", "aten::index", "aten::embedding")
ADDERS = (
    "aten::index_add",
    "aten::index_add_",
    "aten::_index_put_impl_",
    "aten::index_put_",
    "aten::index_put",
)
WIDE_GATHERS = ("aten::gather",)
SORTS = ("aten::sort", "aten::argsort")
SCATTERS = ("aten::scatter_add", "aten::scatter_add_")
EXTREMA = ("aten::scatter_reduce", "aten::scatter_reduce_")
SPARSE = (
    "aten::_sparse_mm",
    "aten::_sparse_mm_reduce_impl",
    "aten::_sparse_addmm",
    "aten::addmm",
    "aten::mm",
)
SCALINGS = ("aten::mul", "aten::div", "aten::add", "aten::sub", "aten::mul_", "aten::div_")
NOTHING = (
    "aten::empty",
    "aten::empty_like",
    "aten::empty_strided",
    "aten::new_empty",
    "aten::_local_scalar_dense",
)
ELEMENT_BYTES = 8  # of the measured elementwise operator: a number read and one written

# torch.compile on a CPU: what a compiled piece of the model costs beside its kernels (guards, autograd's runtime, one call
# forward and one backward), in operators of the framework. Set on the two-layer GCN on Cora: docs/design/search.md.
PIECE_OPERATORS = 50
# A kernel that was compiled is called from C++, without dispatch and autograd; the same source.
KERNEL_SHARE = 0.3


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """What a prediction knows of the machine."""

    peaks: MachinePeaks
    rates: Rates


def step_ms(
    calls: Sequence[Call], machine: Machine, *, compiled: bool, new_shapes: bool, kept: bool = False
) -> float:
    """Predicted time of a step of these operators in ms.

    compiled: what torch.compile makes of them. new_shapes: whether each step has other shapes, as sampled batches do.
    kept: whether freed memory is kept, so that no page of it comes anew.
    """
    run = joined(calls) if compiled else calls
    if kept:
        machine = dataclasses.replace(machine, rates=machine.rates.of_kept_memory)
    ns = sum(_least_ns(call, machine, new_shapes=new_shapes, compiled=compiled) for call in run)
    pages_us = 0.0 if kept else fresh_bytes(run) / PAGE_BYTES * machine.rates.page_us
    return (ns + (framework_us(calls, machine.rates, compiled=compiled) + pages_us) * 1e3) / 1e6


def framework_us(calls: Sequence[Call], rates: Rates, *, compiled: bool) -> float:
    """What the framework takes for calling these operators, in a step."""
    if not compiled:
        return sum(call_us(call, rates) for call in calls)
    # A shape that depends on data (the removal of self-loops) cuts the model in two pieces.
    breaks = sum(_is_masked(call) for call in calls if call.phase == FORWARD)
    outside = sum(call_us(call, rates) for call in calls if not _in_model(call))
    inside = sum(call_us(call, rates) for call in joined(calls) if _in_model(call) and not call.is_view)
    return outside + KERNEL_SHARE * inside + PIECE_OPERATORS * (1 + breaks) * rates.forward_us


def call_us(call: Call, rates: Rates) -> float:
    """What the framework takes for one call, by its phase."""
    if call.phase == BACKWARD:
        return rates.backward_us
    return rates.optimizer_us if call.phase == OPTIMIZER else rates.forward_us


def joined(calls: Sequence[Call]) -> list[Call]:
    """The operators as torch.compile joins them: each run of neighbouring elementwise ones and gathers in the model is one, and what is
    used within it alone is not stored; rows that are added up are made as they are added."""
    found: list[Call] = []
    run: list[Call] = []
    last_read = {shape.memory: place for place, call in enumerate(calls) for shape in call.reads}
    for place, call in enumerate(calls):
        if _in_model(call) and (call.is_view or _is_elementwise(call) or _is_gather(call)):
            if not call.is_view:
                run.append(call)
            continue
        adds = _in_model(call) and call.name in ADDERS
        found += _join(run, last_read, place + adds)
        run = []
        found.append(call)
    return found + _join(run, last_read, len(calls))


def _join(run: list[Call], last_read: dict[int, int], end: int) -> list[Call]:
    if len(run) < 2:
        return run
    made: dict[int, Shape] = {}
    reads: dict[int, Shape] = {}
    for call in run:
        reads |= {shape.memory: shape for shape in call.reads if shape.memory not in made}
        made |= {shape.memory: shape for shape in call.writes}
    kept = [shape for memory, shape in made.items() if last_read.get(memory, end) >= end]
    return [dataclasses.replace(run[0], name="joined", reads=tuple(reads.values()), writes=tuple(kept))]


def _in_model(call: Call) -> bool:
    return call.phase in (FORWARD, BACKWARD)


def _is_elementwise(call: Call) -> bool:
    named = (*GATHERS, *WIDE_GATHERS, *ADDERS, *SCATTERS, *EXTREMA, *SPARSE, *SORTS, "aten::nonzero")
    return not call.is_product and call.name not in named


def _is_gather(call: Call) -> bool:
    return call.name in (*GATHERS, *WIDE_GATHERS) and not _is_masked(call)


def _is_masked(call: Call) -> bool:
    """Whether it picks by a mask, so that the shape of its result depends on data."""
    masked = call.name == "aten::index" and any(shape.dtype is torch.bool for shape in call.reads)
    return masked or call.name in ("aten::nonzero", "aten::masked_select")


def _least_ns(call: Call, machine: Machine, *, new_shapes: bool, compiled: bool = False) -> float:
    """Of an operator without its call. compiled: as torch.compile writes it, whose additions of rows are atomic."""
    rates = machine.rates
    if call.is_view or call.name in NOTHING or not (call.reads or call.writes):
        return 0.0
    if is_sparse(call):
        entries, width = _entries(call), _width(call.writes)
        name = "spmm_t" if any(shape.by_column for shape in call.reads) else "spmm"
        return entries * width * rates.ns(name, entries * width, width)
    if call.is_product:
        return _product_ns(call, machine, new_shapes=new_shapes)
    half = any(shape.dtype in (torch.bfloat16, torch.float16) for shape in (*call.reads, *call.writes))
    if call.writes and call.name in SORTS:
        return call.writes[0].numel * rates.ns("sort", call.writes[0].numel)
    if call.writes and call.name in GATHERS and not _is_masked(call):
        return _rows_ns("gather", call.writes[0], rates, half=half)
    if call.writes and call.name in WIDE_GATHERS:
        return _rows_ns("gather_wide", call.writes[0], rates, half=half)
    source = max(call.reads, key=lambda shape: (shape.dtype.is_floating_point, shape.numel), default=None)
    by_mask = any(shape.dtype is torch.bool for shape in call.reads)
    # Its C++ has torch's own scatter_add, but adds rows up (index_add) by itself; on one thread nothing needs to be atomic.
    atomic = compiled and rates.num_threads > 1 and rates.atomic_ns > 0 and _in_model(call)
    if atomic and source is not None and call.name in ADDERS and not by_mask:
        return source.numel * rates.atomic_ns
    if source is not None and call.name in ADDERS and not by_mask:
        return _rows_ns("index_add", source, rates, half=half)
    if source is not None and call.name in SCATTERS:
        return _rows_ns("scatter", source, rates, half=half)
    if source is not None and call.name in EXTREMA:
        return _rows_ns("scatter_max", source, rates, half=half)
    if call.name == "aten::_to_copy" and half:
        numbers = call.writes[0].numel
        return numbers * rates.ns("cast_bf16", numbers / 2)
    width = _scaled_width(call)
    if width is not None:
        return call.writes[0].numel * rates.ns("scaled", call.writes[0].numel, width)
    # A number of two bytes takes as long as one of four: it is computed in float32 and rounded.
    numbers = call.num_bytes / ELEMENT_BYTES * (2 if half else 1)
    return numbers * rates.ns("elementwise", numbers)


def _scaled_width(call: Call) -> int | None:
    """The width of rows that are each multiplied by, added to or divided by one number; None for any other operator."""
    if call.name not in SCALINGS or not call.writes or len(call.writes[0].size) < 2 or len(call.reads) < 2:
        return None
    size = call.writes[0].size
    narrow = any(len(shape.size) == len(size) and shape.size[-1] == 1 < size[-1] for shape in call.reads)
    return size[-1] if narrow else None


def _rows_ns(operator: str, rows: Shape, rates: Rates, *, half: bool) -> float:
    width = math.prod(rows.size[1:])
    words = rows.numel * rows.dtype.itemsize / 4
    each = rates.ns(operator, words, width)
    if half:
        name = "gather" if operator.startswith("gather") else "scatter"
        each *= rates.ns(f"{name}_bf16", words) / rates.ns(name, words)
    return rows.numel * each


def _product_ns(call: Call, machine: Machine, *, new_shapes: bool) -> float:
    peaks, rates = machine.peaks, machine.rates
    half = any(shape.dtype in (torch.bfloat16, torch.float16) for shape in call.reads)
    rows, inner, columns = call.product_sizes
    gflops = rates.gflops(rows, inner, columns, half=half)
    move_ns = call.num_bytes / copy_rate(call.num_bytes, peaks, rates.copy_rates)
    new_ns = rates.bf16_shape_us * 1e3 if half and new_shapes else 0.0
    return max(call.flops / gflops, move_ns) + new_ns


def is_sparse(call: Call) -> bool:
    """Whether it is a product with a sparse matrix: one operand came as its row pointers, columns and values."""
    if call.name not in SPARSE:
        return False
    return sum(shape.dtype in (torch.int64, torch.int32) for shape in call.reads) >= 2


def _entries(call: Call) -> int:
    return max(shape.numel for shape in call.reads if shape.dtype in (torch.int64, torch.int32))


def _width(shapes: Iterable[Shape]) -> int:
    return max((math.prod(shape.size[1:]) for shape in shapes if shape.dtype.is_floating_point), default=1)


def floor_ms_of(calls: Sequence[Call], peaks: MachinePeaks) -> float:
    """The least time of these operators at the machine's peaks, as `search.cost` counts it, calls left out."""
    fp32, copy = peaks.matmul_fp32_gflops.median, peaks.copy_gb_per_s.median
    return sum(max(call.flops / (fp32 * 1e6), call.num_bytes / (copy * 1e6)) for call in calls)
