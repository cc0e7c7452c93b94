"""What a training tells while it runs, and the two that show it: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import Any, Protocol


class TrainProgress(Protocol):
    """start: once, with how many epochs are done already. epoch: after each, with its line of the journal. say: a sentence.
    close: may come at any time, more than once."""

    def start(self, epochs: int, done: int) -> None: ...
    def epoch(self, line: dict[str, Any]) -> None: ...
    def say(self, sentence: str) -> None: ...
    def close(self) -> None: ...


class SilentTraining:
    """Shows nothing."""

    def start(self, epochs: int, done: int) -> None:
        pass

    def epoch(self, line: dict[str, Any]) -> None:
        pass

    def say(self, sentence: str) -> None:
        pass

    def close(self) -> None:
        pass


class TrainingLines:
    """A line on standard error every few seconds, the first and the last epoch always."""

    def __init__(self, *, every_s: float = 5.0) -> None:
        self.every_s = every_s
        self._epochs = 0
        self._told = 0.0

    def start(self, epochs: int, done: int) -> None:
        self._epochs, self._told = epochs, 0.0

    def epoch(self, line: dict[str, Any]) -> None:
        now = time.monotonic()
        if line["epoch"] < self._epochs and now - self._told < self.every_s:
            return
        self._told = now
        self.say(f"epoch {line['epoch']:,}/{self._epochs:,}  {figures(line)}")

    def say(self, sentence: str) -> None:
        # Whoever read standard error may be gone, or it cannot write these characters: neither ends a training.
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(sentence + "\n")
            sys.stderr.flush()

    def close(self) -> None:
        pass


class TrainingBar:
    """A bar that is redrawn in place, on a terminal."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("epoch {task.completed:.0f}/{task.total:.0f}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[figures]}", markup=False),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task: Any = None

    def start(self, epochs: int, done: int) -> None:
        if self._task is None:
            self._task = self._bar.add_task("", total=epochs, completed=done, figures="")
            self._bar.start()
        else:
            self._bar.update(self._task, total=epochs, completed=done)

    def epoch(self, line: dict[str, Any]) -> None:
        self._bar.update(self._task, completed=line["epoch"], figures=figures(line))

    def say(self, sentence: str) -> None:
        self._bar.console.print(sentence, markup=False, highlight=False)

    def close(self) -> None:
        self._bar.stop()


def figures(line: dict[str, Any]) -> str:
    """An epoch's figures in a few words."""
    words = [f"loss {line['loss']:.4g}"]
    words += [f"{name} {line[name]:.2f} %" for name in ("train", "val", "test") if line.get(name) is not None]
    return "  ".join(words)


def training_progress(*, quiet: bool = False) -> TrainProgress:
    """The progress that suits standard error: a bar on a terminal, lines elsewhere, nothing if `quiet`."""
    if quiet or sys.stderr is None:
        return SilentTraining()
    return TrainingBar() if sys.stderr.isatty() else TrainingLines()
