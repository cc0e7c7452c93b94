"""Memory by kind: what the bytes are that live when a step's memory stands highest, and which operator stood there."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from fasthop.errors import InvalidConfig
from fasthop.machine.clock import synchronizer
from fasthop.machine.trace import Block, BlockTrace, Call, record_range, refuse_running_profiler, trace_blocks
from fasthop.measure.operators import OVERHEAD, kind_of
from fasthop.measure.recording import EPOCH, recorded
from fasthop.measure.residents import BATCHES, OTHER, Residents
from fasthop.measure.stages import Stages, stretches

ACTIVATIONS, TEMPORARIES = "activations", "temporaries"
KINDS = (
    "features",
    "graph",
    "parameters",
    "gradients",
    "optimizer_state",
    ACTIVATIONS,
    TEMPORARIES,
    BATCHES,
    "fused",
    OTHER,
)
MESSAGES = ".messages"
_LOADING = ("sample", "gather", "loader", "transfer")


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryKinds:
    """What lives at the peak of a step.

    kinds: bytes by kind; those without a dot add up to everything that is alive then, resident inputs too:
        "features" and "graph" (edges, their weights, labels, masks, and what rungs made of them) count what lies there at rest;
        "parameters" (buffers included), "gradients", "optimizer_state"; "activations": made in the forward pass and
        freed after it, so kept for the backward pass; "temporaries": freed in the pass that made them; "batches": of a
        loader; "fused": the memory of compiled steps, in which activations, gradients and temporaries take turns; "other":
        caches and whatever else the process keeps in tensors and arrays, and NumPy's peak.
        "activations.messages" and "temporaries.messages" are the parts that have a row for each edge.
    operator: the operator that stood at the peak, after its stage: "backward: aten::mul"; None where nothing rose.
    peak_bytes: the sum of the kinds without a dot.
    """

    kinds: dict[str, int]
    operator: str | None
    peak_bytes: int


def measure_memory_kinds(
    call: Callable[[], object],
    *,
    device: torch.device | str,
    features: Iterable[Any] | None = None,
    graph: Iterable[Any] | None = None,
) -> MemoryKinds:
    """Runs `call` twice and says what lives at the peak of the second run, as `machine.memory.measure_peak` finds it.

    call: one step or epoch in a steady state, never under a clock at the same time. features, graph: the resident inputs,
    where they are known; None: they are looked for among what is alive (see `Residents`).
    Raises InvalidConfig where a torch profiler is running, or on a device whose blocks are not reported.
    """
    device = torch.device(device)
    if device.type not in ("cpu", "cuda"):
        raise InvalidConfig(
            f"memory can be told apart on 'cpu' and 'cuda', and got device {str(device)!r}; leave the pass out there."
        )
    refuse_running_profiler()
    features, graph = (None if given is None else tuple(given) for given in (features, graph))
    synchronize = synchronizer(device)

    numpy_peak = 0

    def epoch() -> None:
        nonlocal numpy_peak
        with record_range(EPOCH):
            call()
            synchronize()
        numpy_peak = tracemalloc.get_traced_memory()[1]  # the trace's own lists come after it

    started_here = not tracemalloc.is_tracing()
    if started_here:
        tracemalloc.start(1)
    try:
        with recorded():
            # As in measure_peak: only what was born under reports is known when it is freed.
            trace_blocks(epoch, device, quiet=True)
            gc.collect()
            before = Residents(device, features=features, graph=graph)
            tracemalloc.reset_peak()
            level = tracemalloc.get_traced_memory()[0]
            traced = trace_blocks(epoch, device)
    finally:
        if started_here:
            tracemalloc.stop()
    after = Residents(device, features=features, graph=graph, is_whole=False)
    return at_the_peak(traced, before, after, max(0, numpy_peak - level) if device.type == "cpu" else 0)


def at_the_peak(traced: BlockTrace, before: Residents, after: Residents, numpy_bytes: int) -> MemoryKinds:
    """The kinds at the highest point of a traced run. before, after: what was at rest then."""
    blocks = traced.blocks
    peak = _highest(blocks)
    stages = Stages(stretches(traced.events))
    kinds: dict[str, int] = dict.fromkeys(KINDS, 0)
    for kind, num_bytes in before.num_bytes().items():
        kinds[kind] += num_bytes
    born: dict[int, Block] = {}
    for block in blocks[: peak + 1]:
        if block.num_bytes > 0:
            born[block.address] = block
        elif born.pop(block.address, None) is None:
            freed = list(before.cut(block.address, -block.num_bytes))
            for kind, num_bytes in freed:
                kinds[kind] -= num_bytes
            # What no object of Python's held was not seen at rest either.
            kinds[OTHER] += block.num_bytes + sum(num_bytes for _, num_bytes in freed)
    deaths: dict[int, int] = {}
    for block in blocks[peak + 1 :]:
        if block.num_bytes < 0 and block.address in born:
            deaths.setdefault(block.address, block.time_ns)
    edge_rows = _edge_rows(traced.calls)
    messages = {ACTIVATIONS: 0, TEMPORARIES: 0}
    for block in born.values():
        kind = _kind_of_block(block, deaths.get(block.address), stages, after)
        kinds[kind] += block.num_bytes
        if kind in messages and _is_of_edges(block, edge_rows):
            messages[kind] += block.num_bytes
    kinds[OTHER] += numpy_bytes
    total = sum(kinds.values())
    kinds |= {kind + MESSAGES: num_bytes for kind, num_bytes in messages.items()}
    operator = None
    if peak >= 0:
        operator = f"{_stage(stages.at(blocks[peak].time_ns))}: {_operator(blocks[peak])}"
    return MemoryKinds(kinds=kinds, operator=operator, peak_bytes=total)


def _highest(blocks: list[Block]) -> int:
    """The place of the block with which the running sum is highest; -1 where it never rises above 0."""
    level = highest = 0
    place = -1
    for index, block in enumerate(blocks):
        level += block.num_bytes
        if level > highest:
            highest, place = level, index
    return place


def _kind_of_block(block: Block, death_ns: int | None, stages: Stages, after: Residents) -> str:
    born = stages.at(block.time_ns)
    if death_ns is None:
        kept = after.kind_at(block.address)
        if kept is not None and kept != OTHER:
            return kept
        return ACTIVATIONS if born == "forward" else OTHER
    if born in _LOADING:
        return BATCHES
    if born == "forward" and stages.at(death_ns) != "forward":
        return ACTIVATIONS
    return TEMPORARIES


def _edge_rows(calls: set[Call]) -> set[int]:
    """How many rows a matrix with a row for each edge has: the lengths of the indices that were summed over."""
    return {
        shapes[1][0]
        for name, shapes in calls
        if name.startswith(("aten::scatter", "aten::index_add", "torch_scatter::"))
        and len(shapes) > 1
        and shapes[1]
        and shapes[1][0]
    }


def _is_of_edges(block: Block, edge_rows: set[int]) -> bool:
    """Whether a block may be a matrix with a row for each edge, by its size and what the operator around it was given."""
    for rows in edge_rows:
        if block.num_bytes % rows or block.num_bytes // rows < 8:
            continue
        for _, shapes in block.operators:
            if any(shape and shape[0] == rows for shape in shapes):
                return True
    return False


def _operator(block: Block) -> str:
    """The operator that asked for a block: the innermost one that computes, else the outermost of all."""
    for name, _ in block.operators:
        if kind_of(name) != OVERHEAD:
            return name
    named = [name for name, _ in block.operators if name != EPOCH]
    return named[-1] if named else "Python"


def _stage(stage: str) -> str:
    return "gather" if stage == "loader" else stage
