"""A random graph with all that goes wrong, fast models of it, and the judge's verdict on them."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fasthop.exactness import Exactness
from fasthop.rewrites.exact.build import Built, build_fast_model
from fasthop.rewrites.exact.options import ExactOptions
from fasthop.rewrites.structure import copy_sharing
from fasthop.train.mode import evaluating
from fasthop.verify.budget import Cost
from fasthop.verify.judge import Judge
from fasthop.verify.subgraph import Subgraph
from fasthop.verify.subject import Maker, Subject
from fasthop.verify.verdict import Verdict

NUM_NODES, NUM_FEATURES, NUM_CLASSES = 60, 12, 4
ALL = ExactOptions.all().names


@dataclass(frozen=True, kw_only=True)
class Data:
    """Directed, with self-loops, parallel edges and nodes without edges; few training nodes and few non-zeros in x."""

    x: Tensor
    edge_index: Tensor
    edge_weight: Tensor | None
    train_mask: Tensor

    @property
    def call(self) -> tuple[Tensor, ...]:
        """What the model is called with."""
        return (
            (self.x, self.edge_index)
            if self.edge_weight is None
            else (self.x, self.edge_index, self.edge_weight)
        )

    def to(self, dtype: torch.dtype) -> Data:
        """The same in another dtype, in tensors of its own."""
        weight = None if self.edge_weight is None else self.edge_weight.clone().to(dtype)
        return replace(self, x=self.x.clone().to(dtype), edge_weight=weight)


def data(*, weighted: bool = False, seed: int = 0) -> Data:
    generator = torch.Generator().manual_seed(seed)
    edge_index = torch.randint(0, NUM_NODES - 3, (2, 150), generator=generator)
    edge_index[:, 5] = edge_index[:, 8] = edge_index[:, 6]
    edge_index[1, 7] = edge_index[0, 7]
    edge_index[:, 9] = edge_index[:, 7]
    train_mask = torch.zeros(NUM_NODES, dtype=torch.bool)
    # A self-loop's node, one of parallel edges, an isolated one, and another.
    train_mask[[int(edge_index[1, 7]), int(edge_index[1, 6]), NUM_NODES - 1, 20]] = True
    shape = (NUM_NODES, NUM_FEATURES)
    x = torch.randn(shape, generator=generator) * (torch.rand(shape, generator=generator) < 0.12)
    weight = torch.rand(150, generator=generator) + 0.1
    return Data(
        x=x.double(),
        edge_index=edge_index,
        edge_weight=weight.double() if weighted else None,
        train_mask=train_mask,
    )


def build(model: torch.nn.Module, given: Data, *names: str) -> Built:
    """The fast model with these rungs; all of them where none is named."""
    return build_fast_model(
        model,
        x=given.x,
        edge_index=given.edge_index,
        edge_weight=given.edge_weight,
        train_mask=given.train_mask,
        options=ExactOptions.of(*(names or ALL)),
    )


def of_training_nodes(out: Any, given: Data, built: Built) -> Any:
    """The rows that a loss reads."""
    return out if not built.order.is_whole else out[given.train_mask]


def reference(model: torch.nn.Module, given: Data) -> Maker:
    """PyG as written, on a copy."""

    def make(dtype: torch.dtype, part: Subgraph | None) -> Subject:
        assert part is None
        own, mine = copy.deepcopy(copy_sharing(model)).to(dtype), given.to(dtype)
        return Subject.of(
            own,
            lambda: first(own(*mine.call))[mine.train_mask],
            predict=lambda: predict(own, mine),
        )

    return make


def candidate(model: torch.nn.Module, given: Data, *names: str) -> Maker:
    """A fast model of a copy."""

    def make(dtype: torch.dtype, part: Subgraph | None) -> Subject:
        assert part is None
        own, mine = copy.deepcopy(copy_sharing(model)).to(dtype), given.to(dtype)
        built = build(own, mine, *names)
        return Subject.of(
            own,
            lambda: of_training_nodes(first(built.model(*mine.call)), mine, built),
            predict=lambda: predict(built.model, mine),
        )

    return make


def first(out: Any) -> Tensor:
    """Every tensor of an output, side by side."""
    if isinstance(out, Tensor):
        return out
    values = out.values() if isinstance(out, dict) else out
    return torch.cat([first(value) for value in values], dim=-1)


def predict(model: torch.nn.Module, given: Data) -> Tensor:
    """All rows in eval mode."""
    with evaluating(model), torch.no_grad():
        return first(model(*given.call))


def judge(model: torch.nn.Module, given: Data, *, num_steps: int = 2) -> Judge:
    """In float64, over several steps; that a step fits the budget need not be measured."""
    cost = Cost(step_s=1e-3, peak_bytes=1)
    return Judge(reference(model, given), dtype=torch.float64, num_steps=num_steps, cost=cost)


def verdict(model: torch.nn.Module, given: Data, maker: Maker | None = None, *names: str) -> Verdict:
    """The judge's on a fast model with these rungs, or on `maker`."""
    maker = maker or candidate(model, given, *names)
    return judge(model, given).check("candidate", maker, exactness=Exactness.REASSOCIATED)


def randomise(model: torch.nn.Module) -> torch.nn.Module:
    """In float64, its biases random: PyG starts them at 0, where a lost one would not be seen."""
    with torch.no_grad():
        for name, parameter in model.double().named_parameters():
            if name.endswith("bias") and not torch.nn.parameter.is_lazy(parameter):
                parameter.normal_()
    return model
