"""What a whole is made of: the stages of an epoch, and the kinds of memory at the peak, as a result.json has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fasthop.measure.run import Run
from fasthop.report.figures import is_measured
from fasthop.report.words import LANGUAGES, phrase

WHOLE = "epoch"
ROUNDING = 0.01  # what is left of a whole below 1 % is rounding, not a part


def checked(parts: Mapping[str, Any] | None) -> dict[str, float]:
    """The parts that are numbers above 0; a file may hold anything."""
    return {
        str(key): float(value)
        for key, value in (parts or {}).items()
        if isinstance(value, int | float) and not isinstance(value, bool) and is_measured(value) and value > 0
    }


def leaf_stages(run: Run) -> dict[str, float]:
    """Milliseconds by the stages that are not divided further; what a divided stage or the epoch has beyond its
    parts is "forward.other" or "other". Empty where no stage was measured."""
    stages = checked(run.stages_ms)
    whole = stages.pop(WHOLE, None)
    if not stages:
        return {}
    found: dict[str, float] = {}
    top = [key for key in stages if "." not in key or key.rpartition(".")[0] not in stages]
    for key in top:
        inner = {part: value for part, value in stages.items() if part.startswith(f"{key}.")}
        found |= inner or {key: stages[key]}
        rest = stages[key] - sum(inner.values())
        if inner and rest > ROUNDING * stages[key]:
            found[f"{key}.other"] = found.get(f"{key}.other", 0.0) + rest
    if whole is not None and (rest := whole - sum(found.values())) > ROUNDING * whole:
        found["other"] = found.get("other", 0.0) + rest
    return found


def leaf_kinds(run: Run) -> dict[str, float]:
    """Bytes at the peak by kinds that add up: of a kind with a part of its own ("activations.messages") the part, and
    what is left of it under the kind's own name. Empty where none was measured."""
    kinds = checked(run.memory_kinds)
    found = {}
    for key, value in kinds.items():
        rest = value - sum(part for name, part in kinds.items() if name.startswith(f"{key}."))
        if rest > 0:
            found[key] = rest
    return found


def stage_name(key: str, lang: str) -> str:
    """A stage's words: "forward: aggregate". A key that has no words is its own."""
    if key == "fused":  # not the part of a stage, but an epoch without stages
        return phrase("stage.replayed", lang)
    words = [
        phrase(f"stage.{part}", lang) if f"stage.{part}" in LANGUAGES[lang] else part
        for part in key.split(".")
    ]
    return ("：" if lang == "zh" else ": ").join(words)


def kind_name(key: str, lang: str) -> str:
    """A kind of memory in words. A key that has none is its own."""
    return phrase(f"kind.{key}", lang) if f"kind.{key}" in LANGUAGES[lang] else key
