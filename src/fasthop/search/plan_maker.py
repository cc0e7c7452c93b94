"""From what a tune measured to a Plan: what to train with, and the evidence for it."""

from __future__ import annotations

import collections
import datetime
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fasthop.graph.graph import Graph
from fasthop.graph.note import Note
from fasthop.measure.run import Interval, Run
from fasthop.rewrites.sample import Sample
from fasthop.search.attempt import Attempt
from fasthop.search.candidate import Candidate
from fasthop.search.config import BenchConfig
from fasthop.search.finals import Final
from fasthop.search.plan import Plan
from fasthop.search.plan_recipe import rungs_to_json
from fasthop.search.tune_config import TuneConfig
from fasthop.train.task_config import MODELS, task_settings


def make_plan(
    config: TuneConfig,
    graph: Graph,
    candidate: Candidate,
    *,
    device: str,
    graph_fingerprint: str,
    machine: dict[str, Any],
    evidence: dict[str, Any],
) -> Plan:
    """The plan of a candidate, ready to be saved."""
    return Plan(
        recipe_name=candidate.name,
        rungs=tuple(rungs_to_json(candidate.rungs)),
        model=_model(config.bench),
        data=_data(config.bench),
        training=_training(config.bench, graph, candidate, device),
        graph_fingerprint=graph_fingerprint,
        machine=machine,
        evidence=evidence,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


def evidence_of(
    config: TuneConfig, final: Final, attempts: Iterable[Attempt], notes: Iterable[Note]
) -> dict[str, Any]:
    """What was measured of the plan, with its intervals; every figure is None where it was not measured."""
    run, base = final.run, final.baseline_run
    return _limits(config, attempts, notes) | {
        "finished": True,
        "ratio_to_baseline": _interval(final.ratio),
        "num_rounds": len(run.round_times_ms),
        "time_per_epoch_ms": {"plan": _interval(run.time_per_epoch_ms), "baseline": _interval(base and base.time_per_epoch_ms)},
        "round_times_ms": {"plan": list(run.round_times_ms), "baseline": list(base.round_times_ms) if base else []},
        "peak_bytes": {"plan": run.peak_bytes, "baseline": base.peak_bytes if base else None},
        "process_peak_bytes": {"plan": run.process_peak_bytes, "baseline": base.process_peak_bytes if base else None},
        "paid_before_s": _paid_before_s(run),
        "target": final.target,
        "time_to_accuracy_s": {"plan": run.time_to_accuracy_s, "baseline": base.time_to_accuracy_s if base else None},
        "exactness": run.exactness,
        "verdict": run.verdict and {**run.verdict, "sentence": final.verdict.sentence if final.verdict else None},
        "accuracy": final.accuracy.to_json() if final.accuracy is not None else None,
        "rungs": [verdict.to_json() for verdict in final.rungs],
    }  # fmt: skip


def unfinished_evidence(
    config: TuneConfig, best: Attempt, attempts: Iterable[Attempt], notes: Iterable[Note]
) -> dict[str, Any]:
    """The evidence for the best so far, which the finals have not held against the baseline."""
    return _limits(config, attempts, notes) | {
        "finished": False,
        "ratio_to_baseline": None,
        "num_rounds": len(best.times_ms),
        "round_times_ms": {"plan": list(best.times_ms), "baseline": []},
        "peak_bytes": {"plan": best.peak_bytes, "baseline": None},
        "exactness": best.candidate.recipe.exactness.value,
        "verdict": None,
        "accuracy": None,
    }


def _limits(config: TuneConfig, attempts: Iterable[Attempt], notes: Iterable[Note]) -> dict[str, Any]:
    return {
        "objective": config.objective,
        "memory_bytes": config.memory_bytes,
        "max_accuracy_drop": float(config.max_accuracy_drop),
        "budget_s": config.budget_s,
        "num_trials": dict(collections.Counter(attempt.outcome for attempt in attempts)),
        "notes": list(notes),
    }


def _model(bench: BenchConfig) -> dict[str, Any]:
    return {
        "name": _place(bench.model) if isinstance(bench.model, str) else None,
        "args": _plain_or_empty(bench.model_args),
        "hidden": bench.hidden,
        "layers": bench.layers,
        "dropout": bench.dropout,
        "output": bench.output,
        "head": bench.head,
        "forward_args": _plain_or_empty(bench.forward_args),
    }


def _place(model: str) -> str:
    """A model's file by its whole path: a plan may be used from another folder."""
    where, _, name = model.rpartition(":")
    if model in MODELS or not where or not Path(where).expanduser().is_file():
        return model
    return f"{Path(where).expanduser().resolve()}:{name}"


def _data(bench: BenchConfig) -> dict[str, Any]:
    data = bench.data
    named = os.fspath(data) if isinstance(data, str | os.PathLike) else None
    if named is not None and Path(named).expanduser().exists() and Path(named).suffix:
        named = str(Path(named).expanduser().resolve())
    return {
        "data": named,
        "name": None if named is not None else str(getattr(data, "name", type(data).__name__)),
        "root": None if bench.root is None else str(Path(bench.root).expanduser().resolve()),
        "split": bench.split,
        "transform": bench.transform,
        "seed": bench.seed,
    }


def _training(bench: BenchConfig, graph: Graph, candidate: Candidate, device: str) -> dict[str, Any]:
    settings = task_settings(bench.task, graph)
    sample = next((rung for rung in candidate.rungs if isinstance(rung, Sample)), None)
    hops = sample.num_neighbors if sample is not None else None
    return {
        "lr": candidate.lr,
        "weight_decay": bench.weight_decay,
        "optimizer": bench.optimizer,
        "epochs": bench.epochs,
        "batch_size": sample.batch_size if sample is not None else None,
        "num_neighbors": None if hops is None else list(hops),
        "threads": candidate.threads,
        # A callable has no name that a file could hold.
        "loss": settings["loss"] if bench.loss is None or isinstance(bench.loss, str) else None,
        "metric": settings["metric"] if bench.metric is None or isinstance(bench.metric, str) else None,
        "class_weight": settings["class_weight"],
        "label_smoothing": bench.label_smoothing,
        "device": device,
        "seed": bench.seed,
        "seeds": bench.seeds,
        "deterministic": bench.deterministic,
    }


def _plain_or_empty(arguments: Any) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if isinstance(value, str | int | float | bool)}


def _paid_before_s(run: Run) -> float | None:
    if run.prepare_s is None or run.first_epoch_s is None or run.time_per_epoch_ms is None:
        return None
    return run.prepare_s + max(run.first_epoch_s - run.time_per_epoch_ms.median / 1e3, 0.0)


def _interval(value: Interval | None) -> dict[str, float] | None:
    return None if value is None else {"median": value.median, "low": value.low, "high": value.high}
