"""`fasthop.bench`: measures a ladder and returns its Report, saved in a run folder."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fasthop.interrupt import uninterrupted
from fasthop.report.files import CannotWrite, make_folder
from fasthop.report.progress import Progress, SilentProgress, progress_for
from fasthop.report.report import Report
from fasthop.report.rung_words import rung_words
from fasthop.report.words import check_lang

if TYPE_CHECKING:
    from fasthop.search.config import BenchConfig

RUNS = Path("runs")


def bench(
    data: Any = "cora",
    *,
    model: str | Callable[..., Any] = "gcn",
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
    rounds: int = 10,
    seeds: int = 5,
    num_neighbors: tuple[int, ...] | None = None,
    batch_size: int = 128,
    ladder: str = "tutorial",
    device: str = "auto",
    threads: int | None = None,
    deterministic: bool = False,
    time_limit_s: float = 600.0,
    prove_budget_s: float = 10.0,
    nodes: str | Path | None = None,
    undirected: bool = False,
    root: str | None = None,
    split: int | str | None = None,
    transform: str | None = None,
    unsafe_pickle: bool = False,
    out: Path | str | None = None,
    lang: str = "en",
    progress: Progress | None = None,
) -> Report:
    """Measures every recipe of a ladder on this model, graph and machine.

    What is measured is described at `fasthop.search.config.BenchConfig`, which has the same fields, and what is trained at
    `fasthop.train.task_config.TaskConfig`.
    out: the run folder, which must not hold a run yet; by default runs/<date-time>-<data>-<model>.
    lang: the language of the report, "en" or "zh".
    progress: what is told while it runs; None shows it where standard error is a terminal or a notebook.

    After Ctrl-C the report holds what was measured until then (`report.result.finished` is False).
    Raises InvalidConfig, InvalidGraph and GraphNotFound for bad input before any work starts, and
    CannotWrite where the run folder cannot be written; once it was measured, `error.report` is the report.
    """
    from fasthop.search.config import BenchConfig

    check_lang(lang)
    config = BenchConfig(
        data=data,
        model=model,
        model_args=model_args or {},
        hidden=hidden,
        layers=layers,
        dropout=dropout,
        lr=lr,
        weight_decay=weight_decay,
        optimizer=optimizer,
        loss=loss,
        class_weight=class_weight,
        label_smoothing=label_smoothing,
        metric=metric,
        output=output,
        head=head,
        forward_args=forward_args or {},
        epochs=epochs,
        rounds=rounds,
        seeds=seeds,
        num_neighbors=num_neighbors,
        batch_size=batch_size,
        ladder=ladder,
        device=device,
        threads=threads,
        deterministic=deterministic,
        time_limit_s=time_limit_s,
        prove_budget_s=prove_budget_s,
        nodes=nodes,
        undirected=undirected,
        root=root,
        split=split,
        transform=transform,
        unsafe_pickle=unsafe_pickle,
    )
    if progress is None:
        progress = _usual_progress(lang)
    return measure(config, Path(out) if out is not None else None, lang, progress)


def measure(config: BenchConfig, out: Path | None, lang: str, progress: Progress) -> Report:
    """Runs a checked configuration and saves its report. The run folder is made first, so that an
    unwritable place is found out before the work."""
    from fasthop.search.bench import run_ladder

    folder = _chosen_folder(out) if out is not None else _new_folder(config)
    try:
        try:
            result = run_ladder(config, progress)
        finally:
            progress.close()
        with uninterrupted():
            report = Report(result, lang=lang, rung_words=rung_words())
            try:
                report.save(folder)
            except CannotWrite as error:
                error.report = report  # what was measured is not lost with the disk
                raise
    except BaseException:
        with contextlib.suppress(OSError):
            folder.rmdir()  # only where nothing is in it
            if out is None:
                folder.parent.rmdir()
        raise
    return report


def _chosen_folder(out: Path) -> Path:
    if out.is_dir() and any(out.iterdir()):
        raise CannotWrite(f"{out} is not empty, and a run is never overwritten; name a new folder.")
    return make_folder(out)


def _new_folder(config: BenchConfig) -> Path:
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    name = f"{stamp}-{_slug(config.data)}-{_slug(config.model)}"
    place = 1
    while True:
        folder = RUNS / (name if place == 1 else f"{name}-{place}")
        place += 1
        if not folder.exists():
            with contextlib.suppress(FileExistsError):
                return make_folder(folder, fresh=True)


def _slug(value: Any) -> str:
    """A name that any file system takes: of a path its stem, of an object its own or its type's name."""
    if isinstance(value, Path) or (isinstance(value, str) and ("/" in value or "\\" in value)):
        text = Path(value).stem
    elif isinstance(value, str):
        text = value.removesuffix(".pt")
    else:
        text = getattr(value, "__name__", type(value).__name__)
    return re.sub(r"[^\w.=]+", "-", text).strip("-.")[:60].lower() or "run"


def _usual_progress(lang: str) -> Progress:
    if "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty()):
        return progress_for(lang)
    return SilentProgress()
