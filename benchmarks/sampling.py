"""fasthop.NeighborLoader against PyG's, in one run, taking turns: batches with features, ready to train on.

    python benchmarks/sampling.py [--graph synthetic:arxiv] [--rounds 6] [--batches 0]

A round is one epoch over the training nodes (or `--batches` of it), [15, 10, 5] neighbors, 1,024 seeds a
batch, by each loader in turn. A ratio is fasthop's speed over the other's, paired round by round: the median
and its 95 % interval. Exits with 1 where the ratio over torch-sparse without workers is below the bar, and
with 2 where there is nothing to compare with.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

BAR = 15.0
NUM_NEIGHBORS = [15, 10, 5]
HOW_TO = (
    "PyG's NeighborLoader needs torch-sparse (or pyg-lib), which is not installed. Build it, about a quarter of an "
    "hour, in an environment that has torch:\n"
    "    pip install --no-build-isolation torch-scatter torch-sparse"
)


@dataclass(slots=True)
class Contestant:
    """One loader: its times a round in seconds, and what it delivered in the last one."""

    name: str
    make: Callable[[], Iterable[Any]]
    loader: Any = None
    times_s: list[float] = field(default_factory=list)
    num_edges: int = 0
    num_nodes: int = 0

    def epoch(self) -> float:
        """Runs one round and returns its seconds; every batch must come with features."""
        num_edges = num_nodes = 0
        start = time.perf_counter()
        for batch in self.loader:
            num_edges += batch.edge_index.size(1)
            num_nodes += batch.x.size(0)
        elapsed = time.perf_counter() - start
        self.num_edges, self.num_nodes = num_edges, num_nodes
        return elapsed


def main() -> int:
    """Runs the benchmark and prints its figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--graph", default="synthetic:arxiv")
    parser.add_argument("--rounds", type=int, default=6, help="at least 6, for a 95 %% interval")
    parser.add_argument("--batches", type=int, default=0, help="batches a round; 0: one epoch")
    parser.add_argument("--batch-size", type=int, default=1024)
    args = parser.parse_args()

    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torch_geometric
        from torch_geometric import typing as pyg
        from torch_geometric.loader import NeighborLoader as PyGLoader

    from fasthop.graph.sources import load_graph
    from fasthop.measure.compare import paired_ratio
    from fasthop.train.neighbor_loader import NeighborLoader

    if not (pyg.WITH_TORCH_SPARSE or pyg.WITH_PYG_LIB):
        print(HOW_TO, file=sys.stderr)
        return 2

    data = load_graph(args.graph).to_data()
    seeds = data.train_mask.nonzero().view(-1)
    if args.batches:
        seeds = seeds[torch.randperm(seeds.numel(), generator=torch.Generator().manual_seed(0))]
        seeds = seeds[: args.batches * args.batch_size]
    common = {"input_nodes": seeds, "batch_size": args.batch_size, "shuffle": True}

    def ours(num_threads: int) -> Contestant:
        name = f"fasthop, {num_threads} threads" if num_threads else "fasthop"
        return Contestant(
            name, lambda: NeighborLoader(data, NUM_NEIGHBORS, num_threads=num_threads, **common)
        )

    def theirs(backend: str, num_workers: int) -> Contestant:
        name = f"PyG over {backend}, {num_workers} workers"
        return Contestant(name, lambda: PyGLoader(data, NUM_NEIGHBORS, num_workers=num_workers, **common))

    contestants = [ours(0), ours(2)]
    has_pyg_lib, backends = pyg.WITH_PYG_LIB, []
    if pyg.WITH_TORCH_SPARSE:
        backends.append("torch-sparse")
    if has_pyg_lib:
        backends.append("pyg-lib")
    contestants += [theirs(backend, workers) for backend in backends for workers in (0, 2)]

    print(
        f"{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}, PyG {torch_geometric.__version__}; "
        f"{args.graph}: {data.num_nodes:,} nodes, {data.num_edges:,} edges, {data.num_features} features; "
        f"{NUM_NEIGHBORS}, {args.batch_size} seeds a batch, {seeds.numel():,} seeds a round, {args.rounds} rounds"
    )
    for contestant in contestants:
        # PyG asks at each batch which backend there is, and takes pyg-lib where it has both.
        pyg.WITH_PYG_LIB = has_pyg_lib and "pyg-lib" in contestant.name
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Using 'NeighborSampler' without a 'pyg-lib'")
            contestant.loader = contestant.make()
        next(iter(contestant.loader))
        print(f"{contestant.name}: set up, first batch included, {time.perf_counter() - start:.2f} s")
    for number in range(args.rounds):
        print(f"round {number + 1} of {args.rounds}", file=sys.stderr, flush=True)
        for contestant in contestants:
            pyg.WITH_PYG_LIB = has_pyg_lib and "pyg-lib" in contestant.name
            contestant.times_s.append(contestant.epoch())

    for contestant in contestants:
        middle = sorted(contestant.times_s)[len(contestant.times_s) // 2]
        times = " ".join(f"{t:.2f}" for t in contestant.times_s)
        print(
            f"{contestant.name}: {middle:.3f} s a round, {contestant.num_edges / middle / 1e6:.2f} M sampled edges a "
            f"second with features, {contestant.num_edges:,} edges and {contestant.num_nodes:,} rows  ({times})"
        )
    failed = False
    for other in contestants[2:]:
        own = contestants[0] if "0 workers" in other.name else contestants[1]
        ratio = paired_ratio(other.times_s, own.times_s)
        print(f"{own.name} over {other.name} ratio={ratio.median:.1f} [{ratio.low:.1f}, {ratio.high:.1f}]")
        failed |= other.name == "PyG over torch-sparse, 0 workers" and ratio.median < BAR
    if not has_pyg_lib:
        print("pyg-lib is not installed (it is not on PyPI): not compared")
    print(f"bar: {BAR:g}x over torch-sparse, 0 workers: {'MISSED' if failed else 'met'}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
