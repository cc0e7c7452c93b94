"""The operators of one training step, recorded on a small rehearsal graph, with the shapes of the true one."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from fasthop.measure.operators import TRANSFORM, kind_of
from fasthop.train.batching import Batch
from fasthop.train.setup import Setup

# Their operand tells dtype and device only.
TEMPLATES = tuple(
    f"aten::{name}"
    for name in (
        "new_zeros",
        "new_ones",
        "new_full",
        "new_empty",
        "zeros_like",
        "ones_like",
        "full_like",
        "empty_like",
    )
)
FORWARD, LOSS, BACKWARD, OPTIMIZER = "forward", "loss", "backward", "optimizer"


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """A tensor as an operator met it: its size, that with broadcast dimensions as 1, its dtype, and which memory it is.

    by_column: whether it is part of a sparse matrix that is stored by its columns.
    """

    size: tuple[int, ...]
    stored: tuple[int, ...]
    dtype: torch.dtype
    memory: int
    by_column: bool = False

    @property
    def numel(self) -> int:
        """Numbers that a reader sees."""
        return math.prod(self.size)

    @property
    def num_bytes(self) -> int:
        """Bytes that lie in memory."""
        return math.prod(self.stored) * self.dtype.itemsize

    def scaled(self, sizes: Mapping[int, int]) -> Shape:
        """With each dimension that is a key of `sizes` as the value there."""
        return Shape(
            size=tuple(sizes.get(dim, dim) for dim in self.size),
            stored=tuple(sizes.get(dim, dim) for dim in self.stored),
            dtype=self.dtype,
            memory=self.memory,
            by_column=self.by_column,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One operator: its name ("aten::mm"), in which phase of the step it ran, what it read and what it wrote."""

    name: str
    phase: str
    reads: tuple[Shape, ...]
    writes: tuple[Shape, ...]
    is_view: bool

    @property
    def is_product(self) -> bool:
        """Whether it is a matrix product."""
        return kind_of(self.name) == TRANSFORM

    @property
    def num_bytes(self) -> int:
        """Each operand read once, each result written once."""
        return 0 if self.is_view else sum(shape.num_bytes for shape in (*self.reads, *self.writes))

    @property
    def flops(self) -> float:
        """Of a matrix product 2 n m k; of anything else one a number written, or read where that is more."""
        if self.is_view:
            return 0.0
        if self.is_product and self.writes:
            first = max((shape for shape in self.reads if len(shape.size) > 1), key=_width, default=None)
            return 2.0 * self.writes[0].numel * self._inner() if first is not None else 0.0
        return float(max((shape.numel for shape in (*self.reads, *self.writes)), default=0))

    @property
    def product_sizes(self) -> tuple[int, int, int]:
        """(rows, terms of a sum, columns) of a matrix product; of a batch of them, of all their rows."""
        columns = max(self.writes[0].size[-1], 1) if self.writes and self.writes[0].size else 1
        return max(self.writes[0].numel // columns, 1) if self.writes else 1, max(self._inner(), 1), columns

    def _inner(self) -> int:
        """The dimension that a product sums over: sizes (n, k), (k, m), so n k * k m / (n m) is its square."""
        matrices = [shape for shape in self.reads if len(shape.size) > 1][-2:]
        out = self.writes[0].numel
        if len(matrices) < 2 or not out:
            return 0
        return math.isqrt(matrices[0].numel * matrices[1].numel // out)

    def scaled(self, sizes: Mapping[int, int]) -> Call:
        """The same call on the true graph."""
        return Call(
            name=self.name,
            phase=self.phase,
            reads=tuple(shape.scaled(sizes) for shape in self.reads),
            writes=tuple(shape.scaled(sizes) for shape in self.writes),
            is_view=self.is_view,
        )


def record_step(setup: Setup, batch: Batch) -> tuple[Call, ...]:
    """The operators of a second step on `batch`, as a user's loop runs it; the first fills what is lazy, the optimiser's state.

    The parameters move. Compilation and a step of the setup's own are left out: it is the model's own forward that runs.
    """
    optimizer = setup.task.optimizer.build(setup.original.parameters())
    recorder = _Recorder()

    def step() -> None:
        optimizer.zero_grad()
        with setup.precision.autocast(setup.device):
            recorder.phase = FORWARD
            out = _forward(setup, batch)
            recorder.phase = LOSS
            loss = setup.task.loss(batch.select(out), batch.labels())
        recorder.phase = BACKWARD
        loss.backward()
        recorder.phase = OPTIMIZER
        optimizer.step()

    step()
    with recorder:
        step()
    return tuple(recorder.calls)


def _forward(setup: Setup, batch: Batch) -> Tensor:
    if batch.edge_weight is not None:
        return setup.model(batch.x, batch.edges, edge_weight=batch.edge_weight)
    return setup.model(batch.x, batch.edges)


class _Recorder(TorchDispatchMode):
    """Keeps all that it sees alive, so that an address belongs to one tensor only."""

    def __init__(self) -> None:
        super().__init__()
        self.phase = FORWARD
        self.calls: list[Call] = []
        self._alive: list[Any] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(kind not in (Tensor, torch.nn.Parameter) for kind in types):
            return NotImplemented  # PyG's EdgeIndex first does as its own class has it; what it calls comes by here
        out = func(*args, **(kwargs or {}))
        schema = func._schema
        read = [] if schema.name in TEMPLATES else list(_tensors((args, kwargs)))
        written = list(_tensors(out))
        self._alive += [read, written]
        changed = [
            tensor
            for argument, tensor in zip(schema.arguments, args, strict=False)
            if argument.alias_info is not None and argument.alias_info.is_write and isinstance(tensor, Tensor)
        ]
        is_view = not changed and any(
            result.alias_info is not None and not result.alias_info.is_write for result in schema.returns
        )
        self.calls.append(
            Call(
                name=schema.name,
                phase=self.phase,
                reads=tuple(shape for tensor in read for shape in _shapes(tensor)),
                writes=tuple(shape for tensor in written or changed for shape in _shapes(tensor)),
                is_view=is_view or (not read and not written),
            )
        )
        return out


def _shapes(tensor: Tensor) -> Iterator[Shape]:
    """A dense tensor's; of a sparse matrix those of its parts."""
    if tensor.layout in (torch.sparse_csr, torch.sparse_csc):
        rows = tensor.layout == torch.sparse_csr
        parts = (
            (tensor.crow_indices(), tensor.col_indices())
            if rows
            else (tensor.ccol_indices(), tensor.row_indices())
        )
        for part in (*parts, tensor.values()):
            yield from (dataclasses.replace(shape, by_column=not rows) for shape in _shapes(part))
        return
    if tensor.layout != torch.strided:
        return
    stored = tuple(
        1 if stride == 0 else size for size, stride in zip(tensor.size(), tensor.stride(), strict=True)
    )
    try:
        memory = tensor.untyped_storage().data_ptr()
    except RuntimeError:  # a subclass that only wraps others, such as PyG's EdgeIndex
        memory = id(tensor)
    yield Shape(size=tuple(tensor.size()), stored=stored, dtype=tensor.dtype, memory=memory)


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for entry in value.values():
            yield from _tensors(entry)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for entry in value:
            yield from _tensors(entry)


def _width(shape: Shape) -> int:
    return shape.numel


@contextmanager
def unchanged_generator() -> Iterator[None]:
    """The caller's random stream goes on where it was."""
    with torch.random.fork_rng(devices=[]):
        yield
