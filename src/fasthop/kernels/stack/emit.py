"""Emitter: appends passes to a plan, one method a pass, with all that a job needs worked out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from fasthop.kernels.spmm.cpu import PREFETCH_FROM, PREFETCH_WIDE_FROM, WIDE_ROW_BYTES
from fasthop.kernels.spmm.job import channels_at_once
from fasthop.kernels.spmm.rows import SUM
from fasthop.kernels.stack import copy_passes, gemm, job, loss_pass, row_passes, sum_passes
from fasthop.kernels.stack.job import compiled
from fasthop.kernels.stack.matrices import Matrix
from fasthop.kernels.stack.ops import Activation
from fasthop.kernels.stack.plan import Buffer, Plan, Within, Word

TEAM_FROM = 4_000_000
"""Multiplications from which a team of threads does a pass: 0.1 ms of one thread. PubMed's largest passes (1.1 million, 28 us)
would save 13 us each on an idle machine; where other programs hold the cores they took 2 ms, because a team waits for its last
thread."""
TEAM_CHUNKS = 64
"""Chunks of a pass that a team does: more than threads, and not dependent on them, so that sums keep their bits."""
BLAS_FROM = 2_000_000
"""Multiplications from which a dense product may be BLAS's."""
BLAS_WIDER_THAN = 1 / 4
"""Up to this part of the registers four rows of a product are summed at once, as quickly as BLAS does it, and what follows
(bias, activation) is done on the way."""
BLAS_INNER = 128
"""A weight with more rows than this leaves the nearest cache while rows go by: of 256 x 40 BLAS makes the gradient in 28 ms, the
own pass in 54 (169,343 rows, one thread); of 32 x 40 in 6.8 and 6.9."""


Sums = tuple[Buffer, int] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class End:
    """What happens to a row before it is stored; see finish.py. init: (where, how many rows). drop: (key, p).
    gate: (activation, the output that the forward pass stored). wants_sums: the pass returns where it left the sums over
    its rows and how many parts they have."""

    init: tuple[Word, int] | None = None
    bias: Word = None
    activation: Activation | None = None
    drop: tuple[Word, float] | None = None
    gate: tuple[Activation, Word] | None = None
    wants_sums: bool = False

    @property
    def is_nothing(self) -> bool:
        """Whether a row is stored as it is."""
        return self == End()


class Emitter:
    """Appends passes. All matrices lie by rows without gaps."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.kind = plan, plan.kind
        self.block = channels_at_once(SUM, plan.dtype.itemsize)

    def aggregate(
        self, matrix: Matrix, a: Word, out: Word, channels: int, end: End, value: Word = None
    ) -> Sums:
        """out = matrix @ a. value: in place of the matrix's."""
        value = matrix.value if value is None else value
        num_entries = matrix.col.numel()
        row_bytes = channels * self.plan.dtype.itemsize
        ahead = matrix.num_cols * row_bytes >= (
            PREFETCH_WIDE_FROM if row_bytes >= WIDE_ROW_BYTES else PREFETCH_FROM
        )
        words: dict[int, Word] = {
            job.ROWPTR: matrix.rowptr,
            job.COL: matrix.col,
            job.VALUE: value,
            job.NUM_ENTRIES: num_entries,
            job.A: a,
        }
        work = (num_entries + matrix.num_rows) * channels
        shape = (value is not None, ahead)
        return self._rows(row_passes.aggregate, shape, words, out, matrix.num_rows, channels, end, work)

    def transform(
        self, a: Word, matrix: Word, out: Word, rows: int, inner: int, channels: int, end: End
    ) -> Sums:
        """out = a @ matrix: [rows, inner] by [inner, channels]; for small ones."""
        words: dict[int, Word] = {job.A: a, job.MATRIX: matrix, job.INNER: inner}
        work = rows * inner * channels
        return self._rows(row_passes.transform, (), words, out, rows, channels, end, work)

    def again(self, a: Word, a_rows: int, out: Word, rows: int, channels: int, end: End) -> Sums:
        """out = a, and zeros below its rows."""
        words: dict[int, Word] = {job.A: a, job.A_ROWS: a_rows}
        return self._rows(row_passes.again, (), words, out, rows, channels, end, 2 * rows * channels)

    def product(self, out: Word, a: Word, b: Word, **how: Any) -> None:
        """BLAS's product; see gemm.py."""
        gemm.add_product(self.plan, out, a, b, **how)

    def is_large(self, rows: int, inner: int, channels: int) -> bool:
        """Whether a product [rows, inner] by [inner, channels] is BLAS's, where there is one."""
        is_wide = inner > BLAS_INNER or self._is_wide(channels)
        return is_wide and self._has_blas(rows * inner * channels)

    def is_large_sum(self, rows: int, inner: int, channels: int) -> bool:
        """The same for a product [inner, rows] by [rows, channels]."""
        return self._has_blas(rows * inner * channels) and self._is_wide(channels)

    def _has_blas(self, multiplications: int) -> bool:
        return multiplications >= BLAS_FROM and gemm.gemm_address(self.kind) != 0

    def _is_wide(self, channels: int) -> bool:
        return channels > BLAS_WIDER_THAN * self.block

    def outer(
        self, a: Word, g: Word, out: Word, rows: int, inner: int, channels: int, accumulate: bool
    ) -> None:
        """out (+)= a.T @ g: [inner, channels], for a [rows, inner] and g [rows, channels]."""
        size = inner * channels
        is_team = rows * size >= TEAM_FROM
        num_parts = max(1, min(TEAM_CHUNKS, rows // 64)) if is_team else 1
        parts = out if num_parts == 1 and not accumulate else self.plan.buffer(num_parts * size)
        for channel in range(0, channels, self.block):
            width = min(self.block, channels - channel)
            blocks = sum_passes.block_rows(self.kind, width, inner)
            words: dict[int, Word] = {
                job.NUM_CHUNKS: num_parts,
                job.NUM_ROWS: rows,
                job.STRIDE: channels,
                job.CHANNEL: channel,
                job.INNER: inner,
                job.A: a,
                job.MATRIX: g,
                job.OUT: parts,
            }
            self.plan.add(compiled(sum_passes.outer, self.kind, width, *blocks), words, team=is_team)
        if parts is not out:
            self.parts(parts, num_parts, out, size, accumulate)

    def parts(self, a: Word, num_parts: int, out: Word, size: int, accumulate: bool) -> None:
        """out (+)= the sum of num_parts runs of `size` numbers."""
        is_team = num_parts * size >= TEAM_FROM
        words: dict[int, Word] = {
            job.NUM_CHUNKS: TEAM_CHUNKS if is_team else 1,
            job.STRIDE: size,
            job.A_ROWS: num_parts,
            job.A: a,
            job.OUT: out,
            job.INIT: out if accumulate else None,
        }
        self.plan.add(compiled(sum_passes.parts, self.kind), words, team=is_team)

    def num_chunks(self, rows: int, work: int) -> int:
        """Into how many chunks a pass over rows is cut."""
        return max(1, min(rows, TEAM_CHUNKS)) if work >= TEAM_FROM else 1

    def turn(self, a: Word, out: Word, rows: int, cols: int) -> None:
        """out [cols, rows] = the transpose of a [rows, cols]."""
        is_team = rows * cols >= TEAM_FROM
        words: dict[int, Word] = {
            job.NUM_CHUNKS: TEAM_CHUNKS if is_team else 1,
            job.NUM_ROWS: rows,
            job.STRIDE: cols,
            job.A: a,
            job.OUT: out,
        }
        self.plan.add(compiled(copy_passes.turn, self.kind), words, team=is_team)

    def keys(self, places: Tensor, out: Buffer) -> int:
        """Dropout's keys; the seed is the job's word INNER. Returns the pass's number."""
        words: dict[int, Word] = {job.A: places, job.NUM_ROWS: places.numel(), job.OUT: out}
        return self.plan.add(compiled(copy_passes.keys), words)

    def entries(
        self, value: Word, perm: Tensor | None, out: Buffer, num_entries: int, key: Word, p: float
    ) -> None:
        """The values of sparse entries with dropout."""
        is_team = num_entries * 4 >= TEAM_FROM
        perm_kind = "" if perm is None else str(perm.dtype).removeprefix("torch.")
        words: dict[int, Word] = {
            job.NUM_CHUNKS: TEAM_CHUNKS if is_team else 1,
            job.NUM_ENTRIES: num_entries,
            job.COL: perm,
            job.VALUE: value,
            job.OUT: out,
            job.KEY: key,
            **_dropout(p, 53),
        }
        function = compiled(copy_passes.entries, self.kind, perm_kind, value is not None)
        self.plan.add(function, words, team=is_team)

    def cross_entropy(
        self, logits: Word, labels: Tensor, grad: Buffer, losses: Buffer, channels: int
    ) -> Sums:
        """The gradient of the mean cross-entropy, and the parts of the loss. Returns the sums over the gradient's rows."""
        rows = labels.numel()
        work = 8 * rows * channels
        num_chunks = self.num_chunks(rows, work)
        sums = self.plan.buffer(num_chunks * channels)
        words: dict[int, Word] = {
            job.NUM_CHUNKS: num_chunks,
            job.NUM_ROWS: rows,
            job.STRIDE: channels,
            job.A: logits,
            job.COL: labels,
            job.OUT: grad,
            job.SUMS: losses,
            job.MATRIX: sums,
        }
        function = compiled(loss_pass.cross_entropy, self.kind, channels)
        self.plan.add(function, words, team=work >= TEAM_FROM)
        return sums, num_chunks

    def _rows(
        self,
        make: Any,
        shape: tuple[Any, ...],
        words: dict[int, Word],
        out: Word,
        rows: int,
        channels: int,
        end: End,
        work: int,
    ) -> Sums:
        num_chunks = self.num_chunks(rows, work)
        sums = self.plan.buffer(num_chunks * channels) if end.wants_sums else None
        activation = end.activation or (end.gate[0] if end.gate is not None else None)
        words = words | {
            job.NUM_CHUNKS: num_chunks,
            job.NUM_ROWS: rows,
            job.STRIDE: channels,
            job.OUT: out,
            job.BIAS: end.bias,
            job.SUMS: sums,
        }
        if end.init is not None:
            words |= {job.INIT: end.init[0], job.INIT_ROWS: end.init[1]}
        if activation is not None:
            words[job.SLOPE] = float(activation.factor)
            words[job.ACTIVATE if end.gate is None else job.GATE] = job.ACTIVATION[activation.kind]
        words[job.UNSCALE] = 1.0
        if end.drop is not None:
            words |= {job.KEY: end.drop[0], **_dropout(end.drop[1], 32)}
        if end.gate is not None:
            words[job.Y] = end.gate[1]
        for channel in range(0, channels, self.block):
            width = min(self.block, channels - channel)
            function = compiled(make, self.kind, width, *shape)
            self.plan.add(function, words | {job.CHANNEL: channel}, team=work >= TEAM_FROM)
        return None if sums is None else (sums, num_chunks)


def within(word: Buffer, count: int, itemsize: int) -> Within:
    """The place of number `count` in a buffer."""
    return Within(word, count * itemsize)


def _dropout(p: float, bits: int) -> dict[int, Word]:
    kept = 1.0 - p
    return {
        job.SCALE: 1.0 / kept if kept > 0 else 0.0,
        job.UNSCALE: kept,
        job.THRESHOLD: round(kept * 2.0**bits),
    }
