"""Best: which weights were the best so far, and whether waiting for better ones is over."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from fasthop.train.state import copied, load_model, model_tensors
from fasthop.train.training_config import TrainConfig


class Best:
    """Early stopping (Prechelt 1998) with the weights of the best evaluation kept on the CPU.

    score: the best figure of what is monitored, None before the first evaluation. epoch: where it was reached.
    num_without_gain: evaluations since then. A score counts as a gain where it is better by more than `min_delta`.
    """

    def __init__(self, config: TrainConfig) -> None:
        self.config = config
        self.score: float | None = None
        self.epoch = 0
        self.num_without_gain = 0
        self.tensors: dict[str, Tensor] = {}

    def update(self, score: float, epoch: int, model: torch.nn.Module) -> None:
        """An evaluation; a score that is not a number is none."""
        if math.isfinite(score) and (self.score is None or self._gain(score) > self.config.min_delta):
            self.score, self.epoch, self.num_without_gain = score, epoch, 0
            self.tensors = copied(model_tensors(model))
        else:
            self.num_without_gain += 1

    @property
    def is_over(self) -> bool:
        """Whether patience has run out."""
        patience = self.config.patience
        return patience is not None and self.num_without_gain >= patience

    def put_into(self, model: torch.nn.Module) -> None:
        """Puts the best weights into the model; leaves it as it is where there were none."""
        load_model(model, self.tensors)

    def state(self) -> dict[str, Any]:
        """What JSON knows of it."""
        return {"score": self.score, "epoch": self.epoch, "num_without_gain": self.num_without_gain}

    def load_state(self, state: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Takes over what `state` gave, with the best weights."""
        self.score, self.epoch = state["score"], state["epoch"]
        self.num_without_gain = state["num_without_gain"]
        self.tensors = tensors

    def _gain(self, score: float) -> float:
        assert self.score is not None
        return score - self.score if self.config.higher_is_better else self.score - score
