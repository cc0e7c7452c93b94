"""A Task: the graph, the model, the loss and the optimiser: what is trained."""

from __future__ import annotations

import copy
import inspect
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fasthop.errors import InvalidConfig
from fasthop.graph.graph import Graph
from fasthop.graph.note import Note
from fasthop.train.arguments import ForwardCall
from fasthop.train.metric import ACCURACY, Metric
from fasthop.train.presented import present

Loss = Callable[[Tensor, Tensor], Tensor]

OPTIMIZERS: dict[str, type[torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "sgd": torch.optim.SGD,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimizerConfig:
    """An optimiser by name with its learning rate and weight decay, torch's defaults otherwise."""

    name: str = "adam"
    lr: float = 0.01
    weight_decay: float = 5e-4

    def __post_init__(self) -> None:
        if self.name not in OPTIMIZERS:
            raise InvalidConfig(
                f"There is no optimiser named {self.name!r}; there are {', '.join(OPTIMIZERS)}."
            )

    def build(self, parameters: Iterable[Tensor]) -> torch.optim.Optimizer:
        """The optimiser over these parameters."""
        return OPTIMIZERS[self.name](parameters, lr=self.lr, weight_decay=self.weight_decay)  # type: ignore[call-arg]


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is trained: node classification on `graph` by what `make_model()` returns.

    make_model takes no argument and returns a fresh `nn.Module` whose `forward` takes `x` and
    `edge_index`, and `edge_weight` if it wants the graph's weights; what else, `call` says. Its parameters
    come from torch's generator, so that `seed_everything(seed)` before it decides them.
    loss takes the logits `[n, C]` of the rows that are trained on and their labels, `[n]`, or `[n, C]` where the graph
    is multi-label. metric: what the model is judged by. notes: what is to be said of the task.
    """

    graph: Graph
    make_model: Callable[[], torch.nn.Module]
    loss: Loss = F.cross_entropy
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    metric: Metric = ACCURACY
    call: ForwardCall = field(default_factory=ForwardCall)
    notes: tuple[Note, ...] = ()

    def build_model(self, seed: int) -> torch.nn.Module:
        """A fresh model in train mode with the parameters of `seed`; its forward takes (x, edge_index) and edge_weight where
        it wants that, and what else it asks for comes from the graph."""
        seed_everything(seed)
        model = self.make_model()
        if not isinstance(model, torch.nn.Module):
            raise InvalidConfig(
                f"The callable that makes the model returned {type(model).__name__}; it returns an nn.Module."
            )
        return present(model, self.call, self.graph).train()


def fresh_copies(module: torch.nn.Module) -> Callable[[], torch.nn.Module]:
    """A `make_model` for a module that exists: copies of it, their parameters drawn anew.

    Parameters of modules without `reset_parameters` keep the values they had in `module`.
    The module itself is left as it is.
    """

    def make() -> torch.nn.Module:
        model = copy.deepcopy(module)
        for part in model.modules():
            reset = getattr(part, "reset_parameters", None)
            if callable(reset):
                reset()
        return model

    return make


def takes_edge_weight(model: torch.nn.Module) -> bool:
    """Whether the model's `forward` has a parameter named `edge_weight`."""
    return "edge_weight" in inspect.signature(model.forward).parameters


def seed_everything(seed: int) -> None:
    """Seeds Python's, NumPy's and torch's generators (every device) with `seed`."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
