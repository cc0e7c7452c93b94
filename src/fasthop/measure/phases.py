"""Phases: where the wall time of one epoch goes, measured in a pass of its own.

docs/design/measure.md says how what the profiler adds is kept out.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Mapping

import torch

from fasthop.machine.clock import elapsed_ns, synchronizer
from fasthop.machine.trace import Event, record_range, trace
from fasthop.measure.operators import AGGREGATE, ELEMENTWISE, FUSED, KINDS, OVERHEAD, TRANSFORM
from fasthop.measure.recording import EPOCH, GATHER, SAMPLE, Elsewhere, recorded
from fasthop.measure.shares import SPLIT, Key, OperatorCosts, device_shares, host_shares
from fasthop.measure.stages import STAGES, epoch_of

PASS_S = 0.8  # a pass goes on for as long, but does one turn at least
MAX_TURNS = 12
_WRAPPER_NS = 5_000
_TINY_CALLS = 100
_COST_TURNS = 5


def measure_phases(call: Callable[[], object], *, device: torch.device | str) -> dict[str, float]:
    """Where the wall time of `call` goes, in ms: one epoch of anything, in a steady state, that can be repeated.

    The keys without a dot add up to "epoch", the median time of `call` untraced in the same pass:
    "sample", "gather" (a loader's, of fasthop, PyG or torch), "transfer" (copies between host and device), "forward"
    (loss included), "backward", "step" (the optimiser, zero_grad included), "other" (what is none of these), and "fused" where a
    CUDA graph is replayed, whose kernels belong to no stage. Those with a dot add up to their stage: "forward.aggregate",
    ".transform", ".elementwise" (see `operators.kind_of`; what has a row for each edge is aggregation, the products of messages
    included), ".overhead": wall time in which no kernel ran, that of the call
    of an operator included; and ".fused": kernels that torch.compile joined on a CPU.

    A fused step is told apart by its passes. Call it never under a clock: `call` is run up to twice `MAX_TURNS` times, every
    other time traced. Raises InvalidConfig where a torch profiler is running; what `call` raises passes through.
    """
    device = torch.device(device)
    synchronize = synchronizer(device)
    costs = OperatorCosts() if device.type == "cuda" else operator_costs()
    plain_ns: list[int] = []
    traced: list[tuple[list[Event], Elsewhere]] = []
    start = time.perf_counter()
    while len(traced) < MAX_TURNS:
        plain_ns.append(elapsed_ns(call, synchronize))
        traced.append(_traced(call, device, synchronize))
        spent = time.perf_counter() - start
        if spent * (1 + 1 / len(traced)) > PASS_S:
            break
    epoch_ns = statistics.median(plain_ns)
    shares: dict[Key, float] = defaultdict(float)
    for events, elsewhere in quieter_half(traced):
        first, last, _ = epoch_of(events)
        if device.type == "cuda":
            found = device_shares(events, last - first - epoch_ns)
        else:
            found = without_wrappers(host_shares(events, costs), events, epoch_ns)
        for key, ns in _with_loader_told_apart(found, elsewhere).items():
            shares[key] += ns
    return stages_ms(shares, epoch_ns / 1e6)


def without_wrappers(shares: Mapping[Key, float], events: list[Event], epoch_ns: float) -> dict[Key, float]:
    """The shares without what our own ranges, entered from Python, add to the overhead of a short step.

    What the epoch is still longer than an untraced one is taken off the overhead, in proportion, but never more than
    `_WRAPPER_NS` for each of those ranges: the rest is the machine's unrest, which hits all alike.
    """
    num_wrappers = sum(event.name.startswith("fasthop") for event in events)
    added = min(max(sum(shares.values()) - epoch_ns, 0.0), _WRAPPER_NS * num_wrappers)
    overhead = sum(ns for key, ns in shares.items() if key[1] == OVERHEAD)
    kept = max(overhead - added, 0.0) / overhead if overhead else 0.0
    return {key: ns * kept if key[1] == OVERHEAD else ns for key, ns in shares.items()}


def stages_ms(shares: Mapping[Key, float], epoch_ms: float) -> dict[str, float]:
    """Shares by stage and kind as `measure_phases` returns them, scaled so that they add up to an epoch's time."""
    total = sum(shares.values())
    scale = epoch_ms / total if total else 0.0
    found = {"epoch": epoch_ms}
    by_stage: dict[str, float] = defaultdict(float)
    for (stage, _), ns in shares.items():
        by_stage[stage] += ns * scale
    for stage in STAGES:
        if stage in by_stage or stage != "fused":
            found[stage] = by_stage.get(stage, 0.0)
        if stage in SPLIT:
            for kind in KINDS:
                ms = shares.get((stage, kind), 0.0) * scale
                if kind != FUSED or ms:
                    found[f"{stage}.{kind}"] = ms
    return found


def quieter_half(traced: list[tuple[list[Event], Elsewhere]]) -> list[tuple[list[Event], Elsewhere]]:
    """The shorter half of the traced epochs: one that another process cut into tells where it was cut."""
    by_length = sorted(traced, key=lambda one: epoch_of(one[0])[1] - epoch_of(one[0])[0])
    return by_length[: (len(by_length) + 1) // 2]


def operator_costs() -> OperatorCosts:
    """What recording an operator adds here and now, and what a call on next to nothing takes by its kind; about 50 ms."""
    x, index = torch.ones(4, 4), torch.zeros(4, dtype=torch.int64)
    tiny: dict[str, tuple[str, Callable[[], object]]] = {
        ELEMENTWISE: ("aten::add", lambda: torch.add(x, x)),
        TRANSFORM: ("aten::mm", lambda: torch.mm(x, x)),
        AGGREGATE: ("aten::index_select", lambda: torch.index_select(x, 0, index)),
    }

    def run() -> None:
        for _, call in tiny.values():
            for _ in range(_TINY_CALLS):
                call()

    with torch.no_grad():
        run()
        plain_ns, traced_ns, per_operator = [], [], []
        by_kind: dict[str, list[float]] = defaultdict(list)
        for _ in range(_COST_TURNS):
            plain_ns.append(elapsed_ns(run, lambda: None))
            events, _ = _traced(run, torch.device("cpu"), lambda: None)
            first, last, _ = epoch_of(events)
            traced_ns.append(last - first)
            per_operator.append(len(events) - 1)
            for kind, (name, _) in tiny.items():
                by_kind[kind].append(
                    statistics.median(e.end_ns - e.start_ns for e in events if e.name == name)
                )
    # The quickest of each: what else runs on the machine only adds.
    recorded_ns = max(min(traced_ns) - min(plain_ns), 0) / per_operator[0]
    return OperatorCosts(recorded=recorded_ns, by_kind={kind: min(ns) for kind, ns in by_kind.items()})


def _traced(
    call: Callable[[], object], device: torch.device, synchronize: Callable[[], None]
) -> tuple[list[Event], Elsewhere]:
    with recorded() as elsewhere:

        def epoch() -> None:
            synchronize()
            with record_range(EPOCH):
                call()
                synchronize()

        return trace(epoch, device), elsewhere


def _with_loader_told_apart(shares: Mapping[Key, float], elsewhere: Elsewhere) -> dict[Key, float]:
    """The wait for a loader's threads as those spent their time; what a loader does besides is "gather"."""
    found = {key: ns for key, ns in shares.items() if key[0] != "loader"}
    waited = sum(ns for key, ns in shares.items() if key[0] == "loader")
    if waited:
        sample, gather = (elsewhere.ns.get(name, 0) for name in (SAMPLE, GATHER))
        part = sample / (sample + gather) if sample + gather else 0.0
        found["sample", ""] = found.get(("sample", ""), 0.0) + waited * part
        found["gather", ""] = found.get(("gather", ""), 0.0) + waited * (1 - part)
    return found
