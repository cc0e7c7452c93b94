"""The exact rungs against PyG as written: training steps, peak memory and the share of the floor, in one run, by turns.

    python benchmarks/exact.py [--only NAME ...] [--quick] [--json FILE] [--root DIR] [--rounds N] [--reorder] [--list]

PyG's side is the plain step of a PyG user: model(x, edge_index), cross-entropy on the training nodes, backward, Adam (lr 0.01,
weight decay 5e-4), float32. fasthop's side does the same number of steps with the exact rungs (`reorder_nodes` only with
--reorder), the rows marked "no receptive_field" without that one. The models are fasthop.train.models; dropout is 0
but in the rows that name it. Before timing both start from the same parameters, dropout off, and the losses of the first
steps are compared: loss_diff is the largest relative difference, which grows with the steps as float32 has it. A ratio is PyG's time over fasthop's, paired round by
round: the median and its 95 % interval. floor_share is the floor (fasthop.search.cost; peaks measured anew before each row)
over fasthop's median. peak_ratio is fasthop's peak of live bytes over PyG's, both above the task's inputs (x,
edge_index, y, masks), with all that fasthop keeps between steps counted.

The rows "accelerate" run the plain script of exact_script.py, once as it is and once with its two lines changed.
--quick takes a graph of 6,000 nodes in place of synthetic:arxiv and few rounds: a check that all runs, not a measurement.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from exact_rows import Row, table
from exact_script import changed_script, plain_script
from exact_sides import CPU, Graphs, Options, Step, baseline, inputs_of, rewritten, rungs_of, say, stepping
from fasthop.errors import NotApplicable
from fasthop.graph.graph import Graph
from fasthop.machine.fingerprint import fingerprint
from fasthop.machine.memory import PeakMemory, measure_peak
from fasthop.machine.peaks import machine_peaks
from fasthop.measure.compare import MIN_ROUNDS, paired_ratio
from fasthop.noise import silence
from fasthop.search.cost import measure_copy_rates
from fasthop.search.step_cost import step_floor
from fasthop.train.setup import Setup

SAMPLE_S = 0.25  # of PyG's side, in steps
LONG_STEP_S = 1.0
BASELINE_LIMIT_BYTES = 20e9
SPARE_BYTES = 2e9
# --- measuring ---------------------------------------------------------------------------------------------------


def compared(first: Step, second: Step, num_steps: int) -> dict[str, Any]:
    """The relative differences of the losses of both: of the first step, and the largest of the first few."""
    losses = [(first(), second()) for _ in range(num_steps)]
    differences = [abs(a - b) / max(abs(a), 1e-12) for a, b in losses]
    return {
        "loss_diff_first": differences[0],
        "loss_diff": max(differences),
        "num_compared": num_steps,
        "losses": losses,
    }


def once(step: Step) -> float:
    """Seconds of one step."""
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def by_turns(sides: tuple[Step, Step], rounds: int, label: str) -> tuple[list[float], list[float], int]:
    """Seconds a step of each side in each round, and the steps of a round: the same number on both sides."""
    once_s = once(sides[0])
    if (
        once_s < LONG_STEP_S
    ):  # the quickest of a few: a busy machine must not decide how many steps a round has
        once_s = min(once(sides[0]) for _ in range(5))
    sides[1]()
    num_steps = max(1, round(SAMPLE_S / once_s))
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(rounds):
        for side in (0, 1) if turn % 2 == 0 else (1, 0):
            start = time.perf_counter()
            for _ in range(num_steps):
                sides[side]()
            times[side].append((time.perf_counter() - start) / num_steps)
        if once_s > LONG_STEP_S:
            say(f"{label}: round {turn + 1} of {rounds}, {times[0][-1]:.1f} s and {times[1][-1]:.2f} s")
    return *times, num_steps


def num_rounds(options: Options, once_s: float) -> int:
    """15, fewer where PyG's step is long."""
    if options.rounds is not None:
        return options.rounds
    return MIN_ROUNDS if options.quick or once_s > LONG_STEP_S else 15


def peak_of(make: Callable[[], Setup], graph: Graph) -> PeakMemory:
    """Of a side that is alone in the process, built anew for it."""
    setup = make()
    step = stepping(setup)
    peak = measure_peak(step, resident=inputs_of(graph), device=CPU)
    del setup, step
    gc.collect()
    return peak


def measured(row: Row, graph: Graph, options: Options) -> dict[str, Any]:
    """One row of the table."""
    result: dict[str, Any] = {"name": row.name, "graph": graph.name, "bar": row.bar, "dropout": row.dropout}
    if row.peak_bar is not None:
        say(f"{row.name}: peak memory")
        theirs = peak_of(lambda: baseline(graph, row), graph)
        ours = peak_of(lambda: rewritten(graph, row, options), graph)
        result |= {"peak_bar": row.peak_bar, "peak_ratio": ours.peak_bytes / theirs.peak_bytes}
        for side, peak in (("pyg", theirs), ("fasthop", ours)):
            result |= {f"{side}_peak_bytes": peak.peak_bytes, f"{side}_rest_bytes": peak.rest_bytes}
    say(f"{row.name}: building and comparing losses")
    peaks, copy_rates = machine_peaks(remeasure=True), measure_copy_rates()
    start = time.perf_counter()
    pair = baseline(graph, row, dropout=0.0), rewritten(graph, row, options, dropout=0.0)
    result["prepare_s"] = time.perf_counter() - start
    num_compared = 3 if graph.num_nodes > 100_000 else 20
    result |= compared(stepping(pair[0]), stepping(pair[1]), num_compared)
    plain = pair[0] if row.dropout == 0 else baseline(graph, row)
    fast = pair[1] if row.dropout == 0 else rewritten(graph, row, options)
    del pair
    sides = stepping(plain), stepping(fast)
    times = by_turns(sides, num_rounds(options, once(sides[0])), row.name)
    floor = None
    try:
        floor = step_floor(fast, peaks, copy_rates=copy_rates)
    except NotApplicable as why:
        say(f"{row.name}: {why}")
    return result | timed(times[0], times[1], times[2], floor) | {"rungs": rungs_of(fast)}


def timed(theirs: list[float], ours: list[float], num_steps: int, floor_ms: float | None) -> dict[str, Any]:
    """The figures of paired times."""
    ratio = paired_ratio(theirs, ours)
    ours_ms = 1e3 * statistics.median(ours)
    return {
        "ratio": ratio.median,
        "low": ratio.low,
        "high": ratio.high,
        "pyg_ms": 1e3 * statistics.median(theirs),
        "fasthop_ms": ours_ms,
        "floor_ms": floor_ms,
        "floor_share": None if floor_ms is None else floor_ms / ours_ms,
        "rounds": len(ours),
        "steps_a_round": num_steps,
    }


def accelerated(row: Row, graph: Graph, options: Options) -> dict[str, Any]:
    """The plain script and the one with two lines changed, each as it is read from its file."""
    say(f"{row.name}: running both scripts")
    data = graph.to_data()
    pairs = [
        (plain_script(data, dropout=rate), changed_script(data, dropout=rate))
        for rate in dict.fromkeys((0.0, row.dropout))
    ]
    (plain, changed), (first_plain, first_changed) = pairs[-1], pairs[0]
    result: dict[str, Any] = {"name": row.name, "graph": graph.name, "bar": row.bar, "dropout": row.dropout}
    result |= compared(first_plain.train, first_changed.train, 20)
    times = by_turns((plain.train, changed.train), num_rounds(options, 0.0), row.name)
    fast = changed.fast
    cost_s = fast.cost_s
    result |= timed(times[0], times[1], times[2], None)
    gain_s = statistics.median(times[0]) - statistics.median(times[1])
    result |= {"cost_s": cost_s, "pays_after_steps": cost_s / gain_s if gain_s > 0 else None}
    result |= {"rungs": list(fast.used), "test": [plain.test(), changed.test()]}
    return result


def widest_gat(row: Row, graph: Graph, options: Options) -> Row:
    """The row with the widest heads whose baseline fits: PyG's peak is edges x heads x channels x bytes times the copies
    that are alive at once, and a rest; both follow from its peak at two small widths."""
    limit = 3e8 if options.quick else min(BASELINE_LIMIT_BYTES, available_bytes() - SPARE_BYTES)
    small = (16, 32)  # the first layer is then wider than the last, and the peak lies in it
    found = [peak_of(lambda w=w: baseline(graph, row.at_width(w)), graph).peak_bytes for w in small]
    slope = (found[1] - found[0]) / (small[1] - small[0])
    width = int((limit - found[0]) / slope) + small[0]
    a_copy = 8 * 4 * (graph.num_edges + graph.num_nodes)
    say(
        f"{row.name}: PyG's peak grows by {slope / 1e6:.0f} MB a channel ({slope / a_copy:.1f} copies of edges x heads x "
        f"channels); {limit / 1e9:.1f} GB hold 8 heads of {width}"
    )
    return row.at_width(max(width, 1))


def available_bytes() -> float:
    """What the system says is free."""
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return float(line.split()[1]) * 1024
    return BASELINE_LIMIT_BYTES


# --- the report --------------------------------------------------------------------------------------------------


def line_of(result: dict[str, Any]) -> str:
    """One line a row, `name ratio=…` first."""
    if "skipped" in result:
        return f"{result['name']} skipped: {result['skipped']}"
    share = result["floor_share"]
    parts = [
        f"{result['name']} ratio={result['ratio']:.2f} [{result['low']:.2f}, {result['high']:.2f}] bar={result['bar']:g}",
        "met" if result["ratio"] >= result["bar"] else "MISSED",
        "floor_share=-" if share is None else f"floor_share={share:.2f}",
    ]
    if "peak_ratio" in result:
        parts.append(f"peak_ratio={result['peak_ratio']:.3f} peak_bar={result['peak_bar']:.3f}")
        parts.append("met" if result["peak_ratio"] <= result["peak_bar"] else "MISSED")
        parts.append(f"peaks={result['pyg_peak_bytes'] / 1e6:.1f},{result['fasthop_peak_bytes'] / 1e6:.1f}MB")
        parts.append(
            f"at_rest={result['pyg_rest_bytes'] / 1e6:.1f},{result['fasthop_rest_bytes'] / 1e6:.1f}MB"
        )
    parts.append(f"ms={result['pyg_ms']:.4g},{result['fasthop_ms']:.4g}")
    parts.append(
        f"loss_diff={result['loss_diff']:.1e} (first step {result['loss_diff_first']:.1e}, {result['num_compared']} steps) "
        f"dropout={result['dropout']:g}"
    )
    parts.append(f"rounds={result['rounds']}x{result['steps_a_round']}")
    if "cost_s" in result:
        pays = result["pays_after_steps"]
        parts.append(f"cost={result['cost_s']:.1f}s pays_after={'never' if pays is None else f'{pays:.0f}'}")
    return " ".join(parts)


def run(row: Row, graphs: Graphs, options: Options) -> dict[str, Any]:
    """Measures one row, or says why not."""
    if row.against == "SparseTensor" and importlib.util.find_spec("torch_sparse") is None:
        return {"name": row.name, "skipped": "torch_sparse is not installed"}
    if row.graph.startswith("planetoid:") and not (options.root / row.graph.partition(":")[2]).is_dir():
        return {"name": row.name, "skipped": f"{options.root} has no {row.graph}"}
    graph = graphs(row.graph)
    if row.kind == "accelerate":
        return accelerated(row, graph, options)
    return measured(widest_gat(row, graph, options) if row.is_widest else row, graph, options)


def main() -> None:
    """Runs the rows and prints a line for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [row.name for row in table()]
    shared = Path(os.environ.get("FASTHOP_SHARED", Path(__file__).parents[2] / "shared"))
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", default=names)
    parser.add_argument("--list", action="store_true", help="print the names of the rows and end")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--root", type=Path, default=shared / "data" / "planetoid")
    parser.add_argument("--rounds", type=int, help=f"at least {MIN_ROUNDS}")
    parser.add_argument("--reorder", action="store_true", help="with the rung reorder_nodes")
    args = parser.parse_args()
    if args.list:
        print("\n".join(names))
        return
    if args.rounds is not None and args.rounds < MIN_ROUNDS:
        parser.error(f"--rounds is {args.rounds}; an interval needs at least {MIN_ROUNDS}.")
    silence()
    options = Options(quick=args.quick, rounds=args.rounds, reorder=args.reorder, root=args.root)
    machine = fingerprint()
    print(
        f"{machine['cpu']['model']}, {machine['cpu']['usable_cores']} cores, {torch.get_num_threads()} threads, torch "
        f"{torch.__version__}, float32, load {os.getloadavg()[0]:.1f} at the start{', QUICK' if args.quick else ''}",
        flush=True,
    )
    graphs, results = Graphs(options), []
    for row in [row for row in table() if row.name in args.only]:
        results.append(run(row, graphs, options))
        gc.collect()
        print(line_of(results[-1]), flush=True)
        if args.json is not None:
            kept = {"machine": machine, "quick": args.quick, "reorder": args.reorder, "rows": results}
            part = args.json.with_suffix(".part")
            part.write_text(json.dumps(kept, indent=1, default=str), encoding="utf-8")
            part.replace(args.json)


if __name__ == "__main__":
    main()
