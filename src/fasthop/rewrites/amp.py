"""The rung `amp`: automatic mixed precision, section 3 of the tutorial."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch

from fasthop.exactness import Exactness
from fasthop.graph.note import Note, note
from fasthop.rewrites.base import Rung, Words
from fasthop.train.precision import Precision
from fasthop.train.setup import Setup

DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True, kw_only=True)
class Amp(Rung):
    """autocast: bfloat16 on CPUs and on GPUs that have it, else float16 with a GradScaler.

    dtype: "auto", "bfloat16" or "float16" (always with a GradScaler).
    """

    name = "amp"
    exactness = Exactness.STATISTICAL
    words = {  # noqa: RUF012
        "en": Words(
            title="automatic mixed precision",
            does="Matrix products run in a 16-bit format under torch.autocast; parameters, their gradients and "
            "the optimiser stay in float32.",
            why="Half the bytes to move, and matrix units that compute 16-bit numbers several times as fast.",
            costs="Casts on every call, which small layers do not earn back; aggregation does not get "
            "faster where it is bound by indexing. Numbers are rounded to 8 (bfloat16) or 11 (float16) bits.",
        ),
        "zh": Words(
            title="自动混合精度",
            does="在 torch.autocast 下，矩阵乘法用 16 位格式计算；参数、梯度和优化器仍保持 float32。",
            why="需要搬运的字节减半，且硬件的 16 位矩阵单元要快好几倍。",
            costs="每次调用都要做类型转换，层太小时得不偿失；若聚合受限于索引访问，它不会变快。数值只保留 8 位（bfloat16）"
            "或 11 位（float16）有效位。",
        ),
    }

    dtype: str = "auto"

    def check(self, setup: Setup) -> Note | None:
        if setup.precision.autocast_dtype is not None:
            return note("The setup is in mixed precision already.", "该配置已经使用混合精度。")
        first = next(iter(setup.original.parameters()), None)
        if first is not None and first.dtype != torch.float32:
            return note(
                f"The model's parameters are {first.dtype}, and autocast only speeds up float32.",
                f"模型参数是 {first.dtype}，而 autocast 只对 float32 有效。",
            )
        return None

    def apply(self, setup: Setup) -> Setup:
        if self.dtype == "auto":
            precision = Precision.mixed(setup.device)
        else:
            precision = Precision(autocast_dtype=DTYPES[self.dtype], scale_gradients=self.dtype == "float16")
        return dataclasses.replace(setup, precision=precision)
