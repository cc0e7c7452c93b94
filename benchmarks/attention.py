"""fasthop's fused attention against PyG's GATConv and GATv2Conv, in one run, taking turns: time and peak memory.

    python benchmarks/attention.py [--graph planetoid:PubMed --root DIR] [--heads 8] [--channels 8] [--rounds 7]

Without --graph the graph is random with PubMed's size: 19,717 nodes, 88,648 directed edges, and a self-loop a node, as PyG
adds them. Each round runs each contestant once, forward and backward with the gradients to all inputs. "aggregation" is what
comes between the linear maps: scores, softmax and weighted sum, PyG's by its layer's own edge_updater and propagate;
"layer" is all of it, from `--in-channels` channels, the linear maps being the same torch operators on both sides.
A ratio is PyG's time over fasthop's, paired round by round: the median and its 95 % interval. Peak memory is the most that is
alive above the inputs while a step runs, fasthop's matrix and its transpose counted; its ratio is PyG's over fasthop's.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import torch_geometric
from torch import Tensor
from torch_geometric.nn import GATConv, GATv2Conv
from torch_geometric.utils import add_self_loops, remove_self_loops

from fasthop import load_graph
from fasthop.kernels.segment_softmax.attention import gat, gatv2, node_scores
from fasthop.kernels.spmm.adjacency import Adjacency
from fasthop.machine.memory import measure_peak
from fasthop.measure.compare import paired_ratio
from fasthop.noise import silence

PUBMED_NODES, PUBMED_EDGES = 19_717, 88_648
Step = Callable[[], tuple[Tensor, ...]]


class Case:
    """One layer on one graph: its inputs, and the step of each contestant."""

    def __init__(
        self, conv: GATConv | GATv2Conv, edge_index: Tensor, num_nodes: int, in_channels: int
    ) -> None:
        generator = torch.Generator().manual_seed(0)
        self.conv, self.num_nodes, self.edge_index = conv, num_nodes, edge_index
        self.x = torch.randn(num_nodes, in_channels, generator=generator)
        self.loops = add_self_loops(remove_self_loops(edge_index)[0], num_nodes=num_nodes)[0]
        order = torch.argsort(self.loops[1], stable=True)
        rowptr = torch.zeros(num_nodes + 1, dtype=torch.int64)
        rowptr[1:] = torch.bincount(self.loops[1], minlength=num_nodes).cumsum(0)
        self.adj = Adjacency(rowptr=rowptr, col=self.loops[0][order].int(), num_cols=num_nodes)
        matrix = (self.adj.rowptr, self.adj.col, *self.adj.transposed)
        self.matrix_bytes = sum(tensor.nbytes for tensor in matrix)
        self.shape = (num_nodes, conv.heads, conv.out_channels)
        row = torch.randn(self.shape, generator=generator)
        if isinstance(conv, GATConv):
            others = [torch.randn(self.shape[:2], generator=generator) for _ in range(2)]
        else:
            others = [torch.randn(self.shape, generator=generator), conv.att.detach().clone()]
        self.leaves = [tensor.requires_grad_() for tensor in (row, *others)]
        self.grad = torch.randn(self.shape, generator=generator)
        self.resident = [
            *matrix,
            *self.leaves,
            self.grad,
            self.x,
            self.edge_index,
            self.loops,
            *conv.parameters(),
        ]

    def aggregation(self) -> dict[str, Step]:
        """Scores, softmax and weighted sum, with the gradients to what they come from."""

        def ours() -> tuple[Tensor, ...]:
            kernel = gat if isinstance(self.conv, GATConv) else gatv2
            return torch.autograd.grad(kernel(self.adj, *self.leaves), self.leaves, self.grad)

        def pyg() -> tuple[Tensor, ...]:
            first, second, third = self.leaves
            scores: dict[str, Any]
            if isinstance(self.conv, GATConv):
                rows, scores = (first, first), {"alpha": (second, third), "size": None}
            else:
                rows, scores = (first, second), {"x": (first, second)}
                self.conv.att.data = third.data.view_as(self.conv.att)
            alpha = self.conv.edge_updater(self.loops, edge_attr=None, **scores)
            out = self.conv.propagate(self.loops, x=rows, alpha=alpha, size=None)
            wanted = [first, second, third if isinstance(self.conv, GATConv) else self.conv.att]
            gradients = torch.autograd.grad(out, wanted, self.grad)
            return tuple(g.view_as(leaf) for g, leaf in zip(gradients, self.leaves, strict=True))

        return {"fasthop": ours, "PyG": pyg}

    def layer(self) -> dict[str, Step]:
        """The whole layer with the gradients to its parameters."""
        parameters = list(self.conv.parameters())

        def ours() -> tuple[Tensor, ...]:
            conv = self.conv
            if isinstance(conv, GATConv):
                assert conv.lin is not None
                row = conv.lin(self.x).view(self.shape)
                out = gat(self.adj, row, *node_scores(row, conv.att_src, conv.att_dst))
            else:
                x_l, x_r = conv.lin_l(self.x).view(self.shape), conv.lin_r(self.x).view(self.shape)
                out = gatv2(self.adj, x_l, x_r, conv.att)
            return torch.autograd.grad(out.flatten(1) + conv.bias, parameters, self.grad.flatten(1))

        def pyg() -> tuple[Tensor, ...]:
            return torch.autograd.grad(self.conv(self.x, self.edge_index), parameters, self.grad.flatten(1))

        return {"fasthop": ours, "PyG": pyg}


def run(case: Case, name: str, calls: dict[str, Step], rounds: int) -> None:
    """Times one case by turns, checks that both agree, and prints the ratios."""
    results = {contestant: call() for contestant, call in calls.items()}
    for mine, theirs in zip(results["fasthop"], results["PyG"], strict=True):
        error = float((mine - theirs).norm() / theirs.norm())
        assert error < 1e-4, f"PyG differs from fasthop by {error:.1e} on {name}"
    del results
    times: dict[str, list[float]] = {contestant: [] for contestant in calls}
    for _ in range(rounds):
        for contestant, call in calls.items():
            start = time.perf_counter()
            call()
            times[contestant].append(time.perf_counter() - start)
    shown = ", ".join(f"{contestant} {statistics.median(t) * 1e3:.2f} ms" for contestant, t in times.items())
    ratio = paired_ratio(times["PyG"], times["fasthop"])
    print(f"{name}: {shown}, ratio={ratio.median:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]", flush=True)
    peak = {
        contestant: measure_peak(call, resident=case.resident, device="cpu").transient_bytes
        for contestant, call in calls.items()
    }
    peak["fasthop"] += case.matrix_bytes
    shown = ", ".join(f"{contestant} {num / 1e6:.1f} MB" for contestant, num in peak.items())
    print(f"{name} peak memory: {shown}, ratio={peak['PyG'] / peak['fasthop']:.2f}", flush=True)


def edges_of(graph: str | None, root: str | None) -> tuple[Tensor, int]:
    """(edge_index, num_nodes) of a named graph, or of a random one of PubMed's size."""
    if graph is not None:
        loaded = load_graph(graph, root=root)
        return torch.stack([loaded.csr.col.long(), loaded.csr.row.long()]), loaded.csr.num_rows
    generator = torch.Generator().manual_seed(0)
    return torch.randint(PUBMED_NODES, (2, PUBMED_EDGES), generator=generator), PUBMED_NODES


def main() -> None:
    """Runs the benchmark and prints its figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--graph", default=None)
    parser.add_argument("--root", default=None)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--channels", type=int, default=8)
    parser.add_argument("--in-channels", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    args = parser.parse_args()
    silence()
    torch.set_num_threads(args.threads)
    edge_index, num_nodes = edges_of(args.graph, args.root)
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, {args.threads} threads, torch {torch.__version__}, "
        f"PyG {torch_geometric.__version__}, float32, {args.rounds} rounds; {args.graph or 'random'}: {num_nodes} nodes, "
        f"{edge_index.size(1)} edges, {args.heads} x {args.channels}"
    )
    for layer in (GATConv, GATv2Conv):
        torch.manual_seed(0)
        conv = layer(args.in_channels, args.channels, heads=args.heads)
        case = Case(conv, edge_index, num_nodes, args.in_channels)
        run(case, f"{layer.__name__} aggregation", case.aggregation(), args.rounds)
        run(case, f"{layer.__name__} layer", case.layer(), args.rounds)


if __name__ == "__main__":
    main()
