"""The planner: spends a budget on the candidates that may win, and hands the last of them to the finals."""

from __future__ import annotations

import dataclasses
import math
import statistics
from dataclasses import dataclass, field

from fasthop.errors import InvalidConfig, TrialFailed
from fasthop.graph.note import Note, note
from fasthop.interrupt import uninterrupted
from fasthop.search.amounts import seconds_text
from fasthop.search.attempt import HALVED, MEASURED, UNFINISHED, Attempt
from fasthop.search.candidate import Candidate, Space
from fasthop.search.contest import TARGET_SHARE
from fasthop.search.entrant import Entrant
from fasthop.search.finals import Final, Finals
from fasthop.search.predict import Foreseen
from fasthop.search.predict_memory import memory_floor_bytes
from fasthop.search.ray_workers import measure_on_ray
from fasthop.search.resident import Trained
from fasthop.search.study import Study
from fasthop.search.track import FULL_WARM_UP, SLOW_WARM_UP, Track
from fasthop.search.tune_trial import TuneTrial, train_seed
from fasthop.search.yardstick import Yardstick
from fasthop.train.task import Task

# The share of the budget after which no new candidate is started: the rest is for the finals.
SEARCH_SHARE = 0.5
# The share that a seed of the baseline may take, and an epoch before it counts as slow and is warmed up once only.
BASELINE_SEED_SHARE, SLOW_SHARE = 0.2, 1 / 60
NUM_CONTENDERS, NEAR_BEST = 3, 1.25
# So many times the longest trial are kept for the finals: workers start anew there.
KEPT_TRIALS = 4
NUM_TUNED_FAMILIES, PATIENCE, MOST_REPEATS = 2, 6, 12


@dataclass(kw_only=True, eq=False)
class Planner:
    """One tune: the baseline, the families of recipes by default, the knobs of the best, the finals.

    foreseen: predictions by family. `final` and `stopped` tell what came of it; both are there after Ctrl-C too.
    """

    track: Track
    study: Study
    space: Space
    task: Task
    foreseen: Foreseen
    yardstick: Yardstick
    machine_id: str
    notes: list[Note] = field(default_factory=list)
    stopped: Note | None = None
    final: Final | None = None
    baseline: Entrant | None = None
    baseline_counts: bool = False
    _num_measured: int = 0

    def run(self) -> None:
        """All of it. KeyboardInterrupt goes on to the caller; what was measured until then is in the study."""
        self._measure_baseline()
        if self.track.config.workers == "ray":
            self._ask_cluster()
        self._try_families()
        self._turn_knobs()
        assert self.baseline is not None
        finals = Finals(
            track=self.track,
            study=self.study,
            yardstick=self.yardstick,
            baseline=self.baseline,
            baseline_candidate=self.space.baseline,
            baseline_counts=self.baseline_counts,
        )
        self.final = finals.run(self.contenders())
        self.notes += finals.notes

    def contenders(self) -> list[Candidate]:
        """The best candidates by what the search measured, those close to the best only, best first."""
        found = [a for a in self._measured() if a.value is not None]
        found.sort(key=lambda attempt: attempt.value or 0.0)
        if not found or found[0].value is None:
            return []
        near = [a for a in found if (a.value or 0.0) <= NEAR_BEST * found[0].value]
        return [attempt.candidate for attempt in near[:NUM_CONTENDERS]]

    def best(self) -> Attempt | None:
        """The best of what was measured so far, the baseline aside."""
        found = [a for a in self._measured() if a.value is not None]
        return min(found, key=lambda attempt: attempt.value or 0.0, default=None)

    def _measured(self) -> list[Attempt]:
        """What may be a plan: it ran, and its value is no bound only."""
        return [
            a
            for a in self.study.settled.values()
            if a.outcome in (MEASURED, HALVED)
            and len(a.times_ms) > 0
            and (a.epochs_to_target is not None or not self.yardstick.must_train(a.candidate))
        ]

    def _measure_baseline(self) -> None:
        """Time, memory and where asked for one seed of the baseline, which stays for the finals."""
        track, config = self.track, self.track.config
        self.baseline = entrant = track.enter(self.space.baseline)
        track.get_ready(entrant)
        predicted = self.foreseen.predictions.get("baseline")
        slow = predicted is not None and predicted.time_ms / 1e3 > SLOW_SHARE * config.budget_s
        track.warm_up(entrant, max_warm_up=SLOW_WARM_UP if slow else FULL_WARM_UP)
        for _ in range(1 if slow else 3):
            track.take_round(entrant)
        if slow:
            self.notes.append(
                note(
                    f"An epoch of the baseline takes long against the budget of {seconds_text(config.budget_s)}: its time is "
                    "taken from few epochs.",
                    f"相对于 {seconds_text(config.budget_s)} 的预算，基线的一个 epoch 很长：其时间只取自少数几个 epoch。",
                )
            )
        peak = track.count_memory(entrant, limited=False)
        if entrant.failure is not None:
            self._without_baseline(entrant)
            return
        self.baseline_counts = config.memory_bytes is None or (
            peak is not None and peak <= config.memory_bytes
        )
        self._find_target(entrant)
        value = self.yardstick.value(
            self.space.baseline,
            epoch_ms=statistics.median(entrant.round_times_ms),
            peak_bytes=peak,
        )
        if self.baseline_counts and value is not None:
            self.yardstick.best = value
        track.progress.done(entrant.name, None)

    def _without_baseline(self, entrant: Entrant) -> None:
        """A baseline that dies, hangs or runs out of memory is no reason to give up: that may be why tune was called."""
        failure = entrant.failure
        assert failure is not None
        if failure.kind == "input":
            raise InvalidConfig(failure.reason["en"])
        if failure.kind in ("error", "compiler"):
            raise TrialFailed(
                f"The baseline could not be measured: {failure.reason['en']}\n{failure.traceback}".rstrip()
            )
        self.notes.append(
            note(
                f"The baseline could not be measured, so that there is no ratio to it: {failure.reason['en']}",
                f"基线无法测量，因此没有相对它的比值：{failure.reason['zh']}",
            )
        )
        self._count_epochs_instead()
        self.track.progress.done(entrant.name, failure.reason)

    def _find_target(self, entrant: Entrant) -> None:
        """Trains one seed of the baseline, where time-to-accuracy asks for it and the budget holds it."""
        track, bench, yardstick = self.track, self.track.config.bench, self.yardstick
        if yardstick.objective != "time-to-accuracy":
            return
        known = self.study.fact("baseline_seeds", {}).get(str(bench.seed))
        if known is not None:
            trained: Trained | None = Trained(points=tuple(tuple(point) for point in known))
        else:
            needs_s = bench.epochs * statistics.median(entrant.round_times_ms) / 1e3
            if needs_s > BASELINE_SEED_SHARE * track.config.budget_s:
                takes = seconds_text(needs_s)
                self.notes.append(
                    note(
                        f"One seed of the baseline takes about {takes}, too long for this budget: the time of an epoch is made "
                        "small in the place of the time to the accuracy.",
                        f"基线训练一个种子约需 {takes}，超出预算：改为使每个 epoch 的时间最短，而不是达到目标准确率的时间。",
                    )
                )
                self._count_epochs_instead()
                return
            trained = train_seed(track, entrant, seed=bench.seed)
            if trained is not None:
                self.study.keep(
                    "baseline_seeds", {str(bench.seed): [list(point) for point in trained.points]}
                )
        if trained is None or not math.isfinite(trained.best_val):
            self.notes.append(
                note(
                    "The baseline has no validation figure to aim at: the time of an epoch is made small instead.",
                    "基线没有可作为目标的验证指标：改为使每个 epoch 的时间最短。",
                )
            )
            self._count_epochs_instead()
            return
        yardstick.target = TARGET_SHARE * trained.best_val
        yardstick.baseline_epochs = yardstick.reached(trained.points)

    def _count_epochs_instead(self) -> None:
        if self.yardstick.objective == "time-to-accuracy":
            self.yardstick.objective = "epoch-time"

    def _ask_cluster(self) -> None:
        """The families on Ray's nodes; knobs and finals stay here, where the plan is to run."""
        entrant, settled, firsts = self.baseline, self.study.settled, list(self.space.firsts())
        if entrant is not None and entrant.round_times_ms:
            measure_on_ray(
                self.track.config,
                self.task.graph,
                self.study,
                [first.family for first in firsts if first.key not in settled],
                self.space.baseline,
                statistics.median(entrant.round_times_ms),
                self.yardstick.value,
                self.track.device,
                self.track.clock,
            )

    def _try_families(self) -> None:
        for family in self.space.families:
            first = self.space.candidate(family, lambda _, choices: choices[0])
            known = self.study.settled.get(first.key)
            if known is not None:
                self._learn(known)
                continue
            if not self._may_start():
                return
            self._try(family, by_default=True)

    def _turn_knobs(self) -> None:
        """Turns the knobs of the best families by turns, by Optuna's sampler, as long as that still finds something."""
        for attempt in self.study.settled.values():
            self._learn(attempt)
        ranked = sorted((a for a in self._measured() if a.value is not None), key=lambda a: a.value or 0.0)
        families = [f for f in dict.fromkeys(a.candidate.family for a in ranked) if self.space.knobs(f)]
        families = families[:NUM_TUNED_FAMILIES]
        best, idle, repeats = self.yardstick.best, 0, 0
        while families and idle < PATIENCE and repeats < MOST_REPEATS:
            if not self._may_start():
                return
            if not self._try(families[(idle + repeats) % len(families)], by_default=False):
                repeats += 1
                continue
            idle = 0 if self.yardstick.best < 0.99 * best else idle + 1
            best = min(best, self.yardstick.best)
        if self.stopped is None:
            self.stopped = note(
                "It stopped since no further candidate was found that is better.",
                "停止：没有再找到更好的候选方案。",
            )

    def _try(self, family: str, *, by_default: bool) -> bool:
        """One trial; False where its candidate was measured before."""
        trial = self.study.ask(family, by_default=by_default)
        candidate = trial.candidate
        known = self.study.settled.get(candidate.key)
        if known is not None:
            trial.repeat(known)
            return False
        work = TuneTrial(
            candidate=candidate,
            track=self.track,
            yardstick=self.yardstick,
            goes_on=trial.goes_on,
            machine=self.foreseen.machine,
            machine_id=self.machine_id,
        )
        try:
            attempt = self._foreseen(work, family, by_default=by_default) or work.measure()
        except BaseException:
            with uninterrupted():
                reason = note("It was stopped in the middle of it.", "测量中途被停止。")
                trial.end(Attempt(candidate=candidate, outcome=UNFINISHED, reason=reason))
            raise
        with uninterrupted():
            trial.end(attempt)
            self.study.keep("spent_s", self.track.clock.spent_s)
        self._learn(attempt)
        self._num_measured += 1
        return True

    def _foreseen(self, work: TuneTrial, family: str, *, by_default: bool) -> Attempt | None:
        prediction = self.foreseen.predictions.get(family) if by_default else None
        seed = self.track.config.bench.seed
        floor = None
        if self.track.config.memory_bytes is not None:
            floor = memory_floor_bytes(self.task, work.candidate.recipe, seed=seed)
        num_steps = 1
        if work.candidate.samples:
            sizes = [r.batch_size for r in work.candidate.rungs if r.name == "sample"]  # type: ignore[attr-defined]
            num_steps = max(1, math.ceil(int(self.task.graph.train_mask.sum()) / sizes[0]))
        attempt = work.foreseen(prediction.time_ms if prediction is not None else None, floor, num_steps)
        if attempt is not None:
            self.track.progress.done(work.candidate.name, attempt.reason)
        return attempt

    def _learn(self, attempt: Attempt) -> None:
        if attempt.outcome == MEASURED and attempt.value is not None:
            self.yardstick.best = min(self.yardstick.best, attempt.value)

    def _may_start(self) -> bool:
        """Whether the budget holds another trial; why not is kept in `stopped`."""
        config, clock = self.track.config, self.track.clock
        most = config.max_trials
        if most is not None and self._num_measured >= most:
            self.stopped = note(
                f"It stopped after {most} trials, which is max_trials.",
                f"停止：已达到 max_trials，即 {most} 次试验。",
            )
            return False
        longest_s = max((a.took_s for a in self.study.attempts), default=self.track.started_s)
        if clock.spent_s < SEARCH_SHARE * config.budget_s and clock.left_s > KEPT_TRIALS * longest_s:
            return True
        self.stopped = note(
            f"It stopped searching after {seconds_text(clock.spent_s)} of {seconds_text(config.budget_s)}: the rest is for the "
            "finals.",
            f"搜索在预算 {seconds_text(config.budget_s)} 中用去 {seconds_text(clock.spent_s)} 后停止：余下的时间用于决赛。",
        )
        return False


def predictions_of(space: Space) -> tuple[Candidate, ...]:
    """What is foreseen before anything is measured: the baseline and each family by default."""
    return (space.baseline, *(dataclasses.replace(c, name=c.family) for c in space.firsts()))
