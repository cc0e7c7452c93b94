"""Precision: the dtype that autocast computes in, and whether a GradScaler guards the gradients."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch

from fasthop.errors import InvalidConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class Precision:
    """autocast_dtype: None computes as the model is; else `torch.autocast` with that dtype.

    scale_gradients: whether `torch.amp.GradScaler` scales the loss, which float16 needs: its
    smallest positive number is 6e-8 where bfloat16's is 9e-41.
    """

    autocast_dtype: torch.dtype | None = None
    scale_gradients: bool = False

    def __post_init__(self) -> None:
        if self.autocast_dtype not in (None, torch.bfloat16, torch.float16):
            raise InvalidConfig(f"autocast_dtype is {self.autocast_dtype}; it is bfloat16, float16 or None.")

    @classmethod
    def mixed(cls, device: torch.device) -> Precision:
        """The mixed precision that suits the device: bfloat16 on CPUs and on GPUs that have it,
        else float16 with a GradScaler."""
        if device.type == "cuda" and torch.cuda.get_device_capability(device) < (8, 0):
            return cls(autocast_dtype=torch.float16, scale_gradients=True)
        return cls(autocast_dtype=torch.bfloat16)

    def autocast(self, device: torch.device) -> AbstractContextManager[object]:
        """The context in which forward and loss run."""
        if self.autocast_dtype is None:
            return nullcontext()
        return torch.autocast(device.type, dtype=self.autocast_dtype)

    def scaler(self, device: torch.device) -> torch.amp.GradScaler | None:
        """A fresh GradScaler, or None where gradients are not scaled."""
        return torch.amp.GradScaler(device.type) if self.scale_gradients else None
