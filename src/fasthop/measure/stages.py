"""Which stage of training each instant of a traced epoch belongs to.

Stages are found from what frames them in a trace: autograd's nodes (backward), the optimiser's own ranges (step), and the ranges
around samplers and loaders. What stands before a backward pass is its forward pass; what stands before nothing of the
kind is "other".
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from dataclasses import dataclass

from fasthop.machine.trace import Event
from fasthop.measure.operators import OVERHEAD, kind_of
from fasthop.measure.recording import (
    EPOCH,
    FUSED_STEP,
    GATHER,
    LOADER,
    LOSS_PASS,
    PASS,
    REPLAY,
    SAMPLE,
    UPDATE_PASSES,
)

STAGES = ("sample", "gather", "transfer", "forward", "backward", "step", "fused", "other")
_NODE = "autograd::engine::evaluate_function"
_RANGES = {SAMPLE: "sample", GATHER: "gather", LOADER: "loader", REPLAY: "fused"}


@dataclass(frozen=True, slots=True)
class Stretch:
    """From start to end, in ns, belongs to a stage; "loader" is a loader's time outside of its sample and gather."""

    start_ns: int
    end_ns: int
    stage: str


def epoch_of(events: Iterable[Event]) -> tuple[int, int, int]:
    """Start and end of the traced epoch in ns, and the thread that ran it."""
    for event in events:
        if event.name == EPOCH:
            return event.start_ns, event.end_ns, event.thread
    raise ValueError("the trace holds no epoch")


def stretches(events: list[Event]) -> list[Stretch]:
    """The stages of a trace's epoch, in order, without gaps."""
    start, end, main = epoch_of(events)
    marks = _without_overlap(_marks(events, main))
    operators = [
        event.start_ns for event in events if event.thread == main and kind_of(event.name) != OVERHEAD
    ]
    marks = _joined(marks, operators)
    has_backward = any(mark.stage == "backward" for mark in marks)
    # The optimiser's zero_grad stands before or after the forward pass as the user likes: it frames nothing.
    framing = [mark for mark in marks if mark.stage != "zero_grad"]
    starts = [mark.start_ns for mark in framing]
    found: list[Stretch] = []
    at = start
    for mark in (*marks, Stretch(end, end, "")):
        if mark.start_ns > at:
            place = bisect.bisect_left(starts, mark.start_ns)
            before = framing[place].stage if place < len(framing) else ""
            is_forward = before == "backward" or not has_backward
            found.append(Stretch(at, mark.start_ns, "forward" if is_forward else "other"))
        if mark.end_ns > max(at, mark.start_ns):
            stage = "step" if mark.stage == "zero_grad" else mark.stage
            found.append(Stretch(max(at, mark.start_ns), mark.end_ns, stage))
        at = max(at, mark.end_ns)
    return [one for one in found if one.end_ns > one.start_ns]


def _marks(events: list[Event], main: int) -> list[Stretch]:
    """What frames the stages; inner ranges after the outer ones that hold them."""
    found = []
    fused: list[Event] = []
    for event in events:
        name = event.name
        stage = None
        if event.on_device:
            continue
        if name.startswith(_NODE):
            stage = "backward"
        elif event.thread == main:
            if name in _RANGES:
                stage = _RANGES[name]
            elif name.startswith("Optimizer.step#"):
                stage = "step"
            elif name.startswith("Optimizer.zero_grad#"):
                stage = "zero_grad"
            elif name.startswith("enumerate(DataLoader)#"):
                stage = "sample"
            elif name == FUSED_STEP:
                fused.append(event)
        if stage is not None:
            found.append(Stretch(event.start_ns, event.end_ns, stage))
    for one in fused:
        inside = [e for e in events if e.name.startswith(PASS) and one.start_ns <= e.start_ns < one.end_ns]
        found += _fused_marks(one, inside)
    return sorted(found, key=lambda mark: (mark.start_ns, -mark.end_ns))


def _fused_marks(step: Event, passes: list[Event]) -> list[Stretch]:
    """A fused step's stages by its passes: forward up to the loss, then backward, then the update; one stage where its
    passes are not to be seen."""
    if not any(one.name == LOSS_PASS for one in passes):
        return [Stretch(step.start_ns, step.end_ns, "fused")]
    found, is_after_loss = [], False
    for one in passes:
        if one.name in UPDATE_PASSES:
            found.append(Stretch(one.start_ns, one.end_ns, "step"))
        elif is_after_loss:
            found.append(Stretch(one.start_ns, one.end_ns, "backward"))
        is_after_loss = is_after_loss or one.name == LOSS_PASS
    return found


def _without_overlap(marks: list[Stretch]) -> list[Stretch]:
    """The marks cut so that each instant has one: the innermost, and of a backward pass in another thread the first."""
    found: list[Stretch] = []
    open_marks: list[Stretch] = []

    def add(start: int, end: int, stage: str) -> None:
        if end > start:
            found.append(Stretch(start, end, stage))

    at = 0
    for mark in marks:
        while open_marks and open_marks[-1].end_ns <= mark.start_ns:
            done = open_marks.pop()
            add(max(at, done.start_ns), done.end_ns, done.stage)
            at = max(at, done.end_ns)
        if open_marks:
            add(max(at, open_marks[-1].start_ns), mark.start_ns, open_marks[-1].stage)
        at = max(at, mark.start_ns)
        open_marks.append(mark)
    while open_marks:
        done = open_marks.pop()
        add(max(at, done.start_ns), done.end_ns, done.stage)
        at = max(at, done.end_ns)
    return found


def _joined(marks: list[Stretch], operators: list[int]) -> list[Stretch]:
    """Neighbouring marks of one stage as one where nothing but overhead lies between: autograd's engine goes from node to node."""
    found: list[Stretch] = []
    for mark in marks:
        last = found[-1] if found else None
        if last is not None and last.stage == mark.stage and mark.stage in ("backward", "step"):
            place = bisect.bisect_left(operators, last.end_ns)
            if place == len(operators) or operators[place] >= mark.start_ns:
                found[-1] = Stretch(last.start_ns, mark.end_ns, mark.stage)
                continue
        found.append(mark)
    return found


class Stages:
    """Looks up the stage of an instant, and cuts a span by stage."""

    def __init__(self, found: list[Stretch]) -> None:
        self.stretches = found
        self._starts = [one.start_ns for one in found]

    def at(self, time_ns: int) -> str:
        """The stage of an instant; that of the nearest one outside of the epoch."""
        place = max(bisect.bisect_right(self._starts, time_ns) - 1, 0)
        return self.stretches[place].stage if self.stretches else "other"

    def cut(self, start_ns: int, end_ns: int) -> Iterable[tuple[str, int]]:
        """The stages between two instants with the ns of each."""
        place = max(bisect.bisect_right(self._starts, start_ns) - 1, 0)
        while place < len(self.stretches) and self.stretches[place].start_ns < end_ns:
            one = self.stretches[place]
            length = min(one.end_ns, end_ns) - max(one.start_ns, start_ns)
            if length > 0:
                yield one.stage, length
            place += 1
