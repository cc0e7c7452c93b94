"""A full batch's training step on a GPU: fasthop's kernels, a CUDA graph and mixed precision against PyG as written, by turns.

    python benchmarks/gpu.py [--cases cora PubMed arxiv] [--root DIR] [--rounds 15]

`cora` (bundled) and `PubMed` (Planetoid's files below --root): a two-layer GCN of 16; `arxiv` (`synthetic:arxiv`): three layers of
256. PyG's step is what a PyG user writes: the model over edge_index, cross-entropy on the training nodes, backward, Adam.
The others take the same model and start from the same parameters; the first losses of those in float32 are compared before
anything is timed. A recipe that does not apply says why. A ratio is PyG's time over the recipe's, paired round by round: the
median and its 95 % interval. Peak memory is the most that torch had allocated above what lay there before, from the
making of a step through its first calls, so that what a CUDA graph keeps for itself is counted; its ratio is PyG's over
the recipe's.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch_geometric

from fasthop import load_graph
from fasthop.graph.graph import Graph
from fasthop.machine.clock import synchronizer
from fasthop.measure.compare import paired_ratio
from fasthop.noise import silence
from fasthop.rewrites.amp import Amp
from fasthop.rewrites.base import Inapplicable, Rung
from fasthop.rewrites.cache_norm import CacheNorm
from fasthop.rewrites.csr_spmm import CsrSpmm
from fasthop.rewrites.cuda_graph import CudaGraph
from fasthop.rewrites.ladder import Recipe
from fasthop.search.bench_task import place
from fasthop.train.loop import run_epoch
from fasthop.train.models import GCN
from fasthop.train.setup import Setup
from fasthop.train.task import Task

ROOT = Path(__file__).resolve().parents[2] / "shared" / "data" / "planetoid"
CASES = {"cora": ("cora", 16, 2), "PubMed": ("planetoid:PubMed", 16, 2), "arxiv": ("synthetic:arxiv", 256, 3)}
NUM_COMPARED = 5
# The first losses, relative: float32 summed in another order over a few layers and steps.
TOLERANCE = 1e-3
MIN_SAMPLE_S = 0.02
SEED = 0

_OURS: tuple[Rung, ...] = (CacheNorm(), CsrSpmm())
RECIPES = (
    Recipe(name="PyG"),
    Recipe(name="PyG bf16", rungs=(Amp(dtype="bfloat16"),)),
    Recipe(name="PyG fp16", rungs=(Amp(dtype="float16"),)),
    Recipe(name="csr_spmm", rungs=_OURS),
    Recipe(name="csr_spmm bf16", rungs=(*_OURS, Amp(dtype="bfloat16"))),
    Recipe(name="csr_spmm fp16", rungs=(*_OURS, Amp(dtype="float16"))),
    Recipe(name="cuda_graph", rungs=(*_OURS, CudaGraph())),
    Recipe(name="cuda_graph bf16", rungs=(*_OURS, Amp(dtype="bfloat16"), CudaGraph())),
)


class Contestant:
    """One recipe on one task: its step, ready to be called, and what it allocated at most until then."""

    def __init__(self, recipe: Recipe, task: Task, device: torch.device) -> None:
        """Raises Inapplicable with the reason where a rung does not apply."""
        self.name = recipe.name
        self.is_float32 = not any(isinstance(rung, Amp) for rung in recipe.rungs)
        self.setup = recipe.on(Setup.baseline(task, seed=SEED, device=device))
        self.setup.restart(SEED)
        gc.collect()
        torch.cuda.empty_cache()
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        self.step = self.setup.step()
        self.losses = [float(self.epoch()) for _ in range(NUM_COMPARED)]
        self.peak_bytes = torch.cuda.max_memory_allocated(device) - before

    def epoch(self) -> torch.Tensor:
        """One epoch, which is one step; the loss."""
        return run_epoch(self.step, self.setup.batches)


def contestants(task: Task, device: torch.device, name: str) -> list[Contestant]:
    """Those that apply, PyG first; the reasons of the others are printed."""
    entered = []
    for recipe in RECIPES:
        try:
            entered.append(Contestant(recipe, task, device))
        except Inapplicable as why:
            print(f"{name} {recipe.name}: does not apply: {why.reason['en']}", flush=True)
    return entered


def run(task: Task, device: torch.device, name: str, rounds: int) -> None:
    """Compares the losses, times by turns, and prints the ratios."""
    entered = contestants(task, device, name)
    pyg, others = entered[0], entered[1:]
    for other in others:
        for mine, theirs in zip(other.losses, pyg.losses, strict=True):
            error = abs(mine - theirs) / abs(theirs)
            assert not other.is_float32 or error < TOLERANCE, f"{other.name} differs by {error:.1e} on {name}"
    wait = synchronizer(device)

    def sample(call: Callable[[], object], repeats: int) -> float:
        wait()
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        wait()
        return (time.perf_counter() - start) / repeats

    repeats = {one.name: max(1, round(MIN_SAMPLE_S / sample(one.epoch, 3))) for one in entered}
    times: dict[str, list[float]] = {one.name: [] for one in entered}
    for _ in range(rounds):
        for one in entered:
            times[one.name].append(sample(one.epoch, repeats[one.name]))
    shown = ", ".join(f"{one} {statistics.median(t) * 1e3:.3f} ms" for one, t in times.items())
    print(f"{name}: {shown}")
    for other in others:
        ratio = paired_ratio(times[pyg.name], times[other.name])
        print(f"{name} {other.name} ratio={ratio.median:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]", flush=True)
    shown = ", ".join(f"{one.name} {one.peak_bytes / 1e6:.1f} MB" for one in entered)
    print(f"{name} peak memory: {shown}")
    for other in others:
        print(
            f"{name} {other.name} peak memory ratio={pyg.peak_bytes / max(other.peak_bytes, 1):.2f}",
            flush=True,
        )


def task_of(graph: Graph, hidden_channels: int, num_layers: int) -> Task:
    """Node classification by a GCN without dropout, so that losses can be compared."""
    num_features, num_classes = graph.num_features, graph.num_classes
    assert num_features is not None
    return Task(
        graph=graph,
        make_model=lambda: GCN(
            num_features, hidden_channels, num_classes, num_layers=num_layers, dropout=0.0
        ),
    )


def main() -> None:
    """Runs the benchmark and prints its figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--root", type=Path, default=ROOT, help="the folder with Planetoid's files")
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit(
            "benchmarks/gpu.py measures an NVIDIA GPU, and torch finds none here; run it on a machine that has one, with "
            "torch's CUDA wheel."
        )
    silence()
    device = torch.device("cuda", torch.cuda.current_device())
    print(
        f"{torch.cuda.get_device_name(device)}, torch {torch.__version__}, CUDA {torch.version.cuda}, PyG "
        f"{torch_geometric.__version__}, {args.rounds} rounds"
    )
    for case in args.cases:
        source, hidden_channels, num_layers = CASES[case]
        needs_root = source.startswith("planetoid:")
        if needs_root and not args.root.is_dir():
            print(f"gpu {case}: left out, because Planetoid's files are not at {args.root}; give --root.")
            continue
        graph = place(load_graph(source, root=args.root if needs_root else None), device)
        name = f"gpu {case} x {hidden_channels}"
        run(task_of(graph, hidden_channels, num_layers), device, name, args.rounds)


if __name__ == "__main__":
    main()
