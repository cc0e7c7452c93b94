"""The passes of a profile that come after the clock: memory at its peak, and time and memory told apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from fasthop.machine.memory import PeakMemory
    from fasthop.measure.memory_kinds import MemoryKinds


@dataclass(kw_only=True, slots=True)
class Passes:
    """What the passes found of one step so far; None where they have not come to it."""

    peak: PeakMemory | None = None
    stages_ms: dict[str, float] | None = None
    kinds: MemoryKinds | None = None

    def run(self, step: Callable[[], object], device: torch.device, *, memory: bool, phases: bool) -> None:
        """Runs the passes that are asked for."""
        if memory:
            from fasthop.machine.memory import measure_peak

            self.peak = measure_peak(step, device=device)
        if phases:
            from fasthop.measure.memory_kinds import measure_memory_kinds
            from fasthop.measure.phases import measure_phases

            self.stages_ms = measure_phases(step, device=device)
            self.kinds = measure_memory_kinds(step, device=device)
