"""Trials on a Ray cluster: each takes a whole node, and measures its candidate against the baseline on that very node."""

from __future__ import annotations

import dataclasses
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fasthop.errors import InvalidConfig
from fasthop.graph.graph import Graph
from fasthop.graph.note import Note, note
from fasthop.measure.compare import MIN_ROUNDS
from fasthop.measure.rounds import turn_order
from fasthop.search.attempt import DOES_NOT_FIT, FAILED, INAPPLICABLE, MEASURED, Attempt
from fasthop.search.bench_task import save_graph
from fasthop.search.candidate import Candidate
from fasthop.search.progress import SilentProgress
from fasthop.search.track import Clock, Track
from fasthop.search.tune_config import TuneConfig

if TYPE_CHECKING:
    from fasthop.search.study import Study


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """What a node measured of a candidate and the baseline by turns: ms an epoch of each round, on the machine `machine_id`."""

    machine_id: str
    baseline_ms: tuple[float, ...] = ()
    times_ms: tuple[float, ...] = ()
    peak_bytes: int | None = None
    paid_before_s: float = 0.0
    num_steps: int | None = None
    failure: str | None = None
    reason: Note | None = None

    @property
    def ratio(self) -> float | None:
        """The candidate's time over the baseline's, paired round by round."""
        if not self.times_ms or len(self.times_ms) != len(self.baseline_ms):
            return None
        return statistics.median(b / a for a, b in zip(self.baseline_ms, self.times_ms, strict=True))


def measure_pair(
    config: TuneConfig, graph: Graph, baseline: Candidate, candidate: Candidate, device: str, budget_s: float
) -> Pair:
    """Runs on a node: both in processes of their own there, by turns; whatever goes wrong is in the Pair."""
    from fasthop.machine.fingerprint import machine_id

    with tempfile.TemporaryDirectory(prefix="fasthop-") as scratch:
        path = Path(scratch) / "graph.pt"
        save_graph(graph, path)
        track = Track(
            config=config, graph=graph, graph_path=path, folder=Path(scratch), device=device, clock=Clock(budget_s),
            progress=SilentProgress(),
        )  # fmt: skip
        try:
            sides = [track.enter(baseline), track.enter(candidate)]
            for entrant in sides:
                track.get_ready(entrant)
                track.warm_up(entrant)
            track.count_memory(sides[1], limited=True)
            for index in range(MIN_ROUNDS):
                for entrant in turn_order(sides, index):
                    track.take_round(entrant)
            base, own = sides
            failure = own.failure or base.failure
            return Pair(
                machine_id=machine_id(),
                baseline_ms=tuple(base.round_times_ms),
                times_ms=tuple(own.round_times_ms),
                peak_bytes=own.memory.peak_bytes if own.memory is not None else None,
                paid_before_s=own.paid_before_s,
                num_steps=own.prepared.num_steps_per_epoch if own.prepared is not None else None,
                failure=failure.kind if failure is not None else None,
                reason=failure.reason if failure is not None else None,
            )
        finally:
            track.close()


def measure_on_ray(
    config: TuneConfig,
    graph: Graph,
    study: Study,
    families: list[str],
    baseline: Candidate,
    baseline_ms: float,
    value: Callable[..., float | None],
    device: str,
    clock: Clock,
) -> None:
    """Tries each family by default on the cluster, as many at once as it has nodes, and keeps what came of it in the study.

    Times of unlike machines are never mixed: what counts is the ratio to the baseline on the same node, times what the
    baseline takes here. Raises InvalidConfig where Ray is not installed or no cluster can be had.
    """
    ray, nodes = _cluster()
    remote = ray.remote(measure_pair)
    shared = ray.put(graph)
    waiting, running = list(families), {}
    free = list(nodes)
    while waiting or running:
        while waiting and free and clock.left_s > 0:
            trial = study.ask(waiting.pop(0), by_default=True)
            node = free.pop()
            place = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            whole = remote.options(
                num_cpus=node["Resources"]["CPU"], scheduling_strategy=place, max_retries=0
            )
            arguments = (
                dataclasses.replace(config, bench=dataclasses.replace(config.bench, data=graph.name)),
                shared,
            )
            running[whole.remote(*arguments, baseline, trial.candidate, device, clock.left_s)] = (trial, node)
        if not running:
            return  # the budget is over
        done, _ = ray.wait(list(running), num_returns=1)
        trial, node = running.pop(done[0])
        free.append(node)
        try:
            pair: Pair = ray.get(done[0])
        except ray.exceptions.RayError as error:  # a node that died costs its trial
            text = str(error).splitlines()[0][:200]
            pair = Pair(
                machine_id="",
                failure="died",
                reason=note(f"Its node failed: {text}", f"它的节点出错：{text}"),
            )
        trial.end(_attempt(pair, trial.candidate, baseline_ms, value))


def _attempt(
    pair: Pair, candidate: Candidate, baseline_ms: float, value: Callable[..., float | None]
) -> Attempt:
    ratio = pair.ratio
    outcome = {None: MEASURED, "memory": DOES_NOT_FIT, "inapplicable": INAPPLICABLE}.get(pair.failure, FAILED)
    worth = None
    if ratio is not None and outcome == MEASURED:
        worth = value(
            candidate, epoch_ms=ratio * baseline_ms, num_steps=pair.num_steps or 1, peak_bytes=pair.peak_bytes,
            paid_before_s=pair.paid_before_s,
        )  # fmt: skip
    return Attempt(
        candidate=candidate, outcome=outcome, reason=pair.reason, times_ms=pair.times_ms, num_steps=pair.num_steps,
        peak_bytes=pair.peak_bytes, paid_before_s=pair.paid_before_s, value=worth, machine_id=pair.machine_id,
    )  # fmt: skip


def _cluster() -> tuple[Any, list[dict[str, Any]]]:
    """Ray, connected, and the nodes that live: of the cluster that RAY_ADDRESS names or this machine is in, else of this one."""
    check_ray()
    import ray  # pyright: ignore[reportMissingImports]
    import ray.util.scheduling_strategies  # pyright: ignore[reportMissingImports]

    try:
        if not ray.is_initialized():
            ray.init(log_to_driver=False, logging_level="ERROR", include_dashboard=False)
        nodes = [node for node in ray.nodes() if node.get("Alive") and node.get("Resources", {}).get("CPU")]
    except (RuntimeError, ConnectionError, OSError, ValueError) as error:
        raise InvalidConfig(f"workers is 'ray', and no cluster can be had ({error}).") from None
    if not nodes:
        raise InvalidConfig("workers is 'ray', and the cluster has no node with a CPU that is alive.")
    return ray, nodes


def check_ray() -> None:
    """Raises InvalidConfig where Ray is asked for and not installed; nothing is started."""
    import importlib.util

    if importlib.util.find_spec("ray") is None:
        raise InvalidConfig(
            "workers is 'ray', and Ray is not installed; install fasthop[ray], or leave workers local."
        )
