"""Does `fasthop.profile` tell noise from change? Ten tries of each kind, and the counts.

A/A: two copies of one closure must come out as "no significant change" in at least 9 of 10 tries.
A/B: a copy that is 20 % slower must be found in each of 10 tries.

The closure is an epoch of PyG's two-layer GCN (16 hidden) on a random graph of Cora's size. The
slowdown spins for a fifth of the time that the epoch just took.

    python benchmarks/profile_aa.py [--tries 10] [--epochs 50] [--nodes 2708] [--threads 1] > benchmarks/results/profile_aa.txt
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

import torch
from torch_geometric.nn import GCNConv

from fasthop.machine.fingerprint import fingerprint
from fasthop.measure.compare import is_significant
from fasthop.measure.profile import profile
from fasthop.measure.profile_text import ratio_text

NUM_FEATURES, NUM_CLASSES, HIDDEN_CHANNELS = 1433, 7, 16
SLOWDOWN = 0.2
BAR_AA = 0.9


def make_data(num_nodes: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """x, edge_index and y of a random graph with four directed edges a node."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(num_nodes, NUM_FEATURES, generator=generator)
    edge_index = torch.randint(num_nodes, (2, 4 * num_nodes), generator=generator)
    y = torch.randint(NUM_CLASSES, (num_nodes,), generator=generator)
    return x, edge_index, y


def make_step(x: torch.Tensor, edge_index: torch.Tensor, y: torch.Tensor) -> Callable[[], None]:
    """A closure that does one epoch; each call makes a copy with a model of its own on the same data."""
    torch.manual_seed(0)
    first, second = GCNConv(NUM_FEATURES, HIDDEN_CHANNELS), GCNConv(HIDDEN_CHANNELS, NUM_CLASSES)
    parameters = [*first.parameters(), *second.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=0.01, weight_decay=5e-4)

    def step() -> None:
        optimizer.zero_grad()
        out = second(first(x, edge_index).relu(), edge_index)
        torch.nn.functional.cross_entropy(out, y).backward()
        optimizer.step()

    return step


def slowed(step: Callable[[], None]) -> Callable[[], None]:
    """The step, and a spin of a fifth of the time that it took."""

    def slow_step() -> None:
        start = time.perf_counter()
        step()
        end = start + (1 + SLOWDOWN) * (time.perf_counter() - start)
        while time.perf_counter() < end:
            pass

    return slow_step


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tries", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--nodes", type=int, default=2708)
    parser.add_argument(
        "--threads", type=int, default=1, help="several fight for the cores of a busy machine"
    )
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    machine = fingerprint()
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    print(
        f"{machine['cpu']['model']}, {machine['cpu']['usable_cores']} cores, {options.threads} used, "
        f"torch {torch.__version__}, load {load} at the start"
    )
    print(
        f"PyG's two-layer GCN, {options.nodes} nodes, {options.epochs} epochs of each of the two, in turns\n"
    )
    data = make_data(options.nodes)
    quiet = found = 0
    for kind in ("A/A", "A/B"):
        for attempt in range(options.tries):
            a, b = make_step(*data), make_step(*data)
            comparison = profile(
                {"a": a, "b": b if kind == "A/A" else slowed(b)}, epochs=options.epochs, memory=False
            )
            ratio = comparison.ratios["b"]
            significant = is_significant(ratio)
            quiet += kind == "A/A" and not significant
            found += kind == "A/B" and significant and ratio.median < 1
            epoch_ms = comparison["a"].time_per_epoch_ms.median
            print(
                f"{kind} {attempt + 1:2d}  a: {epoch_ms:5.2f} ms an epoch  b against a: {ratio_text(ratio)}",
                flush=True,
            )
    print(f"\ntwo copies of one closure: no significant change in {quiet} of {options.tries} tries")
    print(f"a planted slowdown of 20 %: found in {found} of {options.tries} tries")
    if quiet < BAR_AA * options.tries or found < options.tries:
        raise SystemExit("the bar is 9 of 10 and 10 of 10: missed")


if __name__ == "__main__":
    main()
