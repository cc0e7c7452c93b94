"""TrainConfig: how long a training goes on, and what happens on the way."""

from __future__ import annotations

from dataclasses import dataclass

from fasthop.errors import InvalidConfig

SCHEDULES = ("none", "cosine", "step", "plateau")
MONITORS = ("val", "val_loss", "loss")


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainConfig:
    """The settings of the long loop; those of model, loss and optimiser are the Task's.

    epochs: at most so many. patience: evaluations without a gain of more than `min_delta` after which it stops; None: never.
    monitor: what decides which weights are best: "val" (the metric on the validation nodes, higher is better), "val_loss" or
        "loss" (of training), lower is better.
    schedule: of the learning rate, by epochs: "none", "cosine" (to 0 at the last epoch; Loshchilov and Hutter 2017), "step"
        (times `gamma` every `step_epochs`), "plateau" (times `gamma` after `plateau_patience` evaluations without a gain).
    warmup_epochs: the rate rises in equal steps to its full value over so many epochs first.
    clip_grad_norm: the largest norm of all gradients together, or None.
    evaluate_every: epochs between two evaluations; the last epoch is always evaluated.
    checkpoint_every: epochs between two checkpoints; None: when `checkpoint_s` seconds have passed since the last.
    keep: how many checkpoints are kept. tensorboard: whether TensorBoard's files are written too.
    max_skipped_in_a_row: steps that a GradScaler may leave out one after another before training is called diverged.
    """

    epochs: int = 200
    patience: int | None = None
    min_delta: float = 0.0
    monitor: str = "val"
    schedule: str = "none"
    warmup_epochs: int = 0
    step_epochs: int = 30
    gamma: float = 0.1
    plateau_patience: int = 10
    clip_grad_norm: float | None = None
    evaluate_every: int = 1
    checkpoint_every: int | None = None
    checkpoint_s: float = 20.0
    keep: int = 2
    tensorboard: bool = False
    max_skipped_in_a_row: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (
            ("epochs", 1),
            ("warmup_epochs", 0),
            ("step_epochs", 1),
            ("plateau_patience", 0),
            ("evaluate_every", 1),
            ("keep", 1),
            ("max_skipped_in_a_row", 1),
            ("seed", 0),
        ):
            self._check_int(name, least)
        for name in ("patience", "checkpoint_every"):
            if getattr(self, name) is not None:
                self._check_int(name, 1)
        for name in ("min_delta", "gamma", "checkpoint_s"):
            self._check_number(name)
        if self.clip_grad_norm is not None:
            self._check_number("clip_grad_norm")
            if self.clip_grad_norm == 0:
                raise InvalidConfig("clip_grad_norm is 0, which leaves no gradient; give a number above 0.")
        if not 0 < self.gamma < 1:
            raise InvalidConfig(
                f"gamma is {self.gamma}; the learning rate falls by a factor between 0 and 1."
            )
        for name, known in (("schedule", SCHEDULES), ("monitor", MONITORS)):
            if getattr(self, name) not in known:
                raise InvalidConfig(f"{name} is {getattr(self, name)!r}; it is one of {', '.join(known)}.")
        if self.warmup_epochs >= self.epochs:
            raise InvalidConfig(
                f"warmup_epochs is {self.warmup_epochs}, and there are {self.epochs} epochs; warm up over fewer."
            )

    @property
    def changes_lr(self) -> bool:
        """Whether the learning rate is another one in some epoch."""
        return self.schedule != "none" or self.warmup_epochs > 0

    @property
    def higher_is_better(self) -> bool:
        """Of what is monitored."""
        return self.monitor == "val"

    def _check_int(self, name: str, least: int) -> None:
        value = getattr(self, name)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 2**31:
            raise InvalidConfig(f"{name} is {value!r}; it is a whole number from {least:,} to {2**31 - 1:,}.")

    def _check_number(self, name: str) -> None:
        value = getattr(self, name)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= value < float("inf"):
            raise InvalidConfig(f"{name} is {value!r}; it is a number of at least 0.")
