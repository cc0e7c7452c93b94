"""The original's side of all proofs of one model: traced once, and only where it repeats itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TypeVar

import torch

from fasthop.graph.note import Note, note
from fasthop.verify.deviation import Deviation, deviations
from fasthop.verify.subgraph import Subgraph
from fasthop.verify.subject import Maker
from fasthop.verify.tolerance import bitwise_leg
from fasthop.verify.trace import Trace, trace

Made = TypeVar("Made")

OTHER_SEED = 7_919
"""Added to the generators' seed in the run that shows whether the original repeats itself."""

REPEATS = 64
"""Two runs of the original may differ by so many units of rounding: a GPU's atomic sums come in any order."""


class Unproven(Exception):
    """Nothing can be proven; `.reason` says why in each language."""

    def __init__(self, reason: Note) -> None:
        super().__init__(reason["en"])
        self.reason = reason


class Original:
    """The traces of the original on the whole graph (part None) or a part of it, made when they are asked for.

    Every property raises Unproven where the original fails or does not repeat itself.
    """

    def __init__(
        self, make: Maker, *, dtype: torch.dtype, part: Subgraph | None, num_steps: int, seed: int
    ) -> None:
        self.make, self.dtype, self.part, self.num_steps, self.seed = make, dtype, part, num_steps, seed

    @cached_property
    def in_float64(self) -> Trace:
        """num_steps in float64 with dropout off, its parameters on the grid of the run precision."""
        self._check_repeats()
        found = self._run(torch.float64)
        if not any(bool(step.out.isfinite().any()) for step in found.steps):
            raise Unproven(
                note(
                    "the original's output has no finite number to compare.",
                    "原模型的输出中没有可比较的有限数值。",
                )
            )
        return found

    @cached_property
    def own(self) -> tuple[list[Deviation], torch.dtype]:
        """How far the original is from its own float64 form in run precision, at the same parameters, and what its
        output is in there."""
        truth = self.in_float64
        subject = original_side(lambda: self.make(self.dtype, self.part))
        run = original_side(
            lambda: trace(subject, num_steps=self.num_steps, seed=self.seed, grid=self.dtype, path=truth.path)
        )
        found = deviations(truth, run)
        for deviation in found:
            if deviation.fault is not None:
                raise Unproven(
                    note(
                        f"the original is not comparable with its own float64 form: {deviation.fault['en']}",
                        f"原模型无法与其自身的 float64 形式比较：{deviation.fault['zh']}",
                    )
                )
        return found, run.steps[0].out.dtype

    @cached_property
    def in_bits(self) -> Trace:
        """num_steps in run precision with dropout on, the generators seeded before each step."""
        first = self._run(self.dtype, with_dropout=True)
        again = self._run(self.dtype, with_dropout=True, rate=first.rate)
        if bitwise_leg(first, again, self.dtype)[1] is not None:
            raise Unproven(
                note(
                    "the original itself gives other bits in a second run from the same seeds.",
                    "原模型以相同种子运行两次，得到的位并不相同。",
                )
            )
        return first

    def _check_repeats(self) -> None:
        """Raises Unproven where one step differs with other seeds: something random is no dropout (DropEdge, noise)."""
        first = self._run(self.dtype, num_steps=1)
        again = self._run(self.dtype, num_steps=1, random_seed=self.seed + OTHER_SEED)
        most = REPEATS * torch.finfo(self.dtype).eps
        for deviation in deviations(first, again):
            if deviation.kind != "grad" and not deviation.error <= most:
                raise Unproven(
                    note(
                        f"the original draws random numbers that are no dropout: {deviation.name} differs by "
                        f"{deviation.error:.1e} between two runs.",
                        f"原模型使用了 dropout 以外的随机数：两次运行的 {deviation.name} 相差 {deviation.error:.1e}。",
                    )
                )

    def _run(
        self,
        dtype: torch.dtype,
        *,
        num_steps: int | None = None,
        random_seed: int | None = None,
        with_dropout: bool = False,
        rate: float | None = None,
    ) -> Trace:
        subject = original_side(lambda: self.make(dtype, self.part))
        return original_side(
            lambda: trace(
                subject,
                num_steps=num_steps or self.num_steps,
                seed=self.seed,
                grid=self.dtype,
                random_seed=random_seed,
                with_dropout=with_dropout,
                rate=rate,
            )
        )


def original_side(call: Callable[[], Made]) -> Made:
    """`call()`; what it raises comes out as Unproven, said of the original."""
    try:
        return call()
    except Exception as error:  # a user's model may raise anything
        text = first_line(error)
        raise Unproven(
            note(f"the original cannot be run for the proof: {text}", f"无法为证明运行原模型：{text}")
        ) from error


def candidate_side(call: Callable[[], Made]) -> Made:
    """`call()`; what it raises comes out as Unproven, said of the candidate."""
    try:
        return call()
    except Exception as error:  # and so may what was made of it
        text = first_line(error)
        raise Unproven(note(f"the candidate failed: {text}", f"候选模型运行失败：{text}")) from error


def first_line(error: Exception) -> str:
    """The kind of an error and the first line of its message."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else f"{type(error).__name__}."
