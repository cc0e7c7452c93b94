"""Models that behave badly in a worker; they travel there by value or by import."""

from __future__ import annotations

import os
import signal
import time

import torch
from torch_geometric.nn import SAGEConv


class Plain(torch.nn.Module):
    """A GraphSAGE layer that behaves."""

    def __init__(self):
        super().__init__()
        self.conv = SAGEConv(8, 3)

    def forward(self, x, edge_index):
        return self.conv(x, edge_index)


class AfterEpochs(Plain):
    """Behaves for a few training passes, and then does `act`."""

    def __init__(self, num_passes=3):
        super().__init__()
        self.left = num_passes

    def act(self):
        raise NotImplementedError

    def forward(self, x, edge_index):
        if self.training and torch.is_grad_enabled():
            self.left -= 1
            if self.left < 0:
                self.act()
        return super().forward(x, edge_index)


class Dies(AfterEpochs):
    def act(self):
        os._exit(7)


class IsKilled(AfterEpochs):
    def act(self):
        os.kill(os.getpid(), signal.SIGKILL)


class Hangs(AfterEpochs):
    def act(self):
        time.sleep(600)


class Raises(AfterEpochs):
    def act(self):
        raise ValueError("the third layer is on strike\nand a second line")


class RunsOut(AfterEpochs):
    def act(self):
        torch.empty(2**50, dtype=torch.uint8)


class Prints(Plain):
    """Writes on both streams, by Python and by the file descriptor."""

    def forward(self, x, edge_index):
        print("hello from the model")
        os.write(1, b"and from below\n" * 100)
        return super().forward(x, edge_index)
