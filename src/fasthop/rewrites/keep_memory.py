"""The rung `keep_memory`: the process keeps the memory it frees, so that no step waits for pages to be cleared."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fasthop.exactness import Exactness
from fasthop.graph.note import Note, note
from fasthop.machine.allocator import can_keep_freed_memory, keep_freed_memory
from fasthop.rewrites.base import Inapplicable, Rung, Words
from fasthop.train.setup import Setup


@dataclass(frozen=True, kw_only=True)
class KeepMemory(Rung):
    """Tells the C library's allocator to give nothing back. It holds for the whole process, and computes the same bits.

    GraphSAGE 128 wide on a million edges: 317,000 pages an epoch that the system clears, about 0.9 us each; 2.1 times as fast
    with them kept (benchmarks/results/predictions.txt).
    """

    name = "keep_memory"
    exactness = Exactness.BITWISE
    words = {  # noqa: RUF012
        "en": Words(
            title="Freed memory kept",
            does="The C library keeps the memory that a step frees for the next one, and gives none back to the system.",
            why="A tensor larger than a few megabytes otherwise lies in new pages in every step, and the system clears each of them first.",
            costs="The process keeps its peak of memory until it ends, and some more, since a freed block does not always fit the next tensor. "
            "Small tensors were kept before.",
        ),
        "zh": Words(
            title="保留已释放的内存",
            does="C 库把一步中释放的内存留给下一步使用，不归还给系统。",
            why="否则，大于几兆字节的张量每一步都落在新的内存页上，而系统会先把每一页清零。",
            costs="进程会一直占用其峰值内存直到结束，并且还会多一些，因为释放的块不一定正好容得下下一个张量。小张量的内存本来就会保留。",
        ),
    }

    def missing(self, device: torch.device) -> Note | None:
        if device.type != "cpu":
            return note(
                f"PyTorch keeps freed memory of {device.type} by itself.",
                f"PyTorch 本来就会保留 {device.type} 上已释放的内存。",
            )
        if not can_keep_freed_memory():
            return note(
                "The C library here has no mallopt that keeps memory; glibc has.",
                "此处的 C 库没有可以保留内存的 mallopt；glibc 有。",
            )
        return None

    def apply(self, setup: Setup) -> Setup:
        if not keep_freed_memory():
            raise Inapplicable(
                note(
                    "The C library refused to keep freed memory (mallopt).",
                    "C 库拒绝保留已释放的内存（mallopt）。",
                )
            )
        return setup
