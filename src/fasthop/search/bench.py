"""run_ladder: measures the recipes of a ladder side by side, each in its own process, by turns."""

from __future__ import annotations

import dataclasses
import datetime
import tempfile
from pathlib import Path

import torch

from fasthop import __version__
from fasthop.errors import InvalidConfig, InvalidGraph, TrialFailed
from fasthop.graph.sources import load_graph
from fasthop.interrupt import unwound_whole
from fasthop.machine.fingerprint import fingerprint
from fasthop.measure.run import Result
from fasthop.rewrites.ladder import ladder
from fasthop.search.bench_task import example_model, pick_device, save_graph
from fasthop.search.config import BenchConfig
from fasthop.search.contest import Contest
from fasthop.search.entrant import Entrant
from fasthop.search.predict import foresee
from fasthop.search.progress import Progress, SilentProgress
from fasthop.train.task import Task
from fasthop.train.task_config import make_task, task_settings


def run_ladder(config: BenchConfig, progress: Progress | None = None) -> Result:
    """Measures every recipe of `config.ladder` and returns the Result, the baseline first.

    Ctrl-C ends the workers and returns what was measured until then, `finished=False`, once the baseline
    has been timed; before that it goes on to the caller as KeyboardInterrupt.
    Raises InvalidConfig, InvalidGraph or GraphNotFound before any work where the input is at fault, and
    TrialFailed where the baseline itself could not be measured.
    """
    progress = progress or SilentProgress()
    device = pick_device(config.device)
    recipes = ladder(config.ladder, num_neighbors=config.num_neighbors, batch_size=config.batch_size)
    graph = load_graph(
        config.data,
        nodes=config.nodes,
        undirected=config.undirected,
        root=config.root,
        split=config.split,
        transform=config.transform,
        seed=config.seed,
        unsafe=config.unsafe_pickle,
    )
    if graph.num_features == 0:
        raise InvalidGraph(
            f"The graph {graph.name!r} has no node features x, which the model needs as input; give x of shape "
            "[num_nodes, F], for example torch.eye(num_nodes) for a small graph."
        )
    machine = fingerprint()
    threads = config.threads or torch.get_num_threads()
    task = make_task(config.task, graph)
    described = _describe(config, task, device.type, threads)
    created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    progress.start([recipe.name for recipe in recipes])
    foreseen = foresee(task, recipes, device, threads, seed=config.seed)
    # Workers run from here on: whatever comes between, one that cannot start or Ctrl-C, ends those that do.
    with unwound_whole() as ending:
        folder = Path(ending.enter_context(tempfile.TemporaryDirectory(prefix="fasthop-")))
        graph_path = folder / "graph.pt"
        save_graph(graph, graph_path)
        entrants: list[Entrant] = []
        for recipe in recipes:
            entrant = Entrant.enter(recipe, config, graph, graph_path, folder, device.type, threads)
            ending.callback(entrant.close)
            entrant.prediction = foreseen.predictions.get(recipe.name)
            entrants.append(entrant)
        contest = Contest(entrants, config, progress, foreseen.machine)
        finished = contest.run()
    progress.close()
    if contest.baseline.failure is not None:
        failure = contest.baseline.failure
        if failure.kind == "input":
            raise InvalidConfig(failure.reason["en"])
        raise TrialFailed(
            f"The baseline could not be measured: {failure.reason['en']}\n{failure.traceback}".rstrip()
        )
    if foreseen.machine is not None:
        machine = {**machine, "peaks": dataclasses.asdict(foreseen.machine.peaks)}
    return Result(
        machine=machine,
        task=described,
        runs=contest.runs(),
        ladder=config.ladder,
        created=created,
        fasthop_version=__version__,
        target_accuracy=contest.target_accuracy,
        finished=finished,
    )


def _describe(config: BenchConfig, task: Task, device: str, threads: int) -> dict[str, object]:
    """What was trained, by name and figure; together with the machine it tells how to repeat the run."""
    graph, model = task.graph, example_model(config.task, task)
    num_parameters = sum(
        parameter.numel()
        for parameter in model.parameters()
        if not hasattr(parameter, "materialize")  # a lazy layer has no size yet
    )
    settings = task_settings(config.task, graph)
    return {
        "data": graph.name,
        "num_nodes": graph.num_nodes,
        "num_edges": graph.num_edges,
        "num_features": graph.num_features,
        "num_classes": graph.num_classes,
        "num_train": int(graph.train_mask.sum()),
        "transform": config.transform,
        "undirected": config.undirected,
        "num_parameters": num_parameters,
        **settings,
        "label_smoothing": settings["label_smoothing"] or None,
        **{name: getattr(config, name) for name in ("epochs", "rounds", "seeds", "batch_size")},
        "num_neighbors": None if config.num_neighbors is None else list(config.num_neighbors),
        "device": device,
        "threads": threads,
        "seed": config.seed,
        "deterministic": config.deterministic,
        "notes": [*graph.notes, *task.notes],
    }
