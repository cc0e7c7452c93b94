"""What the time of an epoch goes into, by cause, and which of the causes is the bottleneck."""

from __future__ import annotations

from dataclasses import dataclass

from fasthop.measure.run import Run
from fasthop.report.figures import is_measured, measured
from fasthop.report.parts import leaf_stages

DOMINANT = 0.5
"""From half of an epoch on, a cause is called dominant."""
_LOADING = ("sample", "gather")


@dataclass(frozen=True, kw_only=True, slots=True)
class Bottleneck:
    """The largest cause of a run's time.

    kind: "aggregate", "transform", "elementwise", "overhead", "fused", "sample" (drawing neighbors and gathering their rows),
        "transfer", "step", "other"; or "compile", "prepare": what was paid before the first epoch exceeds the training itself.
    share: of an epoch; of "compile" and "prepare", of all the time until the epochs asked for are done.
    ms: of an epoch; of "compile" and "prepare", of the whole training.
    """

    kind: str
    share: float
    ms: float

    @property
    def is_dominant(self) -> bool:
        """Whether it has at least half of the time."""
        return self.share >= DOMINANT


def cause_of(stage: str) -> str:
    """The cause that a stage of `leaf_stages` counts to: the kind of work, whichever pass it is in."""
    head, dot, kind = stage.partition(".")
    if head in _LOADING:
        return "sample"
    return kind if dot and head in ("forward", "backward") else stage


def causes(run: Run) -> dict[str, float]:
    """Milliseconds of an epoch by cause, the largest first. Empty where no stage was measured."""
    found: dict[str, float] = {}
    for stage, ms in leaf_stages(run).items():
        found[cause_of(stage)] = found.get(cause_of(stage), 0.0) + ms
    return dict(sorted(found.items(), key=lambda entry: -entry[1]))


def paid_before_s(run: Run) -> float:
    """Seconds of preparing and compiling, as far as they were measured."""
    paid = (run.prepare_s, run.compile_s)
    return sum(s for s in paid if s is not None and is_measured(s))


def training_s(run: Run, num_epochs: int | None) -> float | None:
    """Seconds that so many epochs take; None where their number or their time is not known."""
    time = measured(run.time_per_epoch_ms)
    return None if time is None or not num_epochs else num_epochs * time.median / 1e3


def bottleneck(run: Run, num_epochs: int | None = None) -> Bottleneck | None:
    """What takes most of a run's time, or None where that was not measured.

    num_epochs: the epochs that were asked for. Where compiling and preparing take longer than all of them, that is the
    bottleneck; None looks at an epoch alone.
    """
    paid, trained = paid_before_s(run), training_s(run, num_epochs)
    if trained is not None and paid > trained:
        kind = "compile" if run.compile_s and 2 * run.compile_s >= paid else "prepare"
        return Bottleneck(kind=kind, share=paid / (paid + trained), ms=1e3 * paid)
    found = causes(run)
    if not found:
        return None
    kind = max(found, key=lambda name: found[name])
    return Bottleneck(kind=kind, share=found[kind] / sum(found.values()), ms=found[kind])
