"""`fasthop.train`: a model trained to the end on a graph, whatever happens on the way."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any, Unpack

import torch

from fasthop.errors import InvalidConfig
from fasthop.interrupt import uninterrupted
from fasthop.rewrites.ladder import Recipe
from fasthop.search.plan import Plan
from fasthop.search.plan_recipe import rungs_to_json
from fasthop.search.train_options import (
    TrainOptions,
    check_names,
    defaults,
    gone_on_with,
    of_plan,
    to_json,
)
from fasthop.search.train_work import TrainWork
from fasthop.search.trained import Trained
from fasthop.train.progress import TrainProgress
from fasthop.train.run_folder import RunFolder


def train(
    model: Any = None,
    data: Any = None,
    *,
    plan: Plan | Path | str | None = None,
    recipe: Recipe | str | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    memory: int | str | None = None,
    progress: TrainProgress | None = None,
    **options: Unpack[TrainOptions],
) -> Trained:
    """Trains a model on a graph: early stopping, checkpoints, metrics, predictions; returns it with its best weights.

    model: the name of a reference model, "path.py:name" or "package.module:name" of what makes one, a callable that makes one,
        or an `nn.Module`, whose copy is trained from the values that its parameters have.
    data: a graph as `fasthop.load_graph` takes it. plan: a `Plan` or its file, which says all that is not given here; where the
        graph or the machine is another, that is said, and exact rungs are proven again.
    recipe: "auto" (the default: the exact rungs, proven on this graph), "baseline", a row of `bench --ladder full`, or a `Recipe`.
    out: a new folder for run.json, metrics.jsonl, checkpoints, model.safetensors and predictions.parquet; None keeps nothing.
    resume: go on with the training that lies in `out`, on a CPU bit for bit as if it had not been interrupted.
    memory: what training may take at its peak beside the graph itself, such as "2GiB"; a recipe that needs more, or runs out of
        memory for real, is followed by one that needs less.
    options: see `TrainOptions`. progress: what is told on the way; None tells nothing.

    After Ctrl-C or SIGTERM the last whole epoch is kept, and what came of it is returned (`finished` is False).
    Raises InvalidConfig, InvalidGraph, GraphNotFound or CannotWrite before any work where an input is at fault, Diverged where
    a loss is not finite any more, DoesNotFit where nothing fits in memory, and CannotWrite where the disk is full on the way.
    """
    check_names(options)
    given: dict[str, Any] = dict(options)
    handed = {"model": model, "data": data, "recipe": recipe, "memory": memory}
    given |= {name: value for name, value in handed.items() if value is not None}
    if isinstance(recipe, Recipe):
        given["recipe"] = {"name": recipe.name, "rungs": rungs_to_json(recipe.rungs)}
    loaded = plan if isinstance(plan, Plan) or plan is None else Plan.load(plan)
    if resume and out is None:
        raise InvalidConfig("resume goes on with the training of a folder; say which with out (--out).")
    with ExitStack() as ending:
        folder = None if out is None else RunFolder(Path(out))
        if folder is not None:
            was_there = folder.path.exists()
            folder.open(resume=resume)
            ending.callback(_leave, folder, was_there=was_there)
        run = folder.read() if folder is not None and resume else None
        merged = _merged(given, loaded, run)
        if "model" not in merged or "data" not in merged:
            lacking = "model" if "model" not in merged else "data"
            raise InvalidConfig(f"There is no {lacking} to train: give {lacking}, or a plan that names it.")
        ending.callback(torch.set_num_threads, torch.get_num_threads())
        work = TrainWork(
            options=merged, folder=folder, run=run, plan=loaded, progress=progress, saved=to_json(merged)
        )
        ending.callback(work.close)
        return work.run()


def _merged(given: dict[str, Any], plan: Plan | None, run: dict[str, Any] | None) -> dict[str, Any]:
    said = of_plan(plan) if plan is not None else {}
    if run is not None:
        saved = run.get("options")
        if not isinstance(saved, dict) or not {*defaults(), "model", "data"} <= saved.keys():
            raise InvalidConfig(
                "run.json is damaged: its options are missing; restore it, or start a new run in another folder."
            )
        return gone_on_with(saved, said | given)
    if plan is not None and "recipe" not in given:
        said["recipe"] = {"name": plan.recipe_name, "rungs": list(plan.rungs)}
    return defaults() | said | given


def _leave(folder: RunFolder, *, was_there: bool) -> None:
    """Lets go of the folder; where nothing came into a new one, it goes."""
    with uninterrupted():
        folder.close()
        if not was_there:
            try:
                folder.path.rmdir()
            except OSError:  # something is in it
                return
