"""A Verdict: the immutable result of a proof, one leg for each precision, with the sentence that a table shows."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

from fasthop.errors import InvalidConfig
from fasthop.exactness import Exactness
from fasthop.graph.note import Note, note

SCHEMA_VERSION = 1
KINDS = ("float64", "run precision")


@dataclass(frozen=True, kw_only=True, slots=True)
class Leg:
    """One comparison with the original.

    kind: "float64" or "run precision". dtype: what it was computed in, as torch spells it ("float32").
    worst: the tensor whose error is the largest share of its tolerance: `out`, `prediction`, `NAME.grad`, or a buffer.
    error: of that tensor, norm(difference) / max(norm, 1e-6 of the norm of its kind); inf where it cannot be
        compared (another shape, dtype, or place of a NaN). tolerance: the most that was allowed.
    reference_error: in run precision, that of the original itself against float64; None in float64 or bit for bit.
    num_tensors, num_steps: how many were compared.
    """

    kind: str
    dtype: str
    error: float
    tolerance: float
    worst: str
    num_tensors: int
    num_steps: int
    reference_error: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InvalidConfig(f"a leg's kind is {self.kind!r}; it is one of {', '.join(KINDS)}.")

    @property
    def passed(self) -> bool:
        """Whether the error is within the tolerance."""
        return self.error <= self.tolerance


@dataclass(frozen=True, kw_only=True, slots=True)
class Scope:
    """What was compared: the whole graph, a closed subgraph of it, or nothing.

    kind: "whole", "subgraph" or "nothing". num_seeds: the nodes whose rows were compared; num_hops: how far all that
    they depend on is there, needed_hops: how far they look back.
    """

    kind: str
    num_nodes: int | None = None
    num_edges: int | None = None
    num_seeds: int | None = None
    num_hops: int | None = None
    needed_hops: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in ("whole", "subgraph", "nothing"):
            raise InvalidConfig(
                f"a scope's kind is {self.kind!r}; it is one of 'whole', 'subgraph', 'nothing'."
            )

    @property
    def words(self) -> Note:
        """The part of a sentence that names it: "on the whole graph"."""
        if self.kind == "whole":
            return note("on the whole graph", "在整张图上")
        if self.kind == "nothing":
            return note("on nothing", "未在任何图上")
        part_en = f"on a closed subgraph ({self.num_nodes:,} nodes, {self.num_edges:,} edges, {self.num_seeds:,} seeds"
        part_zh = f"在一个封闭子图上（{self.num_nodes:,} 个节点、{self.num_edges:,} 条边、{self.num_seeds:,} 个种子节点"
        if self.num_hops != self.needed_hops:
            part_en += f"; closed over {self.num_hops} of {self.needed_hops} hops"
            part_zh += f"；在 {self.needed_hops} 跳中的 {self.num_hops} 跳内封闭"
        return note(part_en + ")", part_zh + "）")


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What was verified of a rewrite.

    exactness: what it claims, as `Exactness.value`. passed: whether that was proven. legs: what was compared; empty
    where nothing could be. reason: why it was not passed, one sentence, else None.
    time_s: what the proof took, with the original's part where it was computed for this verdict.
    """

    name: str
    exactness: str
    passed: bool
    legs: tuple[Leg, ...]
    scope: Scope
    reason: Note | None
    time_s: float
    schema_version: int = field(default=SCHEMA_VERSION)

    def __post_init__(self) -> None:
        Exactness(self.exactness)
        if self.passed != (self.reason is None):
            raise InvalidConfig(
                f"the verdict on {self.name!r} passes exactly where it has no reason, and got {self.reason!r}."
            )

    @property
    def is_refuted(self) -> bool:
        """Whether the rewrite was measured to compute something else (not only left unproven)."""
        return any(not leg.passed for leg in self.legs)

    @property
    def sentence(self) -> Note:
        """What a table or a message says, in each language."""
        if self.reason is not None:
            return note(
                f"{'Wrong' if self.is_refuted else 'Not proven'}: {self.reason['en']}",
                f"{'错误' if self.is_refuted else '未能证明'}：{self.reason['zh']}",
            )
        figures_en, figures_zh = zip(*map(_figures, self.legs), strict=True)
        return note(
            f"Proven {self.scope.words['en']}: {', '.join(figures_en)}.",
            f"已{self.scope.words['zh']}证明：{'，'.join(figures_zh)}。",
        )

    def to_json(self) -> dict[str, Any]:
        """A tree of what JSON knows; an infinite error is null."""
        tree = dataclasses.asdict(self)
        tree["legs"] = [
            {key: None if isinstance(v, float) and math.isinf(v) else v for key, v in leg.items()}
            for leg in tree["legs"]
        ]
        return tree

    @classmethod
    def from_json(cls, tree: dict[str, Any]) -> Verdict:
        """Reads what `to_json` gave. Raises InvalidConfig where it is not that, or of another schema version."""
        try:
            if tree["schema_version"] != SCHEMA_VERSION:
                raise InvalidConfig(
                    f"the verdict has schema version {tree['schema_version']!r}, and this fasthop reads version "
                    f"{SCHEMA_VERSION}; prove it again."
                )
            legs = tuple(
                Leg(**{**leg, "error": math.inf if leg["error"] is None else float(leg["error"])})
                for leg in tree["legs"]
            )
            return cls(**{**tree, "legs": legs, "scope": Scope(**tree["scope"])})
        except InvalidConfig:
            raise
        except (TypeError, KeyError, ValueError) as error:
            raise InvalidConfig(
                f"this is no verdict of fasthop: a field is missing or of the wrong kind ({error})."
            ) from None


def _figures(leg: Leg) -> tuple[str, str]:
    if leg.tolerance == 0:
        return f"equal bits in {leg.dtype} over {leg.num_steps} steps", (
            f"{leg.dtype} 下 {leg.num_steps} 步逐位相同"
        )
    if leg.reference_error is None:
        return f"error {leg.error:.1e} in {leg.dtype}", f"{leg.dtype} 误差 {leg.error:.1e}"
    return (
        f"{leg.error:.1e} in {leg.dtype} (the original's own {leg.reference_error:.1e})",
        f"{leg.dtype} 误差 {leg.error:.1e}（原模型自身为 {leg.reference_error:.1e}）",
    )
