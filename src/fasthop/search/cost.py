"""What a training step must at least compute and move, and how long this machine needs for that: the floor."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fasthop.errors import InvalidConfig
from fasthop.machine.peaks import MachinePeaks

if TYPE_CHECKING:  # who takes rates from here must not pay for the kernels' import
    from fasthop.kernels.spmm.adjacency import Adjacency

ADAM_FLOPS, SGD_FLOPS = 12, 2
SCORE_FLOPS, SCORE_GRADIENT_FLOPS = 6, 8  # of an entry and head, besides the products; an exp counts as one
LOSS_FLOPS = 5
OPTIMIZERS = ("adam", "adamw", "sgd")
COL_BYTES, ROWPTR_BYTES = 4, 8
COPY_SIZES = (1 << 20, 1 << 22, 1 << 24, 1 << 26)
_SECONDS_PER_SIZE, _COPIES_PER_SAMPLE = 0.06, 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """What something must compute and move.

    flops: additions and multiplications, a product of numbers and its sum being two.
    bytes: compulsory traffic: each operand read once, each result written once, whatever is read of it how often.
    gathered_bytes: what random reads move on top of that, as far as the rows cannot stay in a cache: where the rows that are
        read lie in a table that is larger than the last-level cache, the repeated reads of all rows but those read most
        often, of which the cache is taken to keep as many as it holds. 0 where the table fits, or the cache is not
        known. An order of the nodes with locality may get by with less.
    """

    flops: float = 0.0
    bytes: float = 0.0
    gathered_bytes: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            flops=self.flops + other.flops,
            bytes=self.bytes + other.bytes,
            gathered_bytes=self.gathered_bytes + other.gathered_bytes,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class StepCost:
    """The operations of one training step by name, in order. resident_bytes: all that the step reads or writes, counted once:
    which caches it can lie in follows from it."""

    operations: tuple[tuple[str, Cost], ...]
    resident_bytes: float

    @property
    def total(self) -> Cost:
        """The sum over the operations."""
        return sum((cost for _, cost in self.operations), Cost())


def floor_ms(
    cost: Cost | StepCost, peaks: MachinePeaks, *, copy_rates: Mapping[int, float] | None = None
) -> float:
    """The least time in ms: of each operation the longer of its flops and its traffic, summed over the operations.

    The roofline (Williams, Waterman and Patterson 2009) of each operation. Flops run at the rate of float32 matrix products;
    bytes move at the rate of a copy, gathered bytes at that of random rows.
    copy_rates: GB/s of copies of smaller working sets (`measure_copy_rates`). A step whose `resident_bytes` are
    fewer than a size moves its bytes at the rate of the largest size that is no larger than them; None, and any
    larger step, takes that of `peaks`, which is of memory.
    """
    if isinstance(cost, Cost):
        return _least_ms(cost, peaks, peaks.copy_gb_per_s.median)
    rate = copy_rate(cost.resident_bytes, peaks, copy_rates or {})
    return sum(_least_ms(part, peaks, rate) for _, part in cost.operations)


def copy_rate(resident_bytes: float, peaks: MachinePeaks, copy_rates: Mapping[int, float]) -> float:
    """GB/s at which a working set of that size moves: never below that of memory."""
    of_memory = peaks.copy_gb_per_s.median
    if not copy_rates or resident_bytes >= 4 * max(copy_rates):
        return of_memory
    smaller = [size for size in copy_rates if size <= resident_bytes] or [min(copy_rates)]
    return max(copy_rates[max(smaller)], of_memory)


def measure_copy_rates() -> dict[int, float]:
    """GB/s, read and written, of copies whose source and target take COPY_SIZES bytes together; about 0.3 s.

    The quickest of the samples: on a shared machine a small copy may wait 8 ms for a second thread to be scheduled.
    """
    rates = {}
    for size in COPY_SIZES:
        source = torch.ones(size // 8)
        target = torch.empty_like(source)
        target.copy_(source)
        samples: list[float] = []
        deadline = time.perf_counter() + _SECONDS_PER_SIZE
        while len(samples) < 5 or time.perf_counter() < deadline:
            start = time.perf_counter()
            for _ in range(_COPIES_PER_SAMPLE):
                target.copy_(source)
            samples.append((time.perf_counter() - start) / _COPIES_PER_SAMPLE)
        rates[size] = size / min(samples) / 1e9
    return rates


def _least_ms(cost: Cost, peaks: MachinePeaks, copy_gb_per_s: float) -> float:
    compute_ms = cost.flops / (peaks.matmul_fp32_gflops.median * 1e6)
    move_ms = cost.bytes / (copy_gb_per_s * 1e6)
    return max(compute_ms, move_ms + cost.gathered_bytes / (peaks.gather_gb_per_s.median * 1e6))


@dataclass(kw_only=True, eq=False)
class Operand:
    """A matrix [rows, channels] that operations read.

    needs_grad: whether a gradient is computed for it. gated: whether that gradient reads the matrix again, for an
    activation that was joined to its making. num_grads: how many gradients were added up for it so far.
    """

    rows: int
    channels: int
    needs_grad: bool = False
    gated: bool = False
    num_grads: int = 0

    def head(self, rows: int) -> Operand:
        """The first rows."""
        return Operand(rows=rows, channels=self.channels, needs_grad=self.needs_grad, gated=self.gated)


@dataclass(kw_only=True, eq=False)
class Count:
    """The operations of a step as they are counted, forward and backward at once. What a pass does to its result before it
    is stored (a bias, a sum with another matrix, an activation, dropout) writes nothing more; a matrix that is added is
    read. itemsize: bytes of a number. cache_bytes: of the last-level cache, or None."""

    itemsize: int = 4
    cache_bytes: int | None = None
    operations: list[tuple[str, Cost]] = field(default_factory=list)
    resident_bytes: float = 0.0

    def keep(self, num_values: float, num_other_bytes: float = 0.0) -> None:
        """Counts what the step holds."""
        self.resident_bytes += num_values * self.itemsize + num_other_bytes

    def linear(
        self, x: Operand, num_out: int, *, features: Adjacency | None = None, trained: bool = True
    ) -> None:
        """x @ W.T, the gradient of W, and that of x where it needs one. features: x by its non-zeros."""
        rows, size = x.rows, x.channels * num_out
        if features is not None:
            self._sparse_linear(features, num_out, trained=trained)
            return
        flops = 2.0 * rows * size
        parts = (rows * x.channels, size, rows * num_out)
        self._add("linear", flops, sum(parts))
        if trained:
            self._add("linear: gradient of the weight", flops, sum(parts))
        if x.needs_grad:
            self._add("linear: gradient of the input", flops, sum(parts) + self._joined(x))

    def aggregate(self, x: Operand, adj: Adjacency, *, extremum: bool = False) -> None:
        """adj @ x and the gradient of x. extremum: a maximum, whose gradient reads x and the result again."""
        rows, channels, entries = adj.num_rows, x.channels, adj.col.numel()
        flops = float((1 if adj.value is None else 2) * entries * channels)
        read = torch.bincount(adj.col, minlength=adj.num_cols)
        num_read = int((read > 0).sum())
        structure = self._structure(adj)
        moved = (num_read + rows) * channels
        self._add("aggregate", flops, moved, structure, self._gathered(read, channels))
        if x.needs_grad:
            again = moved if extremum else 0
            structure += ROWPTR_BYTES * (x.rows - rows)
            moved = (rows + x.rows) * channels + self._joined(x) + again
            gathered = self._gathered(adj.rowptr.diff(), channels)
            self._add("aggregate: gradient", flops, moved, structure, gathered)

    def attention(self, x: Operand, adj: Adjacency, heads: int, *, trained: bool = True) -> None:
        """GAT's scores, softmax and weighted sum over x [num_cols, heads * channels], and the gradients.

        Of an entry and head the forward pass needs its score and a product of channels, the backward pass a dot
        product and a product. The scores of the nodes are a product with a joined vector of attention each.
        """
        rows, cols, entries = adj.num_rows, adj.num_cols, adj.col.numel()
        size = x.channels
        flops = float(entries * (2 * size + SCORE_FLOPS * heads) + 4 * cols * size)
        read = torch.bincount(adj.col, minlength=cols)
        scores = (rows + cols) * heads
        moved = int((read > 0).sum()) * size + rows * size + 2 * scores + 2 * rows * heads
        structure = self._structure(adj)
        self._add("attention", flops, moved, structure, self._gathered(read, size))
        if trained or x.needs_grad:
            flops = float(entries * (4 * size + SCORE_GRADIENT_FLOPS * heads) + 8 * cols * size)
            moved = 2 * rows * size + 2 * cols * size + 2 * scores + 2 * rows * heads + self._joined(x)
            gathered = self._gathered(adj.rowptr.diff(), size)
            self._add("attention: gradients", flops, moved, structure, gathered)

    def elementwise(self, x: Operand, *, addend: bool = False, gated: bool = False) -> None:
        """A pass of its own over x; gated: its gradient is another than the result's."""
        size = x.rows * x.channels
        self._add("elementwise", size, (3 if addend else 2) * size)
        if x.needs_grad and gated:
            self._add("elementwise: gradient", size, 3 * size + self._joined(x))

    def gate(self, x: Operand) -> None:
        """A gradient that is handed on to x as it is, but for the activation that x ends in."""
        size = x.rows * x.channels
        self._add("elementwise: gradient", size, 2 * size + self._joined(x))

    def epilogue(self, rows: int, channels: int, *, addend: bool) -> None:
        """What is joined to the pass before it: the matrix that is added is read, nothing else moves."""
        size = rows * channels
        self._add("epilogue", size, size if addend else 0)

    def loss(self, rows: int, channels: int) -> None:
        """The mean cross-entropy: logits and labels read, their gradient written."""
        size = rows * channels
        self._add("loss", LOSS_FLOPS * size, 2 * size, 8.0 * rows)

    def update(self, num_parameters: int, optimizer: str) -> None:
        """The optimiser: Adam reads four numbers for each parameter and writes three, SGD two and one."""
        if optimizer not in OPTIMIZERS:
            raise InvalidConfig(
                f"The count knows the optimisers {', '.join(OPTIMIZERS)}, and got {optimizer!r}."
            )
        flops, moved = (SGD_FLOPS, 3) if optimizer == "sgd" else (ADAM_FLOPS, 7)
        self._add("optimizer", flops * num_parameters, moved * num_parameters)
        self.keep((2 if optimizer == "sgd" else 4) * num_parameters)

    @property
    def step(self) -> StepCost:
        """What was counted."""
        return StepCost(operations=tuple(self.operations), resident_bytes=self.resident_bytes)

    def _sparse_linear(self, features: Adjacency, num_out: int, *, trained: bool) -> None:
        entries, rows, cols = features.col.numel(), features.num_rows, features.num_cols
        flops = float((1 if features.value is None else 2) * entries * num_out)
        read = torch.bincount(features.col, minlength=cols)
        moved = (int((read > 0).sum()) + rows) * num_out
        structure = self._structure(features)
        self._add("linear of non-zeros", flops, moved, structure, self._gathered(read, num_out))
        if trained:
            structure += ROWPTR_BYTES * (cols - rows)
            gathered = self._gathered(features.rowptr.diff(), num_out)
            self._add(
                "linear of non-zeros: gradient of the weight",
                flops,
                (rows + cols) * num_out,
                structure,
                gathered,
            )

    def _structure(self, adj: Adjacency) -> float:
        value = 0 if adj.value is None else self.itemsize
        return float((COL_BYTES + value) * adj.col.numel() + ROWPTR_BYTES * adj.num_rows)

    def _gathered(self, times_read: Tensor, channels: int) -> float:
        if self.cache_bytes is None:
            return 0.0
        row_bytes = channels * self.itemsize
        kept = self.cache_bytes // row_bytes
        if int((times_read > 0).sum()) <= kept:
            return 0.0
        seldom = times_read.sort(descending=True).values[kept:]
        return float((seldom - 1).clamp(min=0).sum()) * row_bytes

    def _joined(self, x: Operand) -> int:
        """Numbers that the gradient of x reads besides: x for its activation, and the gradient it is added to."""
        reads = int(x.num_grads > 0) + int(x.gated and x.num_grads == 0)
        x.num_grads += 1
        return reads * x.rows * x.channels

    def _add(
        self,
        name: str,
        flops: float,
        num_values: float,
        other_bytes: float = 0.0,
        gathered_bytes: float = 0.0,
    ) -> None:
        moved = num_values * self.itemsize + other_bytes
        self.operations.append(
            (name, Cost(flops=float(flops), bytes=float(moved), gathered_bytes=gathered_bytes))
        )
