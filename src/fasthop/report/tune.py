"""`fasthop.tune`: the fastest plan within limits of memory, accuracy and time, with its evidence, in a run folder."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fasthop.report.bench import RUNS
from fasthop.report.progress import Progress, SilentProgress, progress_for
from fasthop.report.words import check_lang

if TYPE_CHECKING:
    from fasthop.search.tuned import Tuned


def tune(
    model: str | Callable[..., Any] = "gcn",
    data: Any = "cora",
    *,
    memory: str | int | None = None,
    max_accuracy_drop: float = 0.5,
    budget: str | float = "10min",
    objective: str = "time-to-accuracy",
    model_args: Mapping[str, Any] | None = None,
    hidden: int = 16,
    layers: int = 2,
    dropout: float = 0.0,
    lr: float = 0.01,
    weight_decay: float = 5e-4,
    optimizer: str = "adam",
    loss: str | Callable[..., Any] | None = None,
    class_weight: str | tuple[float, ...] | None = None,
    label_smoothing: float = 0.0,
    metric: str | Callable[..., Any] | None = None,
    output: int | str | None = None,
    head: bool = False,
    forward_args: Mapping[str, Any] | None = None,
    epochs: int = 200,
    seeds: int = 5,
    rounds: int = 10,
    num_neighbors: tuple[int, ...] | None = None,
    batch_size: int = 128,
    device: str = "auto",
    threads: int | None = None,
    deterministic: bool = False,
    time_limit_s: float = 600.0,
    prove_budget_s: float = 10.0,
    root: str | None = None,
    split: int | str | None = None,
    transform: str | None = None,
    unsafe_pickle: bool = False,
    seed: int = 0,
    workers: str = "local",
    max_trials: int | None = None,
    out: Path | str | None = None,
    resume: bool = True,
    lang: str = "en",
    progress: Progress | None = None,
) -> Tuned:
    """Finds the best plan to train `model` on `data` within the limits, and shows what it tried and why it stopped.

    memory: the most that an epoch may hold beside the graph ("2GiB", bytes); None is no limit. max_accuracy_drop: points of
    the metric that may be lost against the model as written. budget: the time for all of it ("10min", seconds).
    objective: "time-to-accuracy", "epoch-time" or "memory". epochs, seeds, rounds: of the accuracy runs, how many at most, and
    how often the last contenders take turns. workers: "local", or "ray" on a Ray cluster. max_trials: the most candidates.
    The model's and the graph's options are those of `fasthop.bench`.
    out: the run folder; by default runs/<date-time>-tune. One that holds a tune of the same is gone on with if resume, where
    what was measured is not measured again. lang: of what is printed, "en" or "zh".

    The folder gets plan.json (`fasthop.Plan`), train.py, trials.json and the study. After Ctrl-C the best so far comes back
    (`finished` is False). Raises InvalidConfig, InvalidGraph and GraphNotFound before any work, DoesNotFit where nothing
    fits the limits, CannotWrite where the folder cannot be written.
    """
    from fasthop.search.amounts import as_bytes, as_seconds
    from fasthop.search.config import BenchConfig
    from fasthop.search.tune import tune_plan
    from fasthop.search.tune_config import TuneConfig

    check_lang(lang)
    bench = BenchConfig(
        data=data, model=model, model_args=model_args or {}, hidden=hidden, layers=layers, dropout=dropout, lr=lr,
        weight_decay=weight_decay, optimizer=optimizer, loss=loss, class_weight=class_weight, label_smoothing=label_smoothing,
        metric=metric, output=output, head=head, forward_args=forward_args or {}, epochs=epochs, seeds=seeds, rounds=rounds,
        num_neighbors=num_neighbors, batch_size=batch_size, device=device, threads=threads, deterministic=deterministic,
        time_limit_s=time_limit_s, prove_budget_s=prove_budget_s, root=root, split=split, transform=transform,
        unsafe_pickle=unsafe_pickle, seed=seed,
    )  # fmt: skip
    config = TuneConfig(
        bench=bench, memory_bytes=None if memory is None else as_bytes(memory), max_accuracy_drop=max_accuracy_drop,
        budget_s=as_seconds(budget), objective=objective,
        workers=workers, max_trials=max_trials,
    )  # fmt: skip
    if progress is None:
        shown = "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())
        progress = progress_for(lang) if shown else SilentProgress()
    folder = Path(out) if out is not None else RUNS / f"{datetime.now().strftime('%Y%m%d-%H%M%S')}-tune"
    try:
        tuned = tune_plan(config, folder, progress=progress, resume=resume)
        return dataclasses.replace(tuned, lang=lang)
    finally:
        progress.close()
