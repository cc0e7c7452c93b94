"""fasthop's fused step against PyG's own step of the same GCN, in one run, taking turns.

    python benchmarks/fused_step.py [--cases cora PubMed ...] [--root DIR] [--rounds 15] [--threads 2]

PyG's step is what a PyG user writes: the model over edge_index, cross-entropy on the training nodes, backward, Adam.
fasthop's is one compiled call over the training nodes' receptive field (`cora`, `PubMed`: a bag of words, two layers of 16)
or over the whole graph with the first aggregation done once (`arxiv-256`, `arxiv-32`: three layers). Both start from the same
parameters; the losses of the first steps are compared before anything is timed. A ratio is PyG's time over fasthop's,
paired round by round: the median and its 95 % interval.
"""

from __future__ import annotations

import argparse
import copy
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
import torch_geometric
from torch import Tensor
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from fasthop import load_graph
from fasthop.graph.graph import Graph
from fasthop.kernels.sparse_linear.features import SparseFeatures
from fasthop.kernels.spmm.adjacency import Adjacency, spmm
from fasthop.kernels.stack.ops import Activation, Aggregate, Bias, Constant, Linear, Op
from fasthop.kernels.stack.stack import Stack
from fasthop.kernels.stack.training import Optimizer, StackTraining
from fasthop.measure.compare import paired_ratio
from fasthop.noise import silence
from fasthop.train.models import GCN

LR, WEIGHT_DECAY = 0.01, 5e-4
MIN_SAMPLE_S = 0.02


class Normalised:
    """The graph's matrix as GCN has it, in both forms: torch's sparse CSR to cut it, and fasthop's."""

    def __init__(self, graph: Graph) -> None:
        edge_index, weight = gcn_norm(graph.edge_index, None, graph.num_nodes)
        assert weight is not None
        order = torch.argsort(edge_index[1] * graph.num_nodes + edge_index[0], stable=True)
        self.row, self.col, self.value = edge_index[1][order], edge_index[0][order], weight[order]
        self.num_nodes = graph.num_nodes

    def cut(self, rows: Tensor, cols: Tensor) -> Adjacency:
        """The rows and columns of these nodes, in their order."""
        place_row = torch.full((self.num_nodes,), -1)
        place_row[rows] = torch.arange(rows.numel())
        place_col = torch.full((self.num_nodes,), -1)
        place_col[cols] = torch.arange(cols.numel())
        row, col = place_row[self.row], place_col[self.col]
        inside = (row >= 0) & (col >= 0)
        row, col, value = row[inside], col[inside], self.value[inside]
        order = torch.argsort(row * cols.numel() + col)
        rowptr = torch.zeros(rows.numel() + 1, dtype=torch.int64)
        torch.cumsum(torch.bincount(row, minlength=rows.numel()), 0, out=rowptr[1:])
        return Adjacency(
            rowptr=rowptr, col=col[order].int(), num_cols=cols.numel(), value=value[order].contiguous()
        )

    def widened(self, nodes: Tensor) -> Tensor:
        """These nodes, then those one hop before them."""
        is_in = torch.zeros(self.num_nodes, dtype=torch.bool)
        is_in[nodes] = True
        is_next = torch.zeros(self.num_nodes, dtype=torch.bool)
        is_next[self.col[is_in[self.row]]] = True
        return torch.cat([nodes, (is_next & ~is_in).nonzero().view(-1)])


def receptive_field(graph: Graph, model: GCN) -> tuple[Stack, Tensor]:
    """The training nodes' two-layer GCN: layer by layer only what the loss depends on, and the labels."""
    assert graph.x is not None
    matrix = Normalised(graph)
    train = graph.train_mask.nonzero().view(-1)
    hop_1 = matrix.widened(train)
    hop_2 = matrix.widened(hop_1)
    first, second = matrix.cut(hop_1, hop_2), matrix.cut(train, hop_1)
    features = SparseFeatures.from_tensor(graph.x[hop_2])
    aggregated = SparseFeatures.from_tensor(spmm(first, graph.x[hop_2]))
    conv_1, conv_2 = model.convs
    # Whichever has fewer entries: the features and then the matrix, or the product of both made once.
    apart = features.num_entries + first.col.numel()
    print(
        f"  {train.numel()} training nodes, {hop_1.numel()} one hop away, {hop_2.numel()} two; entries: features "
        f"{features.num_entries} + matrix {first.col.numel()}, aggregated features {aggregated.num_entries}"
    )
    if apart < aggregated.num_entries:
        ops: list[Op] = [Constant(features=features), Linear(source=0, weight=conv_1.lin.weight)]
        ops.append(Aggregate(source=1, adj=first))
    else:
        ops = [Constant(features=aggregated), Linear(source=0, weight=conv_1.lin.weight)]
    ops.append(Bias(source=len(ops) - 1, bias=conv_1.bias))
    ops.append(Activation(source=len(ops) - 1, kind="relu"))
    ops.append(Linear(source=len(ops) - 1, weight=conv_2.lin.weight))
    ops.append(Aggregate(source=len(ops) - 1, adj=second))
    ops.append(Bias(source=len(ops) - 1, bias=conv_2.bias))
    return Stack(ops), graph.y[train]


def first_hop(graph: Graph, model: GCN) -> tuple[Stack, Tensor]:
    """A GCN over the whole graph, A X made once, training nodes first in the order of the nodes."""
    assert graph.x is not None
    matrix = Normalised(graph)
    train = graph.train_mask
    nodes = torch.cat([train.nonzero().view(-1), (~train).nonzero().view(-1)])
    adj = matrix.cut(nodes, nodes)
    num_train = int(train.sum())
    last = matrix.cut(nodes[:num_train], nodes)
    ops: list[Op] = [Constant(features=spmm(adj, graph.x[nodes]))]
    for layer, conv in enumerate(model.convs):
        ops.append(Linear(source=len(ops) - 1, weight=conv.lin.weight))
        if layer:
            is_last = layer + 1 == len(model.convs)
            ops.append(Aggregate(source=len(ops) - 1, adj=last if is_last else adj))
        ops.append(Bias(source=len(ops) - 1, bias=conv.bias))
        if layer + 1 < len(model.convs):
            ops.append(Activation(source=len(ops) - 1, kind="relu"))
    return Stack(ops), graph.y[nodes[:num_train]]


def pyg_step(graph: Graph, model: GCN) -> Callable[[], Tensor]:
    """The step as a PyG user writes it."""
    optimizer = torch.optim.Adam(model.parameters(), lr=LR, weight_decay=WEIGHT_DECAY)
    x, edge_index, mask, y = graph.x, graph.edge_index, graph.train_mask, graph.y
    assert x is not None

    def step() -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x, edge_index)[mask], y[mask])
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def run(name: str, graph: Graph, model: GCN, rounds: int) -> None:
    """Times one case by turns and prints the ratio."""
    theirs = copy.deepcopy(model)
    start = time.perf_counter()
    stack, labels = (receptive_field if len(model.convs) == 2 else first_hop)(graph, model)
    training = StackTraining(stack, labels=labels, optimizer=Optimizer(lr=LR, weight_decay=WEIGHT_DECAY))
    losses = [float(training.step())]
    prepared_s = time.perf_counter() - start
    plain = pyg_step(graph, theirs)
    expected = [float(plain())]
    if rounds > 10:
        losses += [float(training.step()) for _ in range(4)]
        expected += [float(plain()) for _ in range(4)]
    error = max(abs(a - b) / b for a, b in zip(losses, expected, strict=True))
    assert error < 1e-4, f"the losses of {name} differ by {error:.1e}: {losses} and {expected}"
    calls = {"fasthop": training.step, "PyG": plain}
    repeats, times = {}, {}
    for contestant, call in calls.items():
        start = time.perf_counter()
        call()
        repeats[contestant] = max(1, round(MIN_SAMPLE_S / (time.perf_counter() - start)))
        times[contestant] = []
    for _ in range(rounds):
        for contestant, call in calls.items():
            start = time.perf_counter()
            for _ in range(repeats[contestant]):
                call()
            times[contestant].append((time.perf_counter() - start) / repeats[contestant])
    ratio = paired_ratio(times["PyG"], times["fasthop"])
    shown = ", ".join(f"{contestant} {statistics.median(t) * 1e3:.3f} ms" for contestant, t in times.items())
    print(f"  {shown}; fasthop at best {min(times['fasthop']) * 1e3:.3f} ms; prepared in {prepared_s:.2f} s")
    print(f"{name} ratio={ratio.median:.1f} [{ratio.low:.1f}, {ratio.high:.1f}]", flush=True)


def main() -> None:
    """Runs the benchmark and prints its figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", nargs="+", default=["cora", "PubMed", "arxiv-32", "arxiv-256"])
    parser.add_argument("--root", default=os.environ.get("FASTHOP_SHARED", "../shared") + "/data/planetoid")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    args = parser.parse_args()
    silence()
    torch.set_num_threads(args.threads)
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, {args.threads} threads, torch {torch.__version__}, "
        f"PyG {torch_geometric.__version__}, float32, {args.rounds} rounds"
    )
    for case in args.cases:
        torch.manual_seed(0)
        if case.startswith("arxiv"):
            graph = load_graph("synthetic:arxiv")
            width, num_layers = int(case.partition("-")[2]), 3
        else:
            width, num_layers = 16, 2
            graph = (
                load_graph(case) if case == "cora" else load_graph(f"planetoid:{case}", root=Path(args.root))
            )
        model = GCN(graph.num_features, width, graph.num_classes, num_layers=num_layers)
        print(
            f"{case}: {graph.num_nodes} nodes, {graph.edge_index.size(1)} edges, {graph.num_features} features"
        )
        rounds = min(args.rounds, 7) if case.startswith("arxiv") else args.rounds
        run(f"fused step {case}", graph, model, rounds)


if __name__ == "__main__":
    main()
