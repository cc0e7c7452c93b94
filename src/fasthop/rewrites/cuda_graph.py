"""The rung `cuda_graph`: the whole step of a full batch recorded once and started as one."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch

from fasthop.exactness import Exactness
from fasthop.graph.note import Note, note
from fasthop.rewrites.base import Inapplicable, Rung, Words
from fasthop.train.batching import FullBatch
from fasthop.train.captured import CapturedStep, CaptureFailed, static_batch
from fasthop.train.setup import Setup


@dataclass(frozen=True, kw_only=True)
class CudaGraph(Rung):
    """Forward, loss, backward and optimiser in one CUDA graph.

    REASSOCIATED and not BITWISE: Adam then corrects its bias on the device, in float32 and not in Python's doubles.
    It comes last: what is recorded is what the other rungs made.
    """

    name = "cuda_graph"
    exactness = Exactness.REASSOCIATED
    needs = (note("an NVIDIA GPU", "NVIDIA GPU"),)
    words = {  # noqa: RUF012
        "en": Words(
            title="CUDA graph",
            does="The kernels of forward, loss, backward and optimiser are recorded once; each step then starts them as one.",
            why="A small graph's kernels take a few microseconds each, and starting them from Python takes longer than running them.",
            costs="The graph keeps its memory. Shapes, the graph and the learning rate stay as they were recorded; an operation "
            "that waits for the device cannot be recorded.",
        ),
        "zh": Words(
            title="CUDA graph 整步录制",
            does="前向、损失、反向与优化器的所有内核只录制一次，之后每一步作为整体启动。",
            why="小图上每个内核只运行几微秒，而从 Python 启动它们比运行还久。",
            costs="录制的图会一直占用其显存；形状、图结构和学习率保持录制时的样子；需要等待设备的操作无法录制。",
        ),
    }

    def missing(self, device: torch.device) -> Note | None:
        if device.type == "cuda" and torch.cuda.is_available():
            return None
        return note(
            f"CUDA graphs need an NVIDIA GPU, and this runs on {device.type}.",
            f"CUDA graph 需要 NVIDIA GPU，而当前运行在 {device.type} 上。",
        )

    def check(self, setup: Setup) -> Note | None:
        if not isinstance(setup.batches, FullBatch):
            return note(
                "It records one step of fixed shapes, and every sampled batch has its own.",
                "它只能录制形状固定的一步，而每个采样批次的形状都不同。",
            )
        if setup.make_step is not None:
            return note("Another rung has replaced the step already.", "训练步已被另一项优化替换。")
        if setup.precision.scale_gradients:
            return note(
                "A GradScaler leaves out steps whose gradients are not finite, and a recording runs every step alike.",
                "GradScaler 会跳过梯度非有限的步，而录制好的图每一步都照样执行。",
            )
        if setup.compiled is not None:
            return note(
                "The setup is compiled; the mode reduce-overhead of torch.compile records graphs of its own.",
                "该配置已经编译；torch.compile 的 reduce-overhead 模式会自行录制 CUDA graph。",
            )
        return None

    def apply(self, setup: Setup) -> Setup:
        assert isinstance(setup.batches, FullBatch)
        batch = static_batch(setup.batches.batch)
        captured = dataclasses.replace(setup, batches=FullBatch(batch), make_step=captured_step)
        try:
            # Tried here, so that a model that cannot be recorded is refused before anything is timed.
            captured_step(captured).capture(batch)
        except CaptureFailed as failed:
            raise Inapplicable(
                note(
                    f"The step cannot be recorded as a CUDA graph ({failed}).",
                    f"该训练步无法录制为 CUDA graph（{failed}）。",
                )
            ) from failed
        return captured


def captured_step(setup: Setup) -> CapturedStep:
    """A fresh step of the setup that records itself on its first call, with a fresh optimiser."""
    optimizer = setup.task.optimizer.build(setup.original.parameters())
    modules = (setup.original, setup.model)
    return CapturedStep(
        setup.forward, setup.task.loss, optimizer, setup.precision, setup.device, modules=modules
    )
