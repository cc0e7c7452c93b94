"""The ladders: which recipes are compared, in which order. Reads as a table; a new rung is one line here."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from fasthop.errors import InvalidConfig
from fasthop.exactness import Exactness
from fasthop.rewrites.amp import Amp
from fasthop.rewrites.base import Rung
from fasthop.rewrites.cache_norm import CacheNorm
from fasthop.rewrites.compile import Compile
from fasthop.rewrites.csr_spmm import CsrSpmm
from fasthop.rewrites.cuda_graph import CudaGraph
from fasthop.rewrites.exact.rung import ExactRung, apply_together
from fasthop.rewrites.first_hop import FirstHop
from fasthop.rewrites.fused_step import FusedStepRung
from fasthop.rewrites.keep_memory import KeepMemory
from fasthop.rewrites.pyg_sparse import PygSparse
from fasthop.rewrites.receptive_field import ReceptiveField
from fasthop.rewrites.reorder_nodes import ReorderNodes
from fasthop.rewrites.sample import Sample
from fasthop.rewrites.sparse_features import SparseFeaturesRung
from fasthop.rewrites.transform_order import TransformOrder
from fasthop.train.setup import Setup

EXACT: tuple[type[ExactRung], ...] = (
    CacheNorm,
    CsrSpmm,
    SparseFeaturesRung,
    FirstHop,
    ReceptiveField,
    TransformOrder,
    ReorderNodes,
)
"""In the order in which the ladder `exact` adds them."""
RUNGS: tuple[type[Rung], ...] = (
    Sample,
    Amp,
    Compile,
    PygSparse,
    KeepMemory,
    *EXACT,
    FusedStepRung,
    CudaGraph,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """An ordered tuple of rungs over the baseline, with the name of its row.

    Of exact rungs in a row the last must act; the others may find nothing to do, which a note says.
    """

    name: str
    rungs: tuple[Rung, ...] = ()

    @property
    def exactness(self) -> Exactness:
        """That of the weakest rung; BITWISE for the baseline."""
        return Exactness.weakest(rung.exactness for rung in self.rungs)

    @property
    def is_exact(self) -> bool:
        """Whether all of it is what a fast model is built from, so that it can be proven."""
        return bool(self.rungs) and all(isinstance(rung, ExactRung | FusedStepRung) for rung in self.rungs)

    def on(self, setup: Setup) -> Setup:
        """The baseline's setup with every rung applied in order; raises Inapplicable with a rung's reason."""
        for is_exact, group in itertools.groupby(self.rungs, key=lambda rung: isinstance(rung, ExactRung)):
            if is_exact:  # one fast model for all of them, built once
                setup = apply_together(setup, tuple(rung for rung in group if isinstance(rung, ExactRung)))
                continue
            for rung in group:
                setup = rung.on(setup)
        return setup


def tutorial(sample: Sample) -> tuple[Recipe, ...]:
    """The five results of the tutorial. Compilation comes last: it compiles what the others made."""
    return (
        Recipe(name="baseline"),
        Recipe(name="sample", rungs=(sample,)),
        Recipe(name="sample+amp", rungs=(sample, Amp())),
        Recipe(name="compile", rungs=(Compile(),)),
        Recipe(name="compile+sample+amp", rungs=(sample, Amp(), Compile())),
    )


def exact(sample: Sample) -> tuple[Recipe, ...]:
    """The baseline, then each exact rung added to those before it. Nothing in it is sampled."""
    rungs: list[Rung] = [rung() for rung in (*EXACT, FusedStepRung)]
    return (
        Recipe(name="baseline"),
        *(
            Recipe(name=f"{'+' if last else ''}{rung.name}", rungs=tuple(rungs[: last + 1]))
            for last, rung in enumerate(rungs)
        ),
        # Not after fused_step, which has a step of its own.
        Recipe(name="+cuda_graph", rungs=(*(rung() for rung in EXACT), CudaGraph())),
    )


def full(sample: Sample) -> tuple[Recipe, ...]:
    """The tutorial's, each of its rungs alone, PyG's sparse path, memory that is kept, the other modes of torch.compile, and the exact ones."""
    return (
        *tutorial(sample)[:3],
        Recipe(name="amp", rungs=(Amp(),)),
        Recipe(name="pyg_sparse", rungs=(PygSparse(),)),
        Recipe(name="keep_memory", rungs=(KeepMemory(),)),
        *tutorial(sample)[3:],
        Recipe(name="compile:reduce-overhead", rungs=(Compile(mode="reduce-overhead"),)),
        Recipe(name="compile:max-autotune", rungs=(Compile(mode="max-autotune"),)),
        *exact(sample)[1:],
    )


LADDERS = {"tutorial": tutorial, "exact": exact, "full": full}


def ladder(name: str, *, num_neighbors: tuple[int, ...] | None, batch_size: int) -> tuple[Recipe, ...]:
    """The recipes of a ladder by name. Raises InvalidConfig for an unknown one."""
    if name not in LADDERS:
        raise InvalidConfig(f"There is no ladder named {name!r}; there are {', '.join(LADDERS)}.")
    return LADDERS[name](Sample(num_neighbors=num_neighbors, batch_size=batch_size))


def rung_names(rungs: Iterable[Rung]) -> tuple[str, ...]:
    """The names of the rungs in order."""
    return tuple(rung.name for rung in rungs)
