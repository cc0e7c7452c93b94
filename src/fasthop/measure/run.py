"""A Run: the immutable measurement of one recipe, and a Result: those of one ladder.

What `result.json` holds is exactly `Result.to_json()`; `Result.from_json` reads it back and
refuses another schema version in a sentence.
"""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fasthop.errors import InvalidConfig
from fasthop.measure.schema import check_dicts, check_fields, check_measured

SCHEMA_VERSION = 2
READABLE_VERSIONS = (1, 2)
"""Version 2 added fields; a file of version 1 is one without them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """A median with the ends of its 95 % interval, in the unit of the field that holds it."""

    median: float
    low: float
    high: float

    def holds(self, value: float) -> bool:
        """Whether `value` lies within the interval, its ends included."""
        return self.low <= value <= self.high


# How an interval of figures that are not finite comes back from a file.
UNKNOWN: Any = Interval(median=None, low=None, high=None)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True, slots=True)
class Accuracy:
    """Test accuracy in percent over seeds: mean, sample standard deviation, number of seeds,
    and the 95 % interval of the mean (Student's t; equal to the mean for one seed)."""

    mean: float
    std: float
    count: int
    low: float
    high: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One recipe measured in a process of its own. Every figure is None where it was not measured.

    time_per_epoch_ms: training only (no evaluation), after warm-up, median over rounds.
    ratio_to_baseline: how many times as fast as the baseline an epoch is, paired round by round;
        above 1 is faster.
    first_epoch_s: the first epoch of all, with lazy initialisation, JIT and compilation in it.
    compile_s: what torch.compile took (first call less a steady step); 0.0 where nothing compiles.
    prepare_s: building the recipe: imports of its own, normalisation, conversions, kernels' JIT.
    break_even_epochs: after how many epochs all that was paid beforehand is earned back, against
        the baseline; None where the recipe is not faster, 0 for the baseline.
    peak_bytes: peak of live bytes over the resident inputs (x, edges, labels, masks) in a steady epoch.
    process_peak_bytes: the process's VmHWM (peak resident set) at the end of the timed epochs.
    time_to_accuracy_s: training seconds, everything paid beforehand included, until the
        validation accuracy first reaches the target; None where it does not within the budget.
    curve: per seed, the points (seconds of training so far, validation accuracy in percent).
    verdict: what was proven of an exact recipe, as `verify.verdict.Verdict.to_json` has it; proof_s: what the proof took.
    stages_ms: where an epoch's time goes, by stage and within it ("forward.aggregate"), from a pass of its own;
        the whole is in "epoch". See measure/phases.
    memory_kinds: bytes at the peak by kind; peak_operator: the operator that stood at the peak. See measure/memory_kinds.
    flops, moved_bytes: of an epoch, counted from the shapes; floor_ms: the time they take at the machine's measured peaks.
    predicted_ratio: the baseline's time over this recipe's, predicted before anything was measured.
    skipped: the reason why the recipe was not measured, else None; skipped_words: the same by language code.
    notes: sentences for the reader, such as a fall-back and its reason, by language code.
    """

    name: str
    rungs: tuple[str, ...]
    exactness: str
    num_steps_per_epoch: int | None = None
    time_per_epoch_ms: Interval | None = None
    ratio_to_baseline: Interval | None = None
    prepare_s: float | None = None
    first_epoch_s: float | None = None
    compile_s: float | None = None
    num_recompiles: int | None = None
    num_graph_breaks: int | None = None
    num_skipped_steps: int | None = None
    break_even_epochs: float | None = None
    peak_bytes: int | None = None
    process_peak_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    accuracy: Accuracy | None = None
    time_to_accuracy_s: float | None = None
    curve: tuple[tuple[tuple[float, float], ...], ...] = ()
    round_times_ms: tuple[float, ...] = ()
    verdict: dict[str, Any] | None = None
    proof_s: float | None = None
    stages_ms: dict[str, float] | None = None
    memory_kinds: dict[str, int] | None = None
    peak_operator: str | None = None
    flops: float | None = None
    moved_bytes: float | None = None
    floor_ms: float | None = None
    predicted_ratio: float | None = None
    skipped: str | None = None
    skipped_words: dict[str, str] | None = None
    notes: tuple[dict[str, str], ...] = ()

    def reason(self, lang: str) -> str | None:
        """Why the recipe was not measured, in a language; the English sentence where it has no other."""
        return (self.skipped_words or {}).get(lang, self.skipped)


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """A whole ladder measured in one run: `runs[0]` is the baseline.

    machine: the fingerprint (`machine.fingerprint`); task: what was trained, by name and figure;
    target_accuracy: the validation accuracy in percent that time_to_accuracy_s counts to.
    finished: False where the run was cut short (Ctrl-C) and holds what was measured until then.
    """

    machine: dict[str, Any]
    task: dict[str, Any]
    runs: tuple[Run, ...]
    ladder: str
    created: str
    fasthop_version: str
    target_accuracy: float | None = None
    finished: bool = True
    schema_version: int = field(default=SCHEMA_VERSION)

    @property
    def baseline(self) -> Run:
        """The first recipe: PyG full batch, exactly as written."""
        return self.runs[0]

    def to_json(self) -> str:
        """The text of `result.json`: strict JSON, so that a figure that is not finite is null."""
        tree = dataclasses.asdict(self)
        tree["recipes"] = tree.pop("runs")
        return json.dumps(_finite(tree), indent=2, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str, source: Path | str = "result.json") -> Result:
        """Reads what `to_json` wrote. Raises InvalidConfig where it is not such a text."""
        try:
            tree = json.loads(text)
            version = tree["schema_version"]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise InvalidConfig(
                f"{source} is not a result of fasthop ({error}); run `fasthop bench` to make one."
            ) from None
        if version not in READABLE_VERSIONS:
            raise InvalidConfig(
                f"{source} has schema version {version!r}, and this fasthop reads {_listed(READABLE_VERSIONS)}; "
                "run `fasthop bench` again, or read it with the fasthop that wrote it."
            )
        try:
            runs = tuple(_run(entry) for entry in tree.pop("recipes"))
            result = cls(runs=runs, **tree)
            _check(result)
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise InvalidConfig(
                f"{source} is damaged: it misses or has a field of the wrong kind ({error})."
            ) from None
        if not runs:
            raise InvalidConfig(f"{source} holds no recipe.")
        return result


def _listed(versions: tuple[int, ...]) -> str:
    return "version " + " and ".join(map(str, versions))


def _check(result: Result) -> None:
    """Raises ValueError where a field holds what it cannot."""
    check_fields(result, "the result")
    check_dicts(result.machine.get("gpus"), "machine.gpus")
    check_dicts(result.task.get("notes"), "task.notes")
    for run in result.runs:
        check_measured(run, f"recipe {run.name!r}")
        for name in ("time_per_epoch_ms", "ratio_to_baseline"):
            interval = getattr(run, name)
            if interval not in (None, UNKNOWN):
                check_measured(interval, f"{name} of recipe {run.name!r}")
        if run.accuracy is not None:  # its interval may reach below 0 and beyond 100
            check_fields(run.accuracy, f"the accuracy of recipe {run.name!r}")


def _finite(value: Any) -> Any:
    """The tree with every float that is not finite as None: JSON has no word for them."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return value


def _run(entry: dict[str, Any]) -> Run:
    entry = dict(entry)
    for key in ("rungs", "curve", "round_times_ms", "notes"):
        if not isinstance(entry.get(key, []), list):
            raise ValueError(f"{key} is {entry[key]!r}")
    for key in ("time_per_epoch_ms", "ratio_to_baseline"):
        if entry.get(key) is not None:
            entry[key] = Interval(**entry[key])
    if entry.get("ratio_to_baseline") == UNKNOWN:
        entry["ratio_to_baseline"] = None
    if entry.get("accuracy") is not None:
        entry["accuracy"] = Accuracy(**entry["accuracy"])
        if entry["accuracy"].mean is None:
            entry["accuracy"] = None
    entry["rungs"] = tuple(entry["rungs"])
    entry["curve"] = tuple(tuple((float(t), float(a)) for t, a in seed) for seed in entry.get("curve", ()))
    entry["round_times_ms"] = tuple(entry.get("round_times_ms", ()))
    entry["notes"] = tuple(entry.get("notes", ()))
    return Run(**entry)
