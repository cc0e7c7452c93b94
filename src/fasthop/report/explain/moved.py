"""Which stages of an epoch changed, and how much of the whole change each accounts for."""

from __future__ import annotations

from dataclasses import dataclass

from fasthop.report.explain.aim import JOINED
from fasthop.report.explain.listing import ALL_BUT_PRODUCTS, clauses, percent, stage_words
from fasthop.report.explain.versus import Versus, before_words
from fasthop.report.figures import number
from fasthop.report.parts import leaf_stages
from fasthop.report.words import phrase, sentences

NOTICED = 0.03
"""A stage that changed by less than 3 % of an epoch is not spoken of: two passes over one recipe differ by that."""
ENOUGH, LEAST, MOST_NAMED = 0.75, 0.10, 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Move:
    """A stage that changed. share: of all that changed in the same direction."""

    stage: str
    before_ms: float
    after_ms: float
    share: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Moves:
    """All stages that changed, the largest change first; epochs are the sums of the stages."""

    fell: tuple[Move, ...]
    rose: tuple[Move, ...]
    epoch_before_ms: float
    epoch_after_ms: float

    def bear(self, change: str) -> bool:
        """Whether the stages go in the direction that the timed rounds found: if not, they explain nothing."""
        if change == "faster":
            return self.epoch_after_ms < self.epoch_before_ms
        return change != "slower" or self.epoch_after_ms > self.epoch_before_ms


def moves(found: Versus) -> Moves | None:
    """What changed against the row before; None where the stages of either were not measured.

    What torch.compile joins cannot be told apart afterwards, so that of a row that adds it all but matrix products is one
    stage of a pass.
    """
    old, new = leaf_stages(found.before), leaf_stages(found.run)
    if "compile" in found.added:
        old, new = _joined(old), _joined(new)
    if not old or not new:
        return None
    changes = {stage: new.get(stage, 0.0) - old.get(stage, 0.0) for stage in {**old, **new}}

    def side(sign: int) -> tuple[Move, ...]:
        found = {stage: sign * delta for stage, delta in changes.items() if sign * delta > 0}
        total = sum(found.values())
        return tuple(
            Move(
                stage=stage,
                before_ms=old.get(stage, 0.0),
                after_ms=new.get(stage, 0.0),
                share=found[stage] / total,
            )
            for stage in sorted(found, key=lambda name: -found[name])
        )

    return Moves(
        fell=side(-1), rose=side(1), epoch_before_ms=sum(old.values()), epoch_after_ms=sum(new.values())
    )


def _joined(stages: dict[str, float]) -> dict[str, float]:
    found: dict[str, float] = {}
    for stage, ms in stages.items():
        head, _, kind = stage.partition(".")
        key = f"{head}.all_but_products" if kind in (*ALL_BUT_PRODUCTS, JOINED) else stage
        found[key] = found.get(key, 0.0) + ms
    return found


def moved_sentences(found: Versus, lang: str, most: int = MOST_NAMED) -> list[str]:
    """What changed against the row before: the stages that account for most of it, and what went the other way."""
    moved = moves(found)
    if moved is None or found.change == "alone" or not moved.bear(found.change):
        return []
    least = NOTICED * max(moved.epoch_before_ms, moved.epoch_after_ms)
    fell, rose = _noticed(moved.fell, least), _noticed(moved.rose, least)
    before = before_words(found, lang)
    if found.change == "same":
        if not fell and not rose:
            return [phrase("moved.none", lang, before=before, percent=percent(NOTICED))]
        if not fell or not rose:
            return []
        fields = {"fell": _items(fell[:1], lang), "rose": _items(rose[:1], lang)}
        return [phrase("moved.balanced", lang, before=before, **fields)]
    main, other = (fell, rose) if found.change == "faster" else (rose, fell)
    if not main:
        return []
    named = _main(main, most)
    shared = "moved.of_gain" if found.change == "faster" else "moved.of_loss"
    told = [phrase("moved.main", lang, before=before, parts=_items(named, lang, shared))]
    if other and most > 1:
        told.append(phrase("moved.against", lang, parts=_items(other[:1], lang)))
    return [sentences(told, lang)]


def _noticed(side: tuple[Move, ...], least: float) -> list[Move]:
    return [move for move in side if abs(move.after_ms - move.before_ms) >= least]


def _main(side: list[Move], most: int) -> list[Move]:
    """The largest moves until three quarters of the change are named, at most `most`."""
    named: list[Move] = []
    for move in side:
        if named and (len(named) >= most or move.share < LEAST or sum(one.share for one in named) >= ENOUGH):
            break
        named.append(move)
    return named


def _items(side: list[Move], lang: str, shared: str | None = None) -> str:
    """The moves as a list. shared: the key of what the first one's share is a share of; None leaves shares out."""
    items = []
    for place, move in enumerate(side):
        if not move.before_ms:
            key = "moved.new"
        elif not move.after_ms:
            key = "moved.gone"
        else:
            key = "moved.fell" if move.after_ms < move.before_ms else "moved.rose"
        fields = {"before": number(move.before_ms), "after": number(move.after_ms)}
        text = phrase(key, lang, part=stage_words(move.stage, lang), **fields)
        if shared is not None:
            share = percent(move.share)
            text += phrase(shared if not place else "moved.share", lang, share=share)
        items.append(text)
    return clauses(items, lang)
