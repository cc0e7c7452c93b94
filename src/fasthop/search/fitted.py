"""A recipe fitted to a setup: the rungs that apply, proven where they claim to be exact; what is dropped is said."""

from __future__ import annotations

from dataclasses import dataclass

from fasthop.errors import InvalidConfig
from fasthop.graph.note import Note, note
from fasthop.rewrites.base import Inapplicable, Rung
from fasthop.rewrites.cuda_graph import CudaGraph
from fasthop.rewrites.exact.rung import ExactRung, apply_together
from fasthop.rewrites.fused_step import FusedStepRung
from fasthop.rewrites.ladder import EXACT, Recipe, ladder
from fasthop.search.accelerate import NOT_BY_DEFAULT
from fasthop.search.proof import prove_setup
from fasthop.train.setup import Setup
from fasthop.train.training_config import TrainConfig
from fasthop.verify.verdict import Verdict


@dataclass(frozen=True, kw_only=True, eq=False)
class Fitted:
    """A setup with the recipe that it was made with. notes: what was dropped and why. verdict: of its proof, or None."""

    setup: Setup
    recipe: Recipe
    notes: tuple[Note, ...] = ()
    verdict: Verdict | None = None


def automatic() -> Recipe:
    """The exact rungs that `accelerate` uses by default, and the fused step: the same mathematics, faster."""
    rungs: list[Rung] = [rung() for rung in EXACT if rung.name not in NOT_BY_DEFAULT]
    return Recipe(name="auto", rungs=(*rungs, FusedStepRung()))


def named(recipe: str | Recipe | None, *, num_neighbors: tuple[int, ...] | None, batch_size: int) -> Recipe:
    """The recipe of that name: "auto" (also None), "baseline", or a row of `bench --ladder full`. Raises InvalidConfig."""
    if isinstance(recipe, Recipe):
        return recipe
    if recipe is None or recipe == "auto":
        return automatic()
    rows = {row.name: row for row in ladder("full", num_neighbors=num_neighbors, batch_size=batch_size)}
    if not isinstance(recipe, str) or recipe not in rows:
        raise InvalidConfig(f"There is no recipe {recipe!r}; there are auto, {', '.join(rows)}.")
    return rows[recipe]


def for_config(recipe: Recipe, config: TrainConfig) -> tuple[Recipe, tuple[Note, ...]]:
    """The recipe without the rungs whose step has its own optimiser, where clipping or a schedule is asked for."""
    asked = [
        name
        for name, is_asked in (
            ("gradient clipping", config.clip_grad_norm is not None),
            ("a learning-rate schedule", config.changes_lr),
        )
        if is_asked
    ]
    kept = tuple(rung for rung in recipe.rungs if not isinstance(rung, FusedStepRung | CudaGraph))
    if not asked or len(kept) == len(recipe.rungs):
        return recipe, ()
    left_out = ", ".join(rung.name for rung in recipe.rungs if rung not in kept)
    reason = note(
        f"{left_out} is left out: its step has no place for {' and '.join(asked)}; the other rungs stay.",
        f"未使用 {left_out}：它的训练步无法配合梯度裁剪或学习率调度；其余优化保留。",
    )
    return Recipe(name=f"{recipe.name} without {left_out}", rungs=kept), (reason,)


def fitted(
    recipe: Recipe,
    baseline: Setup,
    *,
    prove_budget_s: float = 0.0,
    peak_bytes: int | None = None,
    seed: int = 0,
) -> Fitted:
    """The recipe on a baseline's setup, without the rungs that do not apply.

    prove_budget_s, peak_bytes: what the proof of exact rungs may take; 0 seconds skip it. Rungs that are refuted, or not proven, are dropped: the
    fused step first, then all.
    """
    made = _applied(recipe, baseline)
    while prove_budget_s > 0 and made.recipe.is_exact:
        verdict = prove_setup(
            made.setup, made.recipe, budget_s=prove_budget_s, seed=seed, peak_bytes=peak_bytes
        )
        if verdict is None or verdict.passed:
            return Fitted(setup=made.setup, recipe=made.recipe, notes=made.notes, verdict=verdict)
        fewer = tuple(rung for rung in made.recipe.rungs if not isinstance(rung, FusedStepRung))
        if len(fewer) == len(made.recipe.rungs):
            fewer = ()
        dropped = ", ".join(rung.name for rung in made.recipe.rungs if rung not in fewer)
        said = note(
            f"{dropped} left out. {verdict.sentence['en']}", f"未使用 {dropped}。{verdict.sentence['zh']}"
        )
        again = _applied(Recipe(name=recipe.name, rungs=fewer), baseline)
        made = Fitted(setup=again.setup, recipe=again.recipe, notes=(*made.notes, said, *again.notes))
    return made


def _applied(recipe: Recipe, baseline: Setup) -> Fitted:
    setup, kept, notes = baseline, [], []
    rungs = list(recipe.rungs)
    while rungs:
        group = [rungs.pop(0)]
        while isinstance(group[0], ExactRung) and rungs and isinstance(rungs[0], ExactRung):
            group.append(rungs.pop(0))
        # Of exact rungs the last one must act: where it does not, those before it are tried without it.
        while group:
            try:
                exact = tuple(rung for rung in group if isinstance(rung, ExactRung))
                setup = apply_together(setup, exact) if exact else group[0].on(setup)
            except Inapplicable as error:
                dropped = group.pop()
                en, zh = error.reason["en"], error.reason.get("zh", error.reason["en"])
                notes.append(note(f"{dropped.name} is left out: {en}", f"未使用 {dropped.name}：{zh}"))
                continue
            kept += group
            break
    if not kept and recipe.rungs:
        return Fitted(setup=setup, recipe=Recipe(name="baseline"), notes=tuple(notes))
    return Fitted(setup=setup, recipe=Recipe(name=recipe.name, rungs=tuple(kept)), notes=tuple(notes))
