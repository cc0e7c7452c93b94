"""tune_plan: from a TuneConfig to a plan in a run folder; killed and started again it goes on."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from pathlib import Path
from typing import Any

import torch

from fasthop import __version__
from fasthop.errors import DoesNotFit, FasthopError, InvalidGraph
from fasthop.files import make_folder, write_file
from fasthop.graph.fingerprint import graph_fingerprint
from fasthop.graph.graph import Graph
from fasthop.graph.note import note
from fasthop.graph.sources import load_graph
from fasthop.interrupt import uninterrupted, unwound_whole
from fasthop.machine.fingerprint import fingerprint
from fasthop.rewrites.sampled_layers import num_hops
from fasthop.search.attempt import Attempt
from fasthop.search.bench_task import example_model, pick_device, place, save_graph
from fasthop.search.candidate import Space, search_space
from fasthop.search.plan import Plan
from fasthop.search.plan_maker import evidence_of, make_plan, unfinished_evidence
from fasthop.search.plan_script import script_of
from fasthop.search.planner import SEARCH_SHARE, Planner, predictions_of
from fasthop.search.predict import foresee
from fasthop.search.progress import Progress, SilentProgress
from fasthop.search.ray_workers import check_ray
from fasthop.search.study import Study, open_study
from fasthop.search.track import Clock, Track
from fasthop.search.tune_config import TuneConfig
from fasthop.search.tuned import PLAN_FILE, SCRIPT_FILE, TRIALS_FILE, Tuned
from fasthop.search.yardstick import Yardstick
from fasthop.train.task import Task
from fasthop.train.task_config import make_task


def tune_plan(
    config: TuneConfig, folder: Path, *, progress: Progress | None = None, resume: bool = True
) -> Tuned:
    """Searches for the best plan within the limits and saves it in `folder`, with a training script and all trials.

    A folder that holds a tune of the same model, graph, limits and machine is gone on with: what was measured is not measured
    again, and what earlier runs took counts towards the budget (up to half of it); one that is finished is read back. After Ctrl-C the best so
    far comes back, `finished` False, once a candidate was measured; before that it goes on to the caller.
    Raises InvalidConfig, InvalidGraph or GraphNotFound before any work where the input is at fault, CannotWrite, and
    TrialFailed where the baseline raises.
    """
    progress = progress or SilentProgress()
    if config.workers == "ray":
        check_ray()
    begun = Clock(config.budget_s)
    bench = config.bench
    device = pick_device(bench.device)
    graph = load_graph(
        bench.data, root=bench.root, split=bench.split, transform=bench.transform, seed=bench.seed, unsafe=bench.unsafe_pickle
    )  # fmt: skip
    if graph.num_features == 0:
        raise InvalidGraph(
            f"The graph {graph.name!r} has no node features x, which the model needs as input; give x of shape [num_nodes, F]."
        )
    threads = bench.threads or torch.get_num_threads()
    task = make_task(bench.task, graph)
    space = _space(config, task, device.type, threads)
    machine, hashed = fingerprint(), graph_fingerprint(graph)
    make_folder(folder)
    settings = config.settings() | {"threads": threads, "device": device.type, "fasthop": __version__}
    with open_study(
        folder,
        space,
        settings=settings | {"families": list(space.families)},
        graph=hashed,
        machine=machine["machine_id"],
        seed=bench.seed,
        resume=resume,
    ) as study:
        known = _finished(study, config, folder)
        if known is not None:
            return known
        # Of what earlier runs took no more than the search's share counts: the finals begin anew, and need theirs.
        earlier_s = min(study.fact("spent_s", 0.0), SEARCH_SHARE * config.budget_s)
        clock = Clock(config.budget_s, earlier_s + begun.spent_s)
        work = _Work(
            config, folder, graph, task, space, study, clock, progress, device, threads, machine, hashed
        )
        return work.run()


class _Work:
    """The run itself: workers, planner, and what is saved of it."""

    def __init__(
        self, config: TuneConfig, folder: Path, graph: Graph, task: Task, space: Space, study: Study, clock: Clock,
        progress: Progress, device: torch.device, threads: int, machine: dict[str, Any], hashed: str,
    ) -> None:  # fmt: skip
        self.config, self.folder, self.graph, self.task, self.space = config, folder, graph, task, space
        self.study, self.clock, self.progress, self.device, self.threads = (
            study,
            clock,
            progress,
            device,
            threads,
        )
        self.machine, self.hashed = machine, hashed

    def run(self) -> Tuned:
        config, bench = self.config, self.config.bench
        self.progress.start(["baseline", *self.space.families])
        foreseen = foresee(
            dataclasses.replace(self.task, graph=place(self.graph, self.device)),
            tuple(candidate.recipe for candidate in predictions_of(self.space)),
            self.device,
            self.threads,
            seed=bench.seed,
        )
        interrupted = False
        with unwound_whole() as ending:
            scratch = Path(ending.enter_context(tempfile.TemporaryDirectory(prefix="fasthop-")))
            save_graph(self.graph, scratch / "graph.pt")
            track = Track(
                config=config, graph=self.graph, graph_path=scratch / "graph.pt", folder=scratch,
                device=self.device.type, clock=self.clock, progress=self.progress,
            )  # fmt: skip
            ending.callback(track.close)
            ending.callback(lambda: self.study.keep("spent_s", self.clock.spent_s))
            planner = Planner(
                track=track,
                study=self.study,
                space=self.space,
                task=self.task,
                foreseen=foreseen,
                yardstick=Yardstick(objective=config.objective, num_epochs=bench.epochs, lr=bench.lr),
                machine_id=self.machine["machine_id"],
            )
            try:
                planner.run()
            except KeyboardInterrupt:
                if planner.best() is None:
                    raise
                interrupted = True
        self.progress.close()
        with uninterrupted():
            return self._save(planner, interrupted=interrupted)

    def _save(self, planner: Planner, *, interrupted: bool) -> Tuned:
        config, attempts, notes = self.config, tuple(self.study.attempts), [*self.task.notes, *planner.notes]
        final, best, stopped = planner.final, planner.best(), planner.stopped
        plan = None
        if interrupted:
            stopped = note(
                "It was stopped; started again in the same folder it goes on.",
                "它被停止；在同一文件夹里再次启动会接着进行。",
            )
            if best is not None:
                plan = self._plan(best.candidate, unfinished_evidence(config, best, attempts, notes))
        elif final is not None:
            plan = self._plan(final.candidate, evidence_of(config, final, attempts, notes))
        tuned = Tuned(
            plan=plan,
            attempts=attempts,
            finals=(final,) if final is not None else (),
            stopped=stopped,
            notes=tuple(notes),
            finished=not interrupted,
            spent_s=self.clock.spent_s,
            budget_s=config.budget_s,
            objective=config.objective,
            folder=self.folder,
        )
        if plan is not None:
            plan.save(self.folder / PLAN_FILE)
            write_file(self.folder / SCRIPT_FILE, script_of(plan).encode())
        write_file(self.folder / TRIALS_FILE, tuned.trials_json().encode())
        if not interrupted:
            self.study.keep("finished", {"stopped": stopped, "notes": notes, "has_plan": plan is not None})
        if plan is None:
            raise DoesNotFit(_nothing(config, attempts))
        return tuned

    def _plan(self, candidate: Any, evidence: dict[str, Any]) -> Plan:
        return make_plan(
            self.config, self.graph, candidate, device=self.device.type, graph_fingerprint=self.hashed,
            machine=self.machine, evidence=json.loads(json.dumps(evidence)),
        )  # fmt: skip


def _space(config: TuneConfig, task: Task, device: str, threads: int) -> Space:
    bench = config.bench
    model = example_model(bench.task, task)
    return search_space(
        device=device,
        threads=threads,
        lr=bench.lr,
        num_train=int(task.graph.train_mask.sum()),
        num_hops=num_hops(model),
        batch_size=bench.batch_size,
        num_neighbors=bench.num_neighbors,
        tunes_lr=config.objective == "time-to-accuracy",
    )


def _finished(study: Study, config: TuneConfig, folder: Path) -> Tuned | None:
    """A tune that has come to its end already, read back from its folder."""
    fact = study.fact("finished")
    if fact is None:
        return None
    if not fact.get("has_plan"):
        raise DoesNotFit(_nothing(config, tuple(study.attempts)))
    try:
        plan = Plan.load(folder / PLAN_FILE)
    except FasthopError:  # gone or damaged: the finals are run again, and nothing else
        return None
    said = note("It had finished before, and was read back.", "此前已经完成，这里直接读回结果。")
    return Tuned(
        plan=plan, attempts=tuple(study.attempts), finals=(), stopped=fact.get("stopped"), notes=(*fact.get("notes", ()), said),
        finished=True, spent_s=study.fact("spent_s", 0.0), budget_s=config.budget_s, objective=config.objective, folder=folder,
    )  # fmt: skip


def _nothing(config: TuneConfig, attempts: tuple[Attempt, ...]) -> str:
    peaks = [a.peak_bytes for a in attempts if a.peak_bytes is not None]
    least = f" The least that was measured is {min(peaks):,} bytes." if peaks else ""
    limit = f" of {config.memory_bytes:,} bytes" if config.memory_bytes is not None else ""
    return (
        f"No plan was found within the limits: {len(attempts)} candidates were tried, and none fits the memory limit{limit} and "
        f"keeps the accuracy.{least} Raise --memory, --max-accuracy-drop or --budget."
    )
