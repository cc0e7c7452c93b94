"""The judge: decides what a budget pays for, and holds candidates against the original."""

from __future__ import annotations

import time

import torch

from fasthop.errors import InvalidConfig
from fasthop.exactness import Exactness
from fasthop.graph.note import Note, note
from fasthop.train.generators import kept_generators
from fasthop.verify.budget import Budget, Cost, fitting_subgraph, measure_cost
from fasthop.verify.deviation import deviations
from fasthop.verify.original import Original, Unproven, candidate_side, original_side
from fasthop.verify.subgraph import Reach, Subgraph
from fasthop.verify.subject import Maker
from fasthop.verify.tolerance import bitwise_leg, float64_leg, run_leg
from fasthop.verify.trace import Trace, trace
from fasthop.verify.verdict import Leg, Scope, Verdict

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


class Judge:
    """Proves rewrites of one model against it, within one budget.

    reference: makes the original. dtype: the run precision. num_steps: optimiser steps traced. reach: how a closed
    subgraph is cut; None proves on the whole graph or not at all. cost: a step of the original on the whole graph, where
    it is known; else it is measured (`measure_cost`: without a reach on the whole graph). num_candidates: how many
    verdicts share the budget. seed: decides cotangents, the subgraph, and the generators' seeds.

    The original is traced when the first verdict needs it and then kept: outputs, gradients and parameters of num_steps.
    Raises InvalidConfig for another dtype or counts below 1.
    """

    def __init__(
        self,
        reference: Maker,
        *,
        dtype: torch.dtype = torch.float32,
        num_steps: int = 3,
        budget: Budget | None = None,
        reach: Reach | None = None,
        cost: Cost | None = None,
        num_candidates: int = 1,
        seed: int = 0,
    ) -> None:
        if dtype not in DTYPES:
            raise InvalidConfig(
                f"a proof's run precision is {dtype}; it is one of {', '.join(map(str, DTYPES))}."
            )
        for name, count in (("num_steps", num_steps), ("num_candidates", num_candidates)):
            if count < 1:
                raise InvalidConfig(f"{name} is {count!r}; a proof needs at least 1.")
        self._reference, self._dtype, self._num_steps, self._seed = reference, dtype, num_steps, seed
        self._budget, self._reach, self._cost = budget or Budget(), reach, cost
        self._num_candidates = num_candidates
        self._ready: tuple[Scope, Original] | Unproven | None = None

    def check(self, name: str, candidate: Maker, *, exactness: Exactness) -> Verdict:
        """The verdict on a candidate that claims to be exact.

        REASSOCIATED: with dropout off, in float64 and in run precision. BITWISE: with dropout on, both sides from the
        same seeds, in run precision, bit for bit. What either side raises becomes a reason; generators are left as
        they were. Raises InvalidConfig for STATISTICAL, which only accuracies over seeds can show.
        """
        if exactness is Exactness.STATISTICAL:
            raise InvalidConfig(
                f"{name!r} is statistical: it has other numbers by intent, and is shown by its accuracy over seeds."
            )
        start = time.perf_counter()
        scope, legs, reason = Scope(kind="nothing"), (), None
        with kept_generators():
            try:
                scope, original = self._prepared()
                prove = self._equal_bits if exactness is Exactness.BITWISE else self._same_mathematics
                legs, reason = prove(original, candidate)
            except Unproven as unproven:
                reason = unproven.reason
        return Verdict(
            name=name,
            exactness=exactness.value,
            passed=reason is None,
            legs=legs,
            scope=scope if legs else Scope(kind="nothing"),
            reason=reason,
            time_s=time.perf_counter() - start,
        )

    def _same_mathematics(self, original: Original, candidate: Maker) -> tuple[tuple[Leg, ...], Note | None]:
        truth = original.in_float64
        own = original.own if self._dtype is not torch.float64 else None
        other = self._trace(candidate, torch.float64, truth)
        leg, reason = float64_leg(deviations(truth, other, dtype=truth.steps[0].out.dtype))
        if reason is not None or own is None:
            return (leg,), reason
        other = self._trace(candidate, self._dtype, truth, follow=True)
        deviating, dtype = own
        second, reason = run_leg(deviations(truth, other, dtype=dtype), deviating, self._dtype)
        return (leg, second), reason

    def _equal_bits(self, original: Original, candidate: Maker) -> tuple[tuple[Leg, ...], Note | None]:
        truth = original.in_bits
        other = self._trace(candidate, self._dtype, truth, with_dropout=True)
        leg, reason = bitwise_leg(truth, other, self._dtype)
        return (leg,), reason

    def _trace(
        self,
        candidate: Maker,
        dtype: torch.dtype,
        truth: Trace,
        *,
        follow: bool = False,
        with_dropout: bool = False,
    ) -> Trace:
        """The candidate's trace, from the original's parameters, by its own gradients or along the original's path."""
        part = self._prepared()[1].part
        subject = candidate_side(lambda: candidate(dtype, part))
        trainable = {name: p for name, p in subject.parameters.items() if p.requires_grad}
        start = truth.path[0]
        different = sorted(start.keys() ^ trainable.keys()) or [
            name
            for name, value in start.items()
            if value.shape != trainable[name].shape
            or not torch.equal(value, trainable[name].detach().to(value.dtype))
        ]
        if different:
            raise Unproven(
                note(
                    f"the candidate does not start from the original's parameters: {different[0]} differs.",
                    f"候选模型的初始参数与原模型不同：{different[0]}。",
                )
            )
        return candidate_side(
            lambda: trace(
                subject,
                num_steps=self._num_steps,
                seed=self._seed,
                grid=self._dtype,
                rate=truth.rate,
                path=truth.path if follow else None,
                with_dropout=with_dropout,
            )
        )

    def _prepared(self) -> tuple[Scope, Original]:
        """What is compared, decided once. Raises Unproven where nothing fits the budget."""
        if self._ready is None:
            try:
                self._ready = self._decided()
            except Unproven as unproven:
                self._ready = unproven
        if isinstance(self._ready, Unproven):
            raise self._ready
        return self._ready

    def _decided(self) -> tuple[Scope, Original]:
        cost = self._cost or original_side(
            lambda: measure_cost(self._reference, dtype=self._dtype, reach=self._reach, seed=self._seed)
        )
        share = self._budget.share(cost, num_steps=self._num_steps, num_candidates=self._num_candidates)
        scope, part = _whole(self._reach), None
        if share < 1:
            part = _part(self._reach, share, self._seed)
            if self._reach is None or part is None:
                raise Unproven(
                    note(
                        f"the budget of {self._budget.seconds:g} s pays for {share:.2%} of the graph, and no part that small "
                        "can stand for it; allow more time or memory.",
                        f"{self._budget.seconds:g} 秒的预算只够图的 {share:.2%}，而没有这么小的部分可以代表它；请给更多时间或内存。",
                    )
                )
            scope = Scope(
                kind="subgraph",
                num_nodes=part.num_nodes,
                num_edges=part.num_edges,
                num_seeds=part.seeds.numel(),
                num_hops=part.num_hops,
                needed_hops=self._reach.num_hops,
            )
        original = Original(
            self._reference, dtype=self._dtype, part=part, num_steps=self._num_steps, seed=self._seed
        )
        return scope, original


def check(
    name: str,
    reference: Maker,
    candidate: Maker,
    *,
    exactness: Exactness,
    dtype: torch.dtype = torch.float32,
    num_steps: int = 3,
    budget: Budget | None = None,
    reach: Reach | None = None,
    cost: Cost | None = None,
    seed: int = 0,
) -> Verdict:
    """The verdict on one candidate: a `Judge` with a single case."""
    judge = Judge(
        reference, dtype=dtype, num_steps=num_steps, budget=budget, reach=reach, cost=cost, seed=seed
    )
    return judge.check(name, candidate, exactness=exactness)


def _whole(reach: Reach | None) -> Scope:
    if reach is None:
        return Scope(kind="whole")
    return Scope(kind="whole", num_nodes=reach.num_nodes, num_edges=reach.num_edges)


def _part(reach: Reach | None, share: float, seed: int) -> Subgraph | None:
    if reach is None:
        return None
    return fitting_subgraph(reach, max_size=int(share * reach.size), seed=seed)
