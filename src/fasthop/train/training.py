"""Training: the long loop over a setup and its step: schedule, early stopping, journal, checkpoints, and what ends it."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fasthop.train.batching import Batch, SampledBatches
from fasthop.train.best import Best
from fasthop.train.checkpoint import Checkpoint, CheckpointFolder, DamagedCheckpoint
from fasthop.train.clipped import clipped_step
from fasthop.train.divergence import Diverged
from fasthop.train.evaluate import accuracies_of, predict
from fasthop.train.outcome import Outcome
from fasthop.train.progress import SilentTraining, TrainProgress
from fasthop.train.records import Records
from fasthop.train.replay import replayed
from fasthop.train.run_folder import RunFolder
from fasthop.train.schedule import Schedule
from fasthop.train.setup import Setup
from fasthop.train.state import check_fits, copied, load_model, model_tensors, put_back, taken, under
from fasthop.train.stop_flag import StopFlag
from fasthop.train.training_config import TrainConfig

# After Ctrl-C an epoch of many steps is finished where that takes no longer; else the last checkpoint is where it goes on.
GRACE_S = 5.0


class _LeftInTheMiddle(Exception):
    """A signal came in an epoch that is too long to be finished."""


class Training:
    """One training: `begin` or `go_on` first, then `run`; `close` whatever happened.

    setup: made for this alone; its step is made here, clipped where the config asks for it (a setup with a step of its own
    cannot be). infer: gives the logits [N, C] of all nodes in eval mode; None asks the user's model on the full batch.
    folder: open, or None to keep nothing. labels: what JSON knows of the recipe, kept with each checkpoint.
    flag: asks for an end between two steps.
    """

    def __init__(
        self,
        setup: Setup,
        config: TrainConfig,
        *,
        folder: RunFolder | None = None,
        infer: Callable[[], Tensor] | None = None,
        labels: dict[str, Any] | None = None,
        flag: StopFlag | None = None,
        progress: TrainProgress | None = None,
    ) -> None:
        graph = setup.task.graph
        if config.monitor.startswith("val") and not bool(graph.val_mask.any()):
            config = replace(config, monitor="loss")
        self.setup, self.config, self.folder = setup, config, folder
        self.infer = infer or (lambda: predict(setup))
        self.labels = labels or {}
        self.flag = StopFlag() if flag is None else flag
        self.progress = progress or SilentTraining()
        self.best = Best(config)
        self.epoch = 0
        self.records = Records(folder, tensorboard=config.tensorboard)
        self._monitored: dict[int, float | None] = {}
        self.checkpoints: CheckpointFolder | None = None
        self._last_checkpoint = (-1, 0.0)
        self._skipped_in_a_row = 0
        if folder is not None:
            self.checkpoints = CheckpointFolder(folder.checkpoints_path, keep=config.keep)
        self._restart()

    def begin(self, header: dict[str, Any] | None = None) -> None:
        """From the first epoch, with an empty journal and a checkpoint of the start. Raises CannotWrite, before any work, where
        the folder's disk has no room for two checkpoints."""
        self.setup.restart(self.config.seed)
        self._restart()
        if self.checkpoints is not None:
            # Weights, the best weights, and an optimiser's two moments.
            self.checkpoints.prepare(4 * _num_bytes(model_tensors(self.setup.original)) + 65536)
        self.records.begin(header or {})
        if self.checkpoints is not None:
            self._save()

    def go_on(self, checkpoint: Checkpoint) -> None:
        """From a checkpoint; what the journal has of later epochs is dropped. Raises DamagedCheckpoint where it does not fit."""
        self.setup.restart(self.config.seed)
        self._restart()
        self.check(checkpoint)
        self._take_over(checkpoint)
        self.records.go_on_after(self.epoch)
        self._last_checkpoint = (self.epoch, time.monotonic())

    def adopt(self, checkpoint: Checkpoint | None) -> None:
        """From a checkpoint of another recipe: wholly where it fits, else its weights and epochs with a fresh optimiser. None:
        from the first epoch."""
        if checkpoint is None:
            return self.begin()
        with contextlib.suppress(DamagedCheckpoint):
            return self.go_on(checkpoint)
        load_model(self.setup.original, under(checkpoint.tensors, "model."))
        self.best.load_state(checkpoint.state["best"], under(checkpoint.tensors, "best."))
        self.epoch = checkpoint.epoch
        if isinstance(self.setup.batches, SampledBatches):
            self.setup.batches.loader.set_epoch(self.epoch)
        if self.schedule is not None:
            for _ in range(self.epoch):
                self.schedule.step(None)
        self.records.go_on_after(self.epoch)
        self._save()
        return None

    def check(self, checkpoint: Checkpoint) -> None:
        """Raises DamagedCheckpoint where a checkpoint is not one of this training."""
        check_fits(self.setup, self.step, checkpoint.state, checkpoint.tensors)
        if not {"best", "schedule"} <= checkpoint.state.keys():
            raise DamagedCheckpoint("a part of its state is missing (best, schedule).")

    def run(self) -> Outcome:
        """Trains until the epochs are over, patience runs out or a signal asks for an end. Raises Diverged, with the last good
        checkpoint as it is, and CannotWrite; what a step raises passes through."""
        self.progress.start(self.config.epochs, self.epoch)
        while True:
            if self.best.is_over:
                return self._outcome("patience")
            if self.epoch >= self.config.epochs:
                return self._outcome("epochs")
            if self.flag:
                return self._outcome("signal")
            try:
                self._one_epoch()
            except _LeftInTheMiddle:
                return self._outcome("signal")

    def close(self) -> None:
        """Closes what is open; to be called more than once is fine."""
        self.records.close()

    def _one_epoch(self) -> None:
        started = time.perf_counter()
        lr = self._lr()
        loss = self._steps(self.epoch + 1)
        self.epoch += 1
        epoch_s = time.perf_counter() - started
        line: dict[str, Any] = {"event": "epoch", "epoch": self.epoch, "loss": loss, "lr": lr}
        is_last = self.epoch == self.config.epochs
        score = None
        if self.epoch % self.config.evaluate_every == 0 or is_last:
            line |= self._scores()
            score = loss if self.config.monitor == "loss" else line[self.config.monitor]
            self.best.update(score, self.epoch, self.setup.original)
        if self.setup.precision.scale_gradients:
            line["num_skipped_steps"] = self.step.num_skipped
        line["epoch_s"] = round(epoch_s, 6)
        self._monitored[self.epoch] = score
        if self.schedule is not None:
            self.schedule.step(score)
        self.records.epoch(line)
        self.progress.epoch(line)
        if self.checkpoints is not None and (is_last or self.flag or self.best.is_over or self._is_due()):
            self._save()

    def _steps(self, epoch: int) -> float:
        """The mean loss of the epoch's steps; those that a GradScaler left out are not in it."""
        on_cpu = self.setup.device.type == "cpu"
        losses: list[float] = []
        pending: list[Tensor] = []
        num_batches = len(self.setup.batches)
        started = time.monotonic()
        for number, batch in enumerate(self.setup.batches, 1):
            skipped = self.step.num_skipped
            loss = self.step(batch)
            if self.step.num_skipped > skipped:
                self._count_skipped(epoch, number, batch)
            elif on_cpu:
                losses.append(self._finite(float(loss), epoch, number))
            else:  # waiting for the device at every step would cost more than an epoch too many
                pending.append(loss)
            if self.flag and number < num_batches:
                left_s = (time.monotonic() - started) / number * (num_batches - number)
                if left_s > GRACE_S:
                    raise _LeftInTheMiddle
        if pending:
            for number, value in enumerate(torch.stack(pending).tolist(), 1):
                losses.append(self._finite(value, epoch, number))
        return sum(losses) / len(losses) if losses else math.nan

    def _finite(self, loss: float, epoch: int, number: int) -> float:
        self._skipped_in_a_row = 0
        if not math.isfinite(loss):
            raise self._diverged(f"the loss is {loss}", epoch, number)
        return loss

    def _count_skipped(self, epoch: int, number: int, batch: Batch) -> None:
        self._skipped_in_a_row += 1
        if self._skipped_in_a_row >= self.config.max_skipped_in_a_row:
            what = f"the GradScaler left out {self._skipped_in_a_row} steps in a row"
            raise self._diverged(what, epoch, number)

    def _diverged(self, what: str, epoch: int, number: int) -> Diverged:
        """Runs the epochs since the last checkpoint once more, with an eye on every step and module."""
        checkpoint = None
        if self.checkpoints is not None:
            checkpoint, _ = self.checkpoints.latest(self.check)

        def back() -> int:
            if checkpoint is None:
                self.setup.restart(self.config.seed)
                self._restart()
            else:
                self._take_over(checkpoint)
            return self.epoch

        return replayed(
            self.setup,
            lambda: self.step,
            back=back,
            between=self._between_epochs_again,
            what=what,
            until=(epoch, number),
            safe=checkpoint.epoch if checkpoint is not None else None,
        )

    def _between_epochs_again(self) -> None:
        """What changes the learning rate, once more, by the scores of the first time."""
        self.epoch += 1
        if self.schedule is not None:
            self.schedule.step(self._monitored.get(self.epoch))

    def _scores(self) -> dict[str, float]:
        graph, task = self.setup.task.graph, self.setup.task
        with torch.no_grad():
            out = self.infer()
            scores = accuracies_of(out, graph, task.metric)
            line = {"train": scores.train, "val": scores.val, "test": scores.test}
            if bool(graph.val_mask.any()):
                line["val_loss"] = float(task.loss(out[graph.val_mask], graph.y[graph.val_mask]))
        return line

    def _is_due(self) -> bool:
        epoch, at = self._last_checkpoint
        if self.config.checkpoint_every is not None:
            return self.epoch - epoch >= self.config.checkpoint_every
        return time.monotonic() - at >= self.config.checkpoint_s

    def _save(self) -> None:
        assert self.checkpoints is not None
        tensors = model_tensors(self.setup.original)
        for name, tensor in tensors.items():
            if tensor.requires_grad and not bool(torch.isfinite(tensor.detach()).all()):
                raise self._diverged(
                    f"the parameter {name} is not finite", self.epoch, len(self.setup.batches)
                )
        state, all_tensors = taken(self.setup, self.step, epoch=self.epoch)
        state |= {
            "best": self.best.state(),
            "schedule": None if self.schedule is None else self.schedule.state_dict(),
            "skipped_in_a_row": self._skipped_in_a_row,
            "labels": self.labels,
        }
        all_tensors |= copied(self.best.tensors, "best.")
        self.checkpoints.save(Checkpoint(epoch=self.epoch, state=state, tensors=all_tensors))
        self._last_checkpoint = (self.epoch, time.monotonic())

    def _take_over(self, checkpoint: Checkpoint) -> None:
        state = checkpoint.state
        try:
            self.best.load_state(state["best"], under(checkpoint.tensors, "best."))
            self._skipped_in_a_row = state.get("skipped_in_a_row", 0)
            put_back(self.setup, self.step, state, checkpoint.tensors)
            if self.schedule is not None and state["schedule"] is not None:
                self.schedule.load_state_dict(state["schedule"])
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            reason = " ".join(str(error).split())[:120]
            raise DamagedCheckpoint(
                f"The state of the checkpoint of epoch {checkpoint.epoch} cannot be taken over ({type(error).__name__}: {reason})."
            ) from None
        self.epoch = checkpoint.epoch

    def _restart(self) -> None:
        config, setup = self.config, self.setup
        clip = config.clip_grad_norm
        self.step = setup.step() if clip is None else clipped_step(setup, clip)
        optimizer = getattr(self.step, "optimizer", None)
        self.schedule = Schedule(optimizer, config) if config.changes_lr and optimizer is not None else None
        self.best = Best(config)
        self.epoch, self._skipped_in_a_row = 0, 0

    def _lr(self) -> float:
        optimizer = getattr(self.step, "optimizer", None)
        return self.setup.task.optimizer.lr if optimizer is None else float(optimizer.param_groups[0]["lr"])

    def _outcome(self, reason: str) -> Outcome:
        return Outcome(
            reason=reason,
            epoch=self.epoch,
            checkpoint_epoch=None if self.checkpoints is None else self._last_checkpoint[0],
            best_score=self.best.score,
            best_epoch=self.best.epoch,
            num_skipped_steps=self.step.num_skipped,
            signal=self.flag.number if reason == "signal" else None,
        )

    def use_best(self) -> None:
        """Puts the best weights into the user's model, for what is kept and handed out; the training cannot go on then."""
        self.best.put_into(self.setup.original)


def _num_bytes(tensors: dict[str, Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
