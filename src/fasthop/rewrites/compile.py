"""The rung `compile`: torch.compile, section 4 of the tutorial."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch

from fasthop.exactness import Exactness
from fasthop.graph.note import Note, note
from fasthop.rewrites.base import Rung, Words
from fasthop.train.batching import FullBatch
from fasthop.train.compiled import CompiledForward, missing_compiler
from fasthop.train.setup import Setup


@dataclass(frozen=True, kw_only=True)
class Compile(Rung):
    """torch.compile over the model's forward (and so its backward).

    mode: "default", "reduce-overhead" or "max-autotune". Sampled batches, whose sizes differ from
    batch to batch, are compiled once with dynamic shapes.
    """

    name = "compile"
    exactness = Exactness.REASSOCIATED
    needs = (note("a C++ compiler (CPU) or Triton (GPU)", "C++ 编译器（CPU）或 Triton（GPU）"),)
    words = {  # noqa: RUF012
        "en": Words(
            title="torch.compile",
            does="The model's forward and backward are traced and turned into generated kernels, "
            "neighbouring elementwise operations fused into one.",
            why="Fewer passes over memory and fewer calls of the framework.",
            costs="Half a minute of compilation or more before the first epoch; operators with shapes that depend on data, "
            "such as the removal of self-loops in a GCN layer, break the graph into pieces.",
        ),
        "zh": Words(
            title="torch.compile 编译",
            does="跟踪模型的前向与反向计算，生成专用内核，并把相邻的逐元素运算融合成一个。",
            why="减少对内存的反复读写，也减少框架调用的次数。",
            costs="第一个 epoch 之前要花半分钟甚至更久编译；形状取决于数据的算子（例如 GCN 层里去除自环的一步）会把计算图切断。",
        ),
    }

    mode: str = "default"

    def missing(self, device: torch.device) -> Note | None:
        lacking = missing_compiler(device)
        if lacking is None:
            return None
        return note(f"torch.compile cannot run here: {lacking}.", f"torch.compile 无法在此运行：{lacking}。")

    def check(self, setup: Setup) -> Note | None:
        if setup.compiled is not None:
            return note("The setup is compiled already.", "该配置已经编译过。")
        return None

    def apply(self, setup: Setup) -> Setup:
        dynamic = None if isinstance(setup.batches, FullBatch) else True
        compiled = CompiledForward(setup.model, self.mode, dynamic=dynamic)
        notes = setup.notes
        if self.mode == "reduce-overhead" and setup.device.type == "cpu":
            notes += (
                note(
                    "The mode reduce-overhead records CUDA graphs; on a CPU it does what default does.",
                    "reduce-overhead 模式依靠录制 CUDA graph；在 CPU 上它与 default 相同。",
                ),
            )
        return dataclasses.replace(setup, compiled=compiled, notes=notes)
