"""fasthop's spmm against PyG's own aggregation and against MKL through torch, in one run, taking turns.

    python benchmarks/spmm.py [--graphs cora synthetic:arxiv] [--widths 16 32 128 256] [--reduce sum] [--rounds 7]

Each round runs every contestant once on the same weighted graph: forward, and forward with the gradient to x. PyG is
`scatter(weight * x[source], target)`, what MessagePassing does with an edge_index; MKL is a product of torch's
sparse CSR matrix (int32) and, for the gradient, of its transpose made beforehand, without autograd (the others have
it). A ratio is the other's time over fasthop's, paired round by round: the median and its 95 % interval. The floor counts
every byte of the matrix, of x and of the output once, at the rate of a copy that `fasthop doctor` measures: less cannot
be moved, and a graph without locality has to move more. It is left out where all of it lies in the caches.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable

import torch
import torch_geometric
from torch import Tensor
from torch_geometric.utils import scatter

from fasthop import load_graph
from fasthop.kernels.spmm.adjacency import Adjacency, spmm
from fasthop.kernels.spmm.dispatch import choose
from fasthop.machine.peaks import machine_peaks
from fasthop.measure.compare import paired_ratio
from fasthop.noise import silence

IN_CACHES_BELOW = 32 << 20
MIN_SAMPLE_S = 0.005


class Case:
    """One graph and one width: the tensors that all contestants share."""

    def __init__(self, graph: str, width: int, reduce: str) -> None:
        loaded = load_graph(graph)
        csr, csr_t = loaded.csr, loaded.csr_t
        generator = torch.Generator().manual_seed(0)
        self.reduce = reduce
        self.num_nodes, self.num_entries = csr.num_rows, csr.num_edges
        self.x = torch.randn(self.num_nodes, width, generator=generator)
        self.grad = torch.randn(self.num_nodes, width, generator=generator)
        self.value = torch.rand(self.num_entries, generator=generator)
        self.adj = Adjacency(rowptr=csr.rowptr, col=csr.col, num_cols=csr.num_cols, value=self.value)
        self.source, self.target = csr.col.long(), csr.row.long()
        perm = self.adj.transposed[2]
        self.mkl = self._matrix(csr.rowptr, csr.col, self.value)
        self.mkl_t = self._matrix(csr_t.rowptr, csr_t.col, self.value[perm])

    def _matrix(self, rowptr: Tensor, col: Tensor, value: Tensor) -> Tensor:
        size = (self.num_nodes, self.num_nodes)
        return torch.sparse_csr_tensor(rowptr.to(col.dtype), col, value, size)

    def pyg(self, x: Tensor) -> Tensor:
        """What PyG's MessagePassing computes with an edge_index."""
        messages = self.value.unsqueeze(1) * x.index_select(0, self.source)
        return scatter(messages, self.target, 0, self.num_nodes, self.reduce)

    def ours(self, x: Tensor) -> Tensor:
        """fasthop's product."""
        return spmm(self.adj, x, reduce=self.reduce)

    def contestants(self, *, backward: bool) -> dict[str, Callable[[], Tensor]]:
        """What takes turns, by name."""
        if not backward:
            calls = {"fasthop": lambda: self.ours(self.x), "PyG": lambda: self.pyg(self.x)}
            if self.reduce == "sum":
                calls["MKL"] = lambda: self.mkl @ self.x
            return calls

        def both(product: Callable[[Tensor], Tensor]) -> Tensor:
            leaf = self.x.detach().requires_grad_()
            return torch.autograd.grad(product(leaf), leaf, self.grad)[0]

        def mkl() -> Tensor:
            _ = self.mkl @ self.x
            return self.mkl_t @ self.grad

        calls = {"fasthop": lambda: both(self.ours), "PyG": lambda: both(self.pyg)}
        if self.reduce == "sum":
            calls["MKL"] = mkl
        return calls


def run(case: Case, name: str, rounds: int, *, backward: bool, floor_s: float | None) -> None:
    """Times one case by turns, checks that all agree, and prints the ratios."""
    calls = case.contestants(backward=backward)
    results, repeats = {}, {}
    for contestant, call in calls.items():
        results[contestant] = call()
        start = time.perf_counter()
        call()
        repeats[contestant] = max(1, round(MIN_SAMPLE_S / (time.perf_counter() - start)))
    for contestant, result in results.items():
        error = float((result - results["fasthop"]).norm() / results["fasthop"].norm())
        assert error < 1e-5, f"{contestant} differs from fasthop by {error:.1e} on {name}"
    del results
    times: dict[str, list[float]] = {contestant: [] for contestant in calls}
    for _ in range(rounds):
        for contestant, call in calls.items():
            start = time.perf_counter()
            for _ in range(repeats[contestant]):
                call()
            times[contestant].append((time.perf_counter() - start) / repeats[contestant])
    shown = ", ".join(f"{contestant} {statistics.median(t) * 1e3:.3f} ms" for contestant, t in times.items())
    share = (
        ""
        if floor_s is None
        else f"; floor {floor_s * 1e3:.1f} ms, {floor_s / statistics.median(times['fasthop']):.0%}"
    )
    print(f"{name}: {shown}{share}")
    for contestant in list(calls)[1:]:
        ratio = paired_ratio(times[contestant], times["fasthop"])
        print(
            f"{name} over {contestant} ratio={ratio.median:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]",
            flush=True,
        )


def main() -> None:
    """Runs the benchmark and prints its figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--graphs", nargs="+", default=["cora", "synthetic:arxiv"])
    parser.add_argument("--widths", nargs="+", type=int, default=[16, 32, 128, 256])
    parser.add_argument("--reduce", default="sum", choices=["sum", "mean", "max", "min"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    args = parser.parse_args()
    silence()
    torch.set_num_threads(args.threads)
    copy_rate = machine_peaks().copy_gb_per_s.median * 1e9
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, {args.threads} threads, torch {torch.__version__}, "
        f"PyG {torch_geometric.__version__}, float32, reduce={args.reduce}, {args.rounds} rounds; "
        f"a copy moves {copy_rate / 1e9:.1f} GB/s"
    )
    for graph in args.graphs:
        # Cora is timed at the hidden width of the tutorial's model alone; the large graph at the wide ones.
        for width in [w for w in args.widths if (w <= 16) == (graph == "cora")]:
            case = Case(graph, width, args.reduce)
            moved = 2 * case.x.nbytes + 8 * case.num_entries + 8 * case.num_nodes
            floor_s = None if case.x.nbytes < IN_CACHES_BELOW else moved / copy_rate
            for backward in (False, True):
                name = f"spmm {graph} x {width} {'forward+backward' if backward else 'forward'}"
                times_floor = None if floor_s is None else floor_s * (2 if backward else 1)
                run(case, name, args.rounds, backward=backward, floor_s=times_floor)
            if args.reduce == "sum":
                choice = choose(case.x, case.adj.rowptr, case.adj.col, case.value, "sum")
                print(f"spmm {graph} x {width}: dispatch took {choice.implementation}")


if __name__ == "__main__":
    main()
