"""Schedule: the learning rate by epochs, out of torch's own schedulers, with a state that JSON knows."""

from __future__ import annotations

import math
from typing import Any

import torch

from fasthop.train.training_config import TrainConfig


class Schedule:
    """Sets the learning rate of an optimiser's groups from epoch to epoch.

    Warm-up, cosine and step are one factor of the base rate that depends on the epoch alone (torch's LambdaLR), so that a
    resumed run has the very same rate; plateau is torch's ReduceLROnPlateau once the warm-up is over.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, config: TrainConfig) -> None:
        self.config = config
        self._plateau: torch.optim.lr_scheduler.ReduceLROnPlateau | None = None
        if config.schedule == "plateau":
            self._plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(
                optimizer,
                mode="max" if config.higher_is_better else "min",
                factor=config.gamma,
                patience=config.plateau_patience,
                threshold=config.min_delta,
                threshold_mode="abs",
            )
        self._factors = torch.optim.lr_scheduler.LambdaLR(optimizer, self.factor)
        self._num_epochs = 0

    def factor(self, epoch: int) -> float:
        """Of the base rate in the epoch after `epoch` whole ones; plateau's own is not in it."""
        config = self.config
        if epoch < config.warmup_epochs:
            return (epoch + 1) / (config.warmup_epochs + 1)
        after = epoch - config.warmup_epochs
        if config.schedule == "cosine":
            length = max(1, config.epochs - config.warmup_epochs)
            return 0.5 * (1.0 + math.cos(math.pi * min(after, length) / length))
        if config.schedule == "step":
            return config.gamma ** (after // config.step_epochs)
        return 1.0

    def step(self, score: float | None) -> None:
        """An epoch is over. score: what is monitored, or None where this epoch was not evaluated."""
        import warnings

        self._num_epochs += 1
        if self._plateau is not None and self._num_epochs > self.config.warmup_epochs:
            if score is not None and math.isfinite(score):
                self._plateau.step(score)
            return
        with warnings.catch_warnings():
            # A GradScaler that skips the first step makes torch believe that the calls are in the wrong order.
            warnings.filterwarnings("ignore", message="Detected call of `lr_scheduler.step\\(\\)` before")
            self._factors.step()

    def state_dict(self) -> dict[str, Any]:
        """What JSON knows of it; the rates themselves are in the optimiser's state."""
        tree: dict[str, Any] = {"num_epochs": self._num_epochs, "last_epoch": self._factors.last_epoch}
        tree["base_lrs"] = list(self._factors.base_lrs)
        if self._plateau is not None:
            best = self._plateau.best
            tree["plateau"] = {
                "best": best if math.isfinite(best) else None,
                "num_bad_epochs": self._plateau.num_bad_epochs,
                "cooldown_counter": self._plateau.cooldown_counter,
                "last_epoch": self._plateau.last_epoch,
            }
        return tree

    def load_state_dict(self, tree: dict[str, Any]) -> None:
        """Takes over what `state_dict` gave, after the optimiser has taken over its own."""
        self._num_epochs = tree["num_epochs"]
        self._factors.last_epoch = tree["last_epoch"]
        self._factors.base_lrs = list(tree["base_lrs"])
        if self._plateau is not None and "plateau" in tree:
            kept = dict(tree["plateau"])
            if kept["best"] is None:
                kept["best"] = -math.inf if self.config.higher_is_better else math.inf
            for name, value in kept.items():
                setattr(self._plateau, name, value)
