"""Trained: what `fasthop.train` gives back."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from fasthop.graph.note import Note
from fasthop.rewrites.ladder import Recipe


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Trained:
    """A trained model with what is known of it. `print(trained)` tells it.

    model: with the best weights, on the device that it was trained on. history: a dict an epoch: epoch, loss, lr, and where it was
    evaluated train, val, test (the metric in percent) and val_loss. metric: the metric's name; monitor: what decided which weights
    are best, best_score its best figure and best_epoch where. recipe: what was trained with at the end. reason: why it
    ended: "epochs", "patience" or "signal". checkpoint_epoch: where `resume=True` goes on. folder, predictions_path,
    model_path: None where nothing was kept. notes: what was said on the way. num_skipped_steps: left out by a GradScaler.
    """

    model: torch.nn.Module
    history: tuple[dict[str, Any], ...]
    metric: str
    monitor: str
    best_score: float | None
    best_epoch: int
    recipe: Recipe
    reason: str
    num_epochs: int
    checkpoint_epoch: int | None = None
    num_skipped_steps: int = 0
    folder: Path | None = None
    predictions_path: Path | None = None
    model_path: Path | None = None
    signal: int | None = None
    notes: tuple[Note, ...] = field(default=())

    @property
    def finished(self) -> bool:
        """Whether nothing is left to be done; False after Ctrl-C and its like."""
        return self.reason != "signal"

    @property
    def best(self) -> dict[str, Any]:
        """The line of the history with the best weights; empty where nothing was evaluated."""
        return next((line for line in self.history if line["epoch"] == self.best_epoch), {})

    def to_json(self) -> dict[str, Any]:
        """What JSON knows of it: all but the model and the history."""
        best = {name: self.best.get(name) for name in ("train", "val", "test", "loss", "val_loss")}
        return {
            "finished": self.finished,
            "reason": self.reason,
            "num_epochs": self.num_epochs,
            "metric": self.metric,
            "monitor": self.monitor,
            "best_epoch": self.best_epoch,
            "best_score": self.best_score,
            "best": best,
            "recipe": {"name": self.recipe.name, "rungs": [rung.name for rung in self.recipe.rungs]},
            "num_skipped_steps": self.num_skipped_steps,
            "folder": None if self.folder is None else str(self.folder),
            "model": None if self.model_path is None else str(self.model_path),
            "predictions": None if self.predictions_path is None else str(self.predictions_path),
            "resumes_from_epoch": self.checkpoint_epoch,
            "notes": [note["en"] for note in self.notes],
        }

    def __str__(self) -> str:
        ends = {
            "epochs": "all epochs are done",
            "patience": "no gain for as long as patience allows",
            "signal": "it was asked to stop",
        }
        rungs = ", ".join(rung.name for rung in self.recipe.rungs) or "as PyG runs it"
        lines = [
            f"Trained {self.num_epochs:,} epochs ({ends[self.reason]}) with {self.recipe.name}: {rungs}."
        ]
        best = self.best
        if best:
            figures = [
                f"{name} {best[name]:.2f} %"
                for name in ("train", "val", "test")
                if best.get(name) is not None and best[name] == best[name]
            ]
            lines.append(
                f"Best by {self.monitor} at epoch {self.best_epoch:,}: {self.metric} {', '.join(figures)}."
            )
        if self.num_skipped_steps:
            lines.append(
                f"The GradScaler left out {self.num_skipped_steps:,} steps whose gradients were not finite."
            )
        if self.model_path is not None:
            lines.append(f"Weights: {self.model_path}")
        if self.predictions_path is not None:
            lines.append(f"Predictions: {self.predictions_path}")
        if not self.finished and self.folder is not None:
            lines.append(
                f"It goes on from epoch {self.checkpoint_epoch or 0:,} with resume=True (--resume) in {self.folder}."
            )
        lines += [f"Note: {note['en']}" for note in self.notes]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return (
            f"Trained({self.recipe.name!r}, {self.num_epochs} epochs, best {self.monitor} {self.best_score} at epoch "
            f"{self.best_epoch}, folder={str(self.folder) if self.folder else None!r})"
        )
