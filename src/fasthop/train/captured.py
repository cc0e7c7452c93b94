"""CapturedStep: the step of a full batch, recorded once as a CUDA graph and replayed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fasthop.errors import FasthopError, InvalidConfig
from fasthop.train.batching import Batch
from fasthop.train.compiled import first_line
from fasthop.train.precision import Precision
from fasthop.train.step import Step
from fasthop.train.task import Loss

# Steps before the recording, on the stream that records: libraries make their workspaces, kernels are compiled and chosen.
NUM_WARM_UP_STEPS = 3


class CaptureFailed(FasthopError):
    """A step cannot be recorded as a CUDA graph; the message is the first line of what torch said."""


class CapturedStep(Step):
    """A `Step` whose every kernel is recorded on the first call with a batch and started as one from then on.

    modules: all whose parameters and buffers a step changes; the warm-up's changes are taken back, the
    generator's included, so that the first replay is the first step. optimizer: fresh; Adam and AdamW are made
    `capturable`, which keeps their step count on the device.
    What the host decides is decided once, while recording: learning rates, train or eval mode, the batch's tensors, which a
    replay reads where they lie. Gradients lie in the graph's memory. The loss that comes back is a copy of its own.
    Raises InvalidConfig with a GradScaler, and CaptureFailed where an operation waits for the device or cannot be recorded.
    """

    def __init__(
        self,
        forward: Callable[[Batch], Tensor],
        loss: Loss,
        optimizer: torch.optim.Optimizer,
        precision: Precision,
        device: torch.device,
        *,
        modules: tuple[torch.nn.Module, ...],
    ) -> None:
        if precision.scale_gradients:
            raise InvalidConfig(
                "A CUDA graph runs every step alike, and a GradScaler leaves some out; take bfloat16 or no scaler."
            )
        super().__init__(forward, loss, optimizer, precision, device)
        for group in optimizer.param_groups:
            if "capturable" in group:
                group["capturable"] = True
        self._modules = modules
        self._batch: Batch | None = None
        self._graph: Any = None
        self._loss = torch.zeros(())

    def __call__(self, batch: Batch) -> Tensor:
        if batch is not self._batch:
            self.capture(batch)
        self.num_calls += 1
        self._graph.replay()
        return self._loss.clone()

    def capture(self, batch: Batch) -> None:
        """Records the step on `batch`; parameters, buffers, optimiser and generators are as before afterwards."""
        self._batch = self._graph = None
        num_calls = self.num_calls
        try:
            with self._restoring():
                self._warm_up(batch)
            # Gradients must not exist beforehand: the recorded backward pass then writes them and adds to nothing.
            self.optimizer.zero_grad(set_to_none=True)
            with self._restoring():
                self._graph, self._loss = self._record(batch)
        except RuntimeError as error:
            raise CaptureFailed(first_line(error)) from error
        finally:
            self.num_calls = num_calls
        self._batch = batch

    def _warm_up(self, batch: Batch) -> None:
        here, side = torch.cuda.current_stream(self.device), torch.cuda.Stream(self.device)
        side.wait_stream(here)
        with torch.cuda.stream(side):
            for _ in range(NUM_WARM_UP_STEPS):
                super().__call__(batch)
            # What waits for the device is found now: a recording that fails can leave the process's generator unusable.
            with _refusing_to_wait():
                super().__call__(batch)
        here.wait_stream(side)

    def _record(self, batch: Batch) -> tuple[Any, Tensor]:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(self.device), torch.cuda.graph(graph):
            loss = super().__call__(batch)
        return graph, loss

    @contextmanager
    def _restoring(self) -> Iterator[None]:
        """Puts back what steps change; the optimiser's state, which the warm-up makes, is emptied in its place."""
        tensors = {t: t.detach().clone() for m in self._modules for t in (*m.parameters(), *m.buffers())}
        states = {id(v): v.clone() for state in self.optimizer.state.values() for v in _tensors(state)}
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):
            try:
                yield
            finally:
                with torch.no_grad():
                    for tensor, before in tensors.items():
                        tensor.copy_(before)
                    for state in self.optimizer.state.values():
                        for value in _tensors(state):
                            if id(value) in states:
                                value.copy_(states[id(value)])
                            else:  # Adam's moments and count start from 0
                                value.zero_()


def static_batch(batch: Batch) -> Batch:
    """The batch with the rows of the loss as indices: selecting by a mask waits for the device to count them."""
    if isinstance(batch.rows, Tensor) and batch.rows.dtype == torch.bool:
        return replace(batch, rows=batch.rows.nonzero().squeeze(1))
    return batch


def _tensors(state: dict[str, Any]) -> list[Tensor]:
    return [value for value in state.values() if isinstance(value, Tensor)]


@contextmanager
def _refusing_to_wait() -> Iterator[None]:
    """Makes torch raise where an operation waits for the device."""
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)
