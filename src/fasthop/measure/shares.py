"""The shares of a traced epoch: wall time by stage and, within forward and backward, by the kind of operator it went into."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from fasthop.machine.trace import Event
from fasthop.measure.operators import (
    AGGREGATE,
    ELEMENTWISE,
    OVERHEAD,
    TRANSFORM,
    is_sparse_part,
    kind_of,
)
from fasthop.measure.recording import EPOCH
from fasthop.measure.stages import Stages, epoch_of, stretches

SPLIT = ("forward", "backward")
"""The stages whose time is told apart by kinds of operators."""

Key = tuple[str, str]
"""A stage, and the kind of operator within it ("" where the stage is not split)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OperatorCosts:
    """What the host pays for one operator, in ns. recorded: what it costs to record one, the time that the profiler
    adds around it. by_kind: what a call on next to nothing takes, by the kind of operator: no more than that is overhead."""

    recorded: float = 0.0
    by_kind: Mapping[str, float] = field(default_factory=dict)


def edge_rows(events: list[Event]) -> frozenset[int]:
    """How many rows a tensor with a row for each edge has: the lengths of the indices by which rows are summed up, but for
    those of what they are summed into."""
    sums = [
        event.rows
        for event in events
        if event.name.startswith(("aten::scatter", "aten::index_add", "torch_scatter::"))
        and len(event.rows) > 1
    ]
    return frozenset({rows[1] for rows in sums} - {rows[0] for rows in sums if rows[0] != rows[1]})


def _kind(event: Event, edges: frozenset[int]) -> str:
    """The kind of an operator: what computes a row for each edge belongs to the aggregation, whatever it computes."""
    kind = kind_of(event.name)
    return AGGREGATE if kind == ELEMENTWISE and not edges.isdisjoint(event.rows) else kind


def host_shares(events: list[Event], costs: OperatorCosts) -> dict[Key, float]:
    """ns of the epoch by stage and kind where the host itself computes, what the profiler adds taken off.

    Events nest; an instant belongs to the innermost operator, but all that lies in an aggregation or a matrix product
    belongs to that, and what computes a row for each edge to the aggregation. Of each operator at most `costs.by_kind` is overhead: the call itself, whatever it computes.
    """
    start, end, main = epoch_of(events)
    stages = Stages(stretches(events))
    mine = [
        event
        for event in events
        if event.thread == main
        and not event.on_device
        and event.name != EPOCH
        and start <= event.start_ns < end
    ]
    sparse, edges = _sparse_products(mine), edge_rows(mine)
    shares: dict[Key, float] = defaultdict(float)
    calls: dict[Key, float] = defaultdict(float)
    open_events: list[tuple[int, str, bool]] = []  # end, kind, whether what lies inside belongs to it
    at = start

    def spend(until: int) -> None:
        nonlocal at
        if until > at:
            kind = open_events[-1][1] if open_events else OVERHEAD
            for stage, ns in stages.cut(at, until):
                shares[_key(stage, kind)] += ns
            at = until

    for index, event in enumerate(mine):
        while open_events and open_events[-1][0] <= event.start_ns:
            spend(open_events[-1][0])
            open_events.pop()
        spend(event.start_ns)
        stage = stages.at(event.start_ns)
        outer_kind, is_whole = (open_events[-1][1], open_events[-1][2]) if open_events else (OVERHEAD, False)
        shares[_key(stage, outer_kind)] -= costs.recorded
        kind = AGGREGATE if index in sparse else _kind(event, edges)
        if is_whole:
            kind = outer_kind
        elif kind != OVERHEAD and not event.name.startswith("fasthop"):  # ours are not called through torch
            calls[_key(stage, kind)] += min(
                costs.by_kind.get(kind_of(event.name), 0.0), event.end_ns - event.start_ns
            )
        open_events.append((event.end_ns, kind, is_whole or kind in (AGGREGATE, TRANSFORM)))
    while open_events:
        spend(min(open_events[-1][0], end))
        open_events.pop()
    spend(end)
    return _with_calls_as_overhead(shares, calls)


def _sparse_products(events: list[Event]) -> set[int]:
    """The numbers of the matrix products that look into a sparse matrix: those are aggregations."""
    found: set[int] = set()
    open_events: list[tuple[int, int]] = []  # end, number
    for index, event in enumerate(events):
        while open_events and open_events[-1][0] <= event.start_ns:
            open_events.pop()
        if is_sparse_part(event.name):
            found.update(number for _, number in open_events if kind_of(events[number].name) == TRANSFORM)
        open_events.append((event.end_ns, index))
    return found


def _with_calls_as_overhead(shares: Mapping[Key, float], calls: Mapping[Key, float]) -> dict[Key, float]:
    found = {key: max(ns, 0.0) for key, ns in shares.items()}
    for key, ns in calls.items():
        stage, kind = key
        if not kind:
            continue
        moved = min(ns, found.get(key, 0.0))
        found[key] = found.get(key, 0.0) - moved
        found[stage, OVERHEAD] = found.get((stage, OVERHEAD), 0.0) + moved
    return found


def device_shares(events: list[Event], added_ns: float) -> dict[Key, float]:
    """ns of the epoch by stage and kind where a device computes: while a kernel runs, the stage and kind of the operator
    that launched it; while none runs, the overhead of the stage that the host is in.

    added_ns: how much longer the epoch was for being traced, which is taken off the time without kernels, in
    proportion: recording slows the host, and a busy device hides that.
    """
    start, end, _ = epoch_of(events)
    stages = Stages(stretches(events))
    origin = _launchers(events, stages)
    shares: dict[Key, float] = defaultdict(float)
    idle: dict[Key, float] = defaultdict(float)
    at = start
    for event in (one for one in events if one.on_device):
        first, last = max(event.start_ns, at), min(event.end_ns, end)
        if last <= first:
            continue
        for stage, ns in stages.cut(at, first):
            idle[_key(stage, OVERHEAD)] += ns
        shares[_device_key(event, origin.get(event.correlation), stages)] += last - first
        at = last
    for stage, ns in stages.cut(at, end):
        idle[_key(stage, OVERHEAD)] += ns
    total = sum(idle.values())
    kept = max(total - max(added_ns, 0.0), 0.0) / total if total else 0.0
    for key, ns in idle.items():
        shares[key] += ns * kept
    return dict(shares)


def _launchers(events: list[Event], stages: Stages) -> dict[int, Key]:
    """Stage and kind of every operator of the host, by its number."""
    found: dict[int, Key] = {}
    around: dict[int, list[tuple[int, str, bool]]] = defaultdict(list)
    edges = edge_rows(events)
    for event in events:
        if event.on_device:
            continue
        opened = around[event.thread]
        while opened and opened[-1][0] <= event.start_ns:
            opened.pop()
        kind = _kind(event, edges)
        is_whole = bool(opened) and opened[-1][2]
        if is_whole or (kind == OVERHEAD and opened):
            kind = opened[-1][1]
        opened.append((event.end_ns, kind, is_whole or kind in (AGGREGATE, TRANSFORM)))
        found[event.correlation] = (stages.at(event.start_ns), kind)
    return found


def _device_key(event: Event, origin: Key | None, stages: Stages) -> Key:
    if event.name.startswith("Memcpy") and ("HtoD" in event.name or "DtoH" in event.name):
        return ("transfer", "")
    stage, kind = origin or (stages.at(event.start_ns), kind_of(event.name))
    named = kind_of(event.name)
    if kind == OVERHEAD:  # a kernel is never overhead; what no name tells is elementwise
        kind = named if named != OVERHEAD else ELEMENTWISE
    return _key(stage, kind)


def _key(stage: str, kind: str) -> Key:
    if stage == "loader":
        return ("loader", "")
    return (stage, kind) if stage in SPLIT else (stage, "")
