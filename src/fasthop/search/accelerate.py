"""`accelerate`: from the user's model and data to a fast model with a verdict on every rung, in one call."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from fasthop.errors import InvalidConfig
from fasthop.exactness import Exactness
from fasthop.graph.graph import Graph
from fasthop.graph.note import Note
from fasthop.rewrites.base import Rung
from fasthop.rewrites.exact.build import Built, build_fast_model
from fasthop.rewrites.exact.fused import FusedForward, fuse, unfuse
from fasthop.rewrites.exact.lowering import NotAStack
from fasthop.rewrites.exact.options import ExactOptions
from fasthop.rewrites.exact.rung import steps_aside
from fasthop.rewrites.fused_step import FusedStepRung
from fasthop.rewrites.ladder import EXACT
from fasthop.search.accelerated import Accelerated
from fasthop.search.fast_data import FastData
from fasthop.search.pace import Pace, measure_pace, training_step
from fasthop.search.proof import candidate_maker, one_tensor, private_copy, reach_of, reference_maker
from fasthop.train.generators import kept_generators
from fasthop.train.objective import loss_of
from fasthop.train.setup import check_takes
from fasthop.train.task import takes_edge_weight
from fasthop.verify.budget import Budget
from fasthop.verify.judge import Judge
from fasthop.verify.verdict import Verdict

# Reordering pays on some graphs and loses on others, and only a measurement tells: `fasthop bench --ladder exact` does it.
NOT_BY_DEFAULT = ("reorder_nodes",)
EXACT_RUNGS: tuple[type[Rung], ...] = (*EXACT, FusedStepRung)


def accelerate(
    model: torch.nn.Module,
    data: Any,
    *,
    rungs: Iterable[str] | None = None,
    prove: bool = True,
    prove_budget: float | Budget = 10.0,
    split: int | str | None = None,
    seed: int = 0,
) -> Accelerated:
    """A fast form of `model` for training on `data`, proven on the spot; the parameters stay the user's own.

    model: a PyG model with `forward(x, edge_index)`, and `edge_weight` where data has one and the forward takes it.
    data: a PyG `Data`, a dataset of one, or a `fasthop.Graph`, with x, edge_index, y and train_mask.
    rungs: the names of the exact rungs to use; None is all but reorder_nodes. prove: False skips the proof.
    prove_budget: seconds that the proof may take, or a `Budget`; what it does not pay for on the whole graph is proven
        on a closed subgraph. split: which of several splits. seed: decides what the proof draws.

    Training calls `fast.model(fast.data.x, fast.data.edge_index)` and reads `fast.data.y` and `fast.data.train_mask`; in
    eval mode `fast.model(data.x, data.edge_index)` returns all rows in the user's order. A rung that the proof refutes or
    cannot reach is dropped, with the reason in `fast.skipped`. The user's model is left as it is, generators as well.
    Raises InvalidConfig for a model or a rung that is none, InvalidGraph for data with a fault.
    """
    started = time.perf_counter()
    if not isinstance(model, torch.nn.Module):
        raise InvalidConfig(
            f"model is {type(model).__name__}; accelerate takes an nn.Module, such as the one that your script trains."
        )
    wanted = _wanted(rungs)
    budget = prove_budget if isinstance(prove_budget, Budget) else Budget(seconds=float(prove_budget))
    graph = data if isinstance(data, Graph) else Graph.from_data(data, split=split, dtype=None)
    if graph.x is None:
        raise InvalidConfig("data has no node features x, which the model needs as input.")
    weighted = graph.edge_weight is not None and takes_edge_weight(model)
    check_takes(model, with_weight=weighted)
    with kept_generators():
        work = _Work(
            model=model, graph=graph, weighted=weighted, wanted=wanted, prove=prove, budget=budget, seed=seed
        )
        work.run()
        pace = work.pace()
    return Accelerated(
        model=work.built.model,
        data=FastData(graph, work.built, graph.edge_weight if weighted else None),
        built=work.built,
        graph=graph,
        stack=work.stack,
        verdicts=work.verdicts,
        skipped=work.skipped,
        used=work.used,
        pace=pace,
        cost_s=time.perf_counter() - started,
        proven=prove,
    )


@dataclass(kw_only=True, eq=False)
class _Work:
    """The build, the proof of each rung on top of those before it, and what came of them."""

    model: torch.nn.Module
    graph: Graph
    weighted: bool
    wanted: tuple[str, ...]
    prove: bool
    budget: Budget
    seed: int
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    skipped: dict[str, Note] = field(default_factory=dict)
    used: tuple[str, ...] = ()
    stack: FusedForward | None = None

    def run(self) -> None:
        """Builds with all that is wanted, keeps what acts, proves it, and builds again without what failed."""
        step_aside = steps_aside(self.graph, weighted=self.weighted)
        options = [name for name in self.wanted if name != FusedStepRung.name]
        if step_aside is not None:
            self.skipped |= dict.fromkeys(self.wanted, step_aside)
            self.built = self._build(())
            return
        self.built = self._build(options)
        self.built.observe(*self._call())
        acting = [name for name in options if name in self.built.acted]
        for rung in EXACT:
            if rung.name in options and rung.name not in acting:
                self.skipped[rung.name] = rung().refusal(self.built)
        fuses = FusedStepRung.name in self.wanted and self._try_to_fuse()
        self.used = tuple(acting) + ((FusedStepRung.name,) if fuses else ())
        if self.prove and self.used:
            self._prove(acting, fuses=fuses)

    def pace(self) -> Pace | None:
        """Both sides by turns, so that neither parameters nor buffers move; None where nothing is used, or the model cannot
        be copied."""
        if not self.used:
            return None
        try:
            twin = private_copy(self.model, self.dtype)
        except Exception:  # a model that holds a lock or a generator has no second copy to compare with
            return None
        twin.train()
        data = FastData(self.graph, self.built, self.graph.edge_weight if self.weighted else None)
        graph, fast = self.graph, self.built.model
        assert graph.x is not None
        rows, y, num_rows = graph.train_mask, graph.y[graph.train_mask], graph.num_nodes
        loss = loss_of(None, graph, None, 0.0)[0]
        buffers = [(buffer, buffer.clone()) for buffer in self.model.buffers()]
        was_training = fast.training
        fast.train()
        try:
            return measure_pace(
                training_step(
                    lambda: one_tensor(twin(*data.inputs), num_rows)[rows], y, list(twin.parameters()), loss
                ),
                training_step(
                    lambda: one_tensor(fast(*data.inputs), num_rows)[data.train_mask],
                    data.y[data.train_mask],
                    list(self.model.parameters()),
                    loss,
                ),
            )
        finally:
            fast.train(was_training)
            with torch.no_grad():
                for buffer, before in buffers:
                    buffer.copy_(before)

    def _call(self) -> tuple[Tensor, ...]:
        assert self.graph.x is not None
        weight = (self.graph.edge_weight,) if self.weighted and self.graph.edge_weight is not None else ()
        return (self.graph.x, self.graph.edge_index, *weight)

    def _build(self, options: Iterable[str]) -> Built:
        assert self.graph.x is not None
        return build_fast_model(
            self.model,
            x=self.graph.x,
            edge_index=self.graph.edge_index,
            edge_weight=self.graph.edge_weight if self.weighted else None,
            train_mask=self.graph.train_mask,
            options=ExactOptions.of(*options),
        )

    def _try_to_fuse(self) -> bool:
        try:
            self.stack = fuse(self.built)
        except NotAStack as why:
            self.skipped[FusedStepRung.name] = why.reason
            return False
        return True

    def _prove(self, acting: list[str], *, fuses: bool) -> None:
        num_hops = None
        if self.built.untraceable is None and self.built.mixes is None:
            num_hops = self.built.num_hops
        judge = Judge(
            reference_maker(self.model, self.graph, weighted=self.weighted),
            dtype=self.dtype,
            budget=self.budget,
            reach=reach_of(self.graph, num_hops),
            num_candidates=len(acting) + int(fuses),
            seed=self.seed,
        )
        kept: list[str] = []
        for name in acting:
            if self._passes(judge, name, (*kept, name)):
                kept.append(name)
        if kept != acting:
            self.built = self._build(kept)
            self.built.observe(*self._call())
            self.stack = None
            fuses = fuses and self._try_to_fuse()
        if fuses and not self._passes(judge, FusedStepRung.name, tuple(kept), fused=True):
            self.stack = None
            unfuse(self.built)
            fuses = False
        self.used = tuple(kept) + ((FusedStepRung.name,) if fuses else ())

    def _passes(self, judge: Judge, name: str, options: tuple[str, ...], *, fused: bool = False) -> bool:
        maker = candidate_maker(
            self.model,
            self.graph,
            weighted=self.weighted,
            options=ExactOptions.of(*options),
            then=fuse if fused else None,
        )
        verdict = judge.check(name, maker, exactness=Exactness.REASSOCIATED)
        self.verdicts[name] = verdict
        if not verdict.passed:
            self.skipped[name] = verdict.sentence
        return verdict.passed

    @property
    def dtype(self) -> torch.dtype:
        """The run precision: that of the parameters."""
        return next((p.dtype for p in self.model.parameters() if p.is_floating_point()), torch.float32)


def _wanted(rungs: Iterable[str] | None) -> tuple[str, ...]:
    names = tuple(rung.name for rung in EXACT_RUNGS)
    if rungs is None:
        return tuple(name for name in names if name not in NOT_BY_DEFAULT)
    if isinstance(rungs, str):
        rungs = (rungs,)
    given = tuple(rungs)
    for name in given:
        if name not in names:
            raise InvalidConfig(f"There is no exact rung named {name!r}; there are {', '.join(names)}.")
    return tuple(name for name in names if name in given)
