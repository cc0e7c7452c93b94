"""What a proof may cost, and what it will: foreseen from one step of the original, so that nothing is found out by running it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fasthop.errors import InvalidConfig
from fasthop.machine.clock import elapsed_ns, synchronizer
from fasthop.machine.memory import measure_peak
from fasthop.verify.subgraph import Reach, Subgraph, closed_subgraph, shrunken
from fasthop.verify.subject import Maker
from fasthop.verify.trace import trace

FLOAT64_TIME, FLOAT64_BYTES = 3.0, 2.0
"""A step in float64 over one in float32. PyG's 3-layer, 256-wide GCN on the arxiv shape: 32 s over 12.2, 12 GB over 6.5."""

SPARE_BYTES = 1 << 29
"""Half a GB may be used whatever the original uses: as much as the process holds with torch and PyG imported."""

PROBE_SIZE = 80_000
"""A graph of this `size` is tried as it is; a larger one is shrunken to it, and its cost scaled up. PyG's 3-layer, 256-wide
GCN on the arxiv shape was foreseen to need 5.9 GB, and needs 6.5."""

ENOUGH = 0.1
"""A part that fills less of the budget than this is taken only where no other has more edges."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """What the proofs of one model may cost, together.

    seconds: of wall time. peak_bytes: by how much memory may rise while a step runs; None is what the original's own
    step needs, or SPARE_BYTES where that is less.
    Raises InvalidConfig where either is not above 0.
    """

    seconds: float = 10.0
    peak_bytes: int | None = None

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise InvalidConfig(
                f"a proof's budget is more than 0 seconds, and got {self.seconds!r}; to skip proofs, ask for none."
            )
        if self.peak_bytes is not None and not self.peak_bytes > 0:
            raise InvalidConfig(f"a proof's memory is more than 0 bytes, and got {self.peak_bytes!r}.")

    def share(self, cost: Cost, *, num_steps: int, num_candidates: int) -> float:
        """The part of the graph, 0 to 1, on which the proofs stay within the budget.

        A candidate is taken to cost what the original does. In units of one step of the original: two to see whether
        it repeats itself, and for each side num_steps in run precision and as many in float64.
        """
        sides = 1 + num_candidates
        seconds = cost.step_s * (2 + sides * num_steps * (1 + FLOAT64_TIME))
        most_bytes = max(cost.peak_bytes, SPARE_BYTES) if self.peak_bytes is None else self.peak_bytes
        return min(
            1.0,
            self.seconds / max(seconds, 1e-9),
            most_bytes / max(FLOAT64_BYTES * cost.peak_bytes, 1.0),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """One training step of the original on the whole graph, in run precision.

    step_s: seconds. peak_bytes: how far memory rises above what is held at rest (`PeakMemory.transient_bytes`).
    """

    step_s: float
    peak_bytes: int


def measure_cost(reference: Maker, *, dtype: torch.dtype, reach: Reach | None, seed: int) -> Cost:
    """The original's cost, measured in four steps: on the graph where it is small or reach is None, else on a shrunken one
    (`shrunken`) and scaled up."""
    part: Subgraph | None = None
    share = 1.0
    if reach is not None and reach.size > PROBE_SIZE:
        share = PROBE_SIZE / reach.size
        part = shrunken(reach, share, generator=torch.Generator().manual_seed(seed))
    subject = reference(dtype, part)
    device = next((p.device for p in subject.parameters.values()), torch.device("cpu"))

    def step() -> None:
        trace(subject, num_steps=1, seed=seed, grid=dtype)

    step()
    step_s = elapsed_ns(step, synchronizer(device)) / 1e9
    peak_bytes = measure_peak(step, device=device).transient_bytes
    return Cost(step_s=step_s / share, peak_bytes=int(peak_bytes / share))


def fitting_subgraph(reach: Reach, *, max_size: int, seed: int) -> Subgraph | None:
    """A subgraph with edges that fits, closed over as many hops as say something; None where not one hop fits.

    Where neighbourhoods are large, only seeds with hardly any neighbour fit over all hops. A part that is smaller than
    ENOUGH of max_size is therefore passed over for one closed over a hop less, if that has more edges.
    """
    best: Subgraph | None = None
    num_seeds = reach.seeds.unique().numel()
    for num_hops in range(reach.num_hops, 0, -1):
        generator = torch.Generator().manual_seed(seed)
        part = closed_subgraph(reach, max_size=max_size, generator=generator, num_hops=num_hops)
        if part is None or part.num_edges == 0:
            continue
        if best is None or part.num_edges > best.num_edges:
            best = part
        if part.size >= ENOUGH * max_size or part.seeds.numel() == num_seeds:
            break
    return best
