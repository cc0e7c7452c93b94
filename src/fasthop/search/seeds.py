"""The seeds of the finals: baseline and contender trained in pairs, each pair from the same parameters."""

from __future__ import annotations

import math
import statistics
from typing import Any

from fasthop.graph.note import Note, note
from fasthop.search.contest import MAX_EVALUATIONS, TARGET_SHARE
from fasthop.search.entrant import Entrant
from fasthop.search.resident import Trained
from fasthop.search.study import Study
from fasthop.search.track import Track
from fasthop.search.tune_accuracy import AccuracyVerdict, judge_accuracy
from fasthop.search.tune_trial import train_seed

# The share of what is left that the seeds may take at most.
SEEDS_SHARE = 0.6


def train_pairs(
    track: Track, study: Study, baseline: Entrant, entrant: Entrant, notes: list[Note]
) -> tuple[AccuracyVerdict | None, float | None]:
    """The verdict on the accuracy and the target that time-to-accuracy counts to; the target is None where no pair was
    trained, and the verdict too where none was asked for.

    As many pairs as there are seeds and the budget holds; a seed of the baseline that the study knows is not trained again.
    """
    bench = track.config.bench
    known: dict[str, Any] = study.fact("baseline_seeds", {})
    until_s = (1 - SEEDS_SHARE) * track.clock.left_s
    epoch_s = [
        statistics.median(side.round_times_ms) / 1e3 for side in (baseline, entrant) if side.round_times_ms
    ]
    if len(epoch_s) < 2:
        return None, None
    baseline.trained.clear()
    # An evaluation is a forward pass of the model as written, less than half of a step.
    evaluated_s = 0.4 * min(bench.epochs, MAX_EVALUATIONS) * epoch_s[0]
    for seed in range(bench.seed, bench.seed + bench.seeds):
        needs_s = bench.epochs * epoch_s[1] + evaluated_s
        if str(seed) not in known:
            needs_s += bench.epochs * epoch_s[0] + evaluated_s
        if track.clock.left_s - needs_s < until_s:
            notes.append(
                note(
                    f"The budget held {seed - bench.seed} of {bench.seeds} seeds.",
                    f"预算只够 {bench.seeds} 个种子中的 {seed - bench.seed} 个。",
                )
            )
            break
        if str(seed) in known:
            base: Trained | None = Trained(points=tuple(tuple(point) for point in known[str(seed)]))
        else:
            base = train_seed(track, baseline, seed=seed)
            if base is not None:
                known = {**known, str(seed): [list(point) for point in base.points]}
                study.keep("baseline_seeds", known)
        plan = train_seed(track, entrant, seed=seed)
        if base is None or plan is None:
            break
        baseline.trained.append(base)
        entrant.trained.append(plan)
    if not entrant.trained:
        nothing = judge_accuracy([], [], max_drop=track.config.max_accuracy_drop) if bench.seeds else None
        return nothing, None
    verdict = judge_accuracy(
        [t.test for t in baseline.trained], [t.test for t in entrant.trained],
        max_drop=track.config.max_accuracy_drop,
    )  # fmt: skip
    best = statistics.mean(t.best_val for t in baseline.trained)
    return verdict, TARGET_SHARE * best if math.isfinite(best) else None
