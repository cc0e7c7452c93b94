"""Small benchmarks of torch's own operators as PyG calls them, which make the Rates of a machine."""

from __future__ import annotations

import itertools
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fasthop.graph.graph import Graph
from fasthop.machine.clock import elapsed_ns, synchronizer
from fasthop.search.atomic_rate import measure_atomic_ns
from fasthop.search.cost import measure_copy_rates
from fasthop.search.fresh_memory import measure_page_us
from fasthop.search.predict_rates import KINDS, NARROW, NUMBERS, WIDTHS, Rates
from fasthop.search.predict_rehearsal import Sizes, small_graph
from fasthop.search.predict_trace import BACKWARD, OPTIMIZER, record_step, unchanged_generator
from fasthop.train.models import GCN
from fasthop.train.setup import Setup
from fasthop.train.task import Task

_ROWS_PER_NODE = 8
_MOST_ROWS, _MOST_TURNED = 1 << 21, 1 << 17
_SECONDS, _MOST_SECONDS, _MIN_SAMPLES = 0.005, 0.02, 2
_SWEEPS = 3
_NEW_SHAPES = 8
_PRODUCT = (2700, 1000)  # nodes and features
_TINY = 64  # nodes of the graph on which a step is nothing but the framework's work


def measure_rates(device: torch.device) -> Rates:
    """Every rate of `Rates`, measured now on a device with as many threads as torch uses.

    Everything is measured in several sweeps, and the best of each counts: what else the machine does for a second spoils one of them.
    """
    bench = _Bench(device)
    first, *others = (_sweep(bench, device) for _ in range(_SWEEPS))
    found = {name: _best(name, value, *(other[name] for other in others)) for name, value in first.items()}
    return Rates(**found, device=device.type, num_threads=torch.get_num_threads())


def _best(name: str, *values: Any) -> Any:
    """The least time or the highest rate, place by place."""
    if isinstance(values[0], tuple):
        return tuple(_best(name, *entries) for entries in zip(*values, strict=True))
    return max(values) if name.endswith(("_gflops", "_gb_per_s")) else min(values)


def _sweep(bench: _Bench, device: torch.device) -> dict[str, Any]:
    by_width = (bench.scaled, bench.gather, bench.gather_wide, bench.scatter, bench.index_add, bench.scatter_max, bench.spmm,
                bench.spmm_t)  # fmt: skip
    by_number = {
        "elementwise": bench.elementwise,
        "sort": bench.sort,
        "cast_bf16": lambda numbers: bench.cast(2 * numbers),
        "gather_bf16": lambda numbers: bench.gather(2 * numbers, 16, torch.bfloat16),
        "scatter_bf16": lambda numbers: bench.scatter(2 * numbers, 16, torch.bfloat16),
    }
    dtypes = {"product_gflops": torch.float32, "product_bf16_gflops": torch.bfloat16}
    with torch.no_grad():
        found: dict[str, Any] = {
            call.__name__: tuple(tuple(call(numbers, width) for width in WIDTHS) for numbers in NUMBERS)
            for call in by_width
        }
        found |= {name: tuple(map(call, NUMBERS)) for name, call in by_number.items()}
        found |= {
            name: tuple(
                tuple(bench.product_gflops(kind, narrow, dtype) for narrow in NARROW) for kind in KINDS
            )
            for name, dtype in dtypes.items()
        }
        found["bf16_shape_us"] = bench.new_shape_us()
    on_cpu = device.type == "cpu"
    found["page_us"] = measure_page_us() if on_cpu else 0.0
    found["atomic_ns"] = measure_atomic_ns(torch.get_num_threads()) if on_cpu else 0.0
    found["copy_gb_per_s"] = tuple(measure_copy_rates().values())
    return found | bench.steps_us()


class _Bench:
    """Small benchmarks of torch's operators as PyG calls them: each result is new memory."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.generator = torch.Generator().manual_seed(0)  # the user's random stream stays where it is
        self.synchronize = synchronizer(device)
        self.indices: dict[int, Tensor] = {}
        self.sizes = itertools.count()

    def elementwise(self, numbers: int) -> float:
        x = torch.ones(numbers, device=self.device)
        return self._ns(lambda: x * 2.0, numbers)

    def scaled(self, numbers: int, width: int) -> float:
        rows = max(numbers // width, 1)
        x, each = torch.ones(rows, width, device=self.device), torch.ones(rows, 1, device=self.device)
        return self._ns(lambda: x * each, rows * width)

    def cast(self, numbers: int) -> float:
        x = torch.ones(numbers, device=self.device)
        return self._ns(lambda: x.to(torch.bfloat16), numbers)

    def gather(self, numbers: int, width: int, dtype: torch.dtype = torch.float32) -> float:
        index, nodes = self._index(numbers, width)
        x = torch.ones(nodes, width, device=self.device, dtype=dtype)
        return self._ns(lambda: x.index_select(0, index), index.numel() * width)

    def gather_wide(self, numbers: int, width: int) -> float:
        index, nodes = self._index(numbers, width)
        x = torch.ones(nodes, width, device=self.device)
        wide = index.view(-1, 1).expand(-1, width)
        return self._ns(lambda: x.gather(0, wide), wide.numel())

    def sort(self, numbers: int) -> float:
        numbers = min(numbers, _MOST_ROWS)
        key = torch.randint(numbers, (numbers,), generator=self.generator).to(self.device)
        return self._ns(lambda: key.sort(), numbers)

    def scatter(self, numbers: int, width: int, dtype: torch.dtype = torch.float32) -> float:
        index, nodes = self._index(numbers, width)
        message = torch.ones(index.numel(), width, device=self.device, dtype=dtype)
        wide = index.view(-1, 1).expand_as(message)
        return self._ns(lambda: message.new_zeros(nodes, width).scatter_add_(0, wide, message), wide.numel())

    def index_add(self, numbers: int, width: int) -> float:
        index, nodes = self._index(numbers, width)
        message = torch.ones(index.numel(), width, device=self.device)
        return self._ns(
            lambda: message.new_zeros(nodes, width).index_add_(0, index, message), message.numel()
        )

    def scatter_max(self, numbers: int, width: int) -> float:
        index, nodes = self._index(numbers, width)
        message = torch.ones(index.numel(), width, device=self.device)
        wide = index.view(-1, 1).expand_as(message)
        return self._ns(
            lambda: message.new_zeros(nodes, width).scatter_reduce_(
                0, wide, message, "amax", include_self=False
            ),
            wide.numel(),
        )

    def spmm(self, numbers: int, width: int) -> float:
        matrix, x = self._matrix(numbers, width)
        return self._ns(lambda: matrix @ x, matrix.values().numel() * width)

    def spmm_t(self, numbers: int, width: int) -> float:
        matrix, x = self._matrix(numbers, width, _MOST_TURNED)
        return self._ns(lambda: matrix.t() @ x, matrix.values().numel() * width)

    def _matrix(self, numbers: int, width: int, most: int = _MOST_ROWS) -> tuple[Tensor, Tensor]:
        """A CSR matrix of that many messages, and what it is multiplied by."""
        index, nodes = self._index(numbers, width, most)
        rowptr = torch.arange(0, index.numel() + 1, _ROWS_PER_NODE, device=self.device)
        value = torch.ones(index.numel(), device=self.device)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
            matrix = torch.sparse_csr_tensor(rowptr, index, value, (nodes, nodes), check_invariants=False)
        return matrix, torch.ones(nodes, width, device=self.device)

    def product_gflops(self, kind: str, narrow: int, dtype: torch.dtype) -> float:
        """Of a product whose least dimension is `narrow`, its operands as autograd hands them over."""
        n, k = _PRODUCT
        x = torch.ones(n, k, device=self.device, dtype=dtype)
        if kind == "columns":  # x W^T
            weight = torch.ones(narrow, k, device=self.device, dtype=dtype)
            ns = self._ns(lambda: x @ weight.t(), 1)
        elif kind == "rows":  # the gradient of W: G^T x
            grad = torch.ones(n, narrow, device=self.device, dtype=dtype)
            ns = self._ns(lambda: grad.t() @ x, 1)
        else:  # the gradient of x: G W
            grad, weight = x.new_ones(n, narrow), x.new_ones(narrow, k)
            ns = self._ns(lambda: grad @ weight, 1)
        return 2.0 * n * k * narrow / ns

    def new_shape_us(self) -> float:
        """A product whose shape was never seen, over the same again."""
        sizes = [256 + 3 * next(self.sizes) for _ in range(_NEW_SHAPES)]  # never those of an earlier sweep
        weight = torch.ones(128, 16, device=self.device, dtype=torch.bfloat16)
        gains = []
        for size in sizes:
            x = torch.ones(size, 128, device=self.device, dtype=torch.bfloat16)
            first, again = (elapsed_ns(lambda x=x: x @ weight, self.synchronize) for _ in range(2))
            gains.append(max(first - again, 0) / 1e3)
        return statistics.median(gains[1:])

    def steps_us(self) -> dict[str, float]:
        """Of an operator in a step of a two-layer GCN on next to nothing, by phase: its time over its operators."""

        sizes = Sizes(num_nodes=_TINY, num_edges=2 * _TINY, num_rows=_TINY // 2)
        with torch.enable_grad(), unchanged_generator():
            graph = small_graph(_like(_TINY), sizes)
            task = Task(graph=graph, make_model=lambda: GCN(8, 8, 2), loss=F.cross_entropy)
            setup = Setup.baseline(task, seed=0, device=torch.device("cpu"))
            (batch,) = setup.batches
            calls = record_step(setup, batch)
            step, optimizer = setup.step(), setup.task.optimizer.build(setup.original.parameters())

            def forward() -> Tensor:
                return setup.task.loss(batch.select(setup.forward(batch)), batch.labels())

            whole = self._ns(lambda: step(batch), 1)
            first, both = self._ns(forward, 1), self._ns(lambda: forward().backward(), 1)
            last = self._ns(optimizer.step, 1)
        num_backward, num_last = (
            sum(call.phase == phase for call in calls) for phase in (BACKWARD, OPTIMIZER)
        )
        num_first = len(calls) - num_backward - num_last
        # The rest of a step (clearing gradients, the loop around it) is the forward pass's.
        rest = max(whole - both - last, 0.0)
        return {
            "forward_us": (first + rest) / num_first / 1e3,
            "backward_us": max(both - first, 1.0) / num_backward / 1e3,
            "optimizer_us": last / num_last / 1e3,
        }

    def _index(self, numbers: int, width: int, most: int = _MOST_ROWS) -> tuple[Tensor, int]:
        """Random rows, and out of how many: eight of them a node, and at most so many that it does not take seconds."""
        nodes = max(min(numbers // width, most) // _ROWS_PER_NODE, 1)
        rows = nodes * _ROWS_PER_NODE
        if rows not in self.indices:
            self.indices[rows] = torch.randint(nodes, (rows,), generator=self.generator).to(self.device)
        return self.indices[rows], nodes

    def _ns(self, call: Callable[[], object], amount: float) -> float:
        """Nanoseconds over `amount`; the quickest of as many calls as fit in the time, after one for warm-up.

        Not a median or a quartile: on a busy machine a call of 10 us waits 8 ms for its second thread more often than not.
        """
        call()
        samples: list[int] = []
        start = time.perf_counter()
        while (passed := time.perf_counter() - start) < _SECONDS or len(samples) < _MIN_SAMPLES:
            if passed > _MOST_SECONDS and samples:
                break
            samples.append(max(elapsed_ns(call, self.synchronize), 1))
        return min(samples) / amount


def _like(n: int) -> Graph:
    mask = torch.arange(n) == 0
    return Graph(
        x=torch.ones(n, 8), edge_index=torch.zeros(2, 1, dtype=torch.int64), y=torch.zeros(n, dtype=torch.int64),
        train_mask=mask, val_mask=mask, test_mask=mask, num_nodes=n, num_classes=2,
    )  # fmt: skip
