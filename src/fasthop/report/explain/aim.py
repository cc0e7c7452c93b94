"""What a rung is meant to make faster, and what became of that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fasthop.report.explain.cause import causes
from fasthop.report.explain.versus import Versus

AIMS: Mapping[str, tuple[str, ...]] = {
    "amp": ("transform",),
    "compile": ("aggregate", "elementwise", "overhead"),
    "pyg_sparse": ("aggregate",),
    "csr_spmm": ("aggregate",),
    "first_hop": ("aggregate",),
    "transform_order": ("aggregate",),
    "reorder_nodes": ("aggregate",),
    "sparse_features": ("transform",),
    "fused_step": ("overhead", "step"),
    "cuda_graph": ("overhead", "step"),
}
"""By rung. One that is not here (sampling, the receptive field) changes how much there is to do, and is held to no part."""
JOINED = "fused"  # what torch.compile joined counts to what it was made of: all but matrix products


@dataclass(frozen=True, kw_only=True, slots=True)
class Aim:
    """The part of an epoch that the added rungs are meant for, before and after, in ms of a traced epoch."""

    kinds: tuple[str, ...]
    before_ms: float
    after_ms: float
    epoch_before_ms: float
    epoch_after_ms: float

    @property
    def share(self) -> float:
        """Of the epoch before."""
        return self.before_ms / self.epoch_before_ms

    @property
    def most(self) -> float:
        """How many times as fast an epoch could be at most if the part took no time (Amdahl 1967)."""
        return self.epoch_before_ms / max(self.epoch_before_ms - self.before_ms, 1e-9)

    def most_at(self, times: float) -> float:
        """The same if the part were so many times as fast."""
        left = self.epoch_before_ms - self.before_ms + self.before_ms / times
        return self.epoch_before_ms / max(left, 1e-9)

    def most_at_work(self, times: float) -> float:
        """`most` where all work but this part is so many times as large, as on a larger graph."""
        return (self.before_ms + times * (self.epoch_before_ms - self.before_ms)) / max(
            times * (self.epoch_before_ms - self.before_ms), 1e-9
        )


def aim(found: Versus) -> Aim | None:
    """None where a rung has no such part, or the stages of either run were not measured."""
    if not found.added or any(rung not in AIMS for rung in found.added):
        return None
    before, after = causes(found.before), causes(found.run)
    if not before or not after:
        return None
    kinds = tuple(dict.fromkeys(kind for rung in found.added for kind in AIMS[rung]))
    counted = (*kinds, JOINED) if "compile" in found.added else kinds
    return Aim(
        kinds=kinds,
        before_ms=sum(before.get(kind, 0.0) for kind in counted),
        after_ms=sum(after.get(kind, 0.0) for kind in counted),
        epoch_before_ms=sum(before.values()),
        epoch_after_ms=sum(after.values()),
    )
