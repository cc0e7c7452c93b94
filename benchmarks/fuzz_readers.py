"""Fuzzes every reader of graphs: sound inputs, sound ones in odd forms, and damaged, faulty and hostile ones.

    python benchmarks/fuzz_readers.py [--inputs 12000] [--seed 0] [--out benchmarks/results/fuzz_readers.txt]

Each input is loaded and diagnosed. It may load, and then the graph keeps every promise of Graph and, where its true
content is known, equals it; or it is refused in a sentence (a FasthopError). Anything else is a fault of ours, and so
is a disagreement between load_graph and diagnose. Exits with 1 where there was one. tests/graph/test_fuzz.py runs the
same cases under hypothesis.
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

from fasthop.errors import FasthopError
from fasthop.graph.diagnosis import diagnose
from fasthop.graph.graph import Graph
from fasthop.graph.sources import load_graph
from fuzz_inputs import READERS
from fuzz_truth import RAN


def promises(graph: Graph) -> None:
    """Raises where a loaded graph breaks what Graph promises; the constructor checks most of it."""
    dataclasses.replace(graph)
    assert graph.csr.num_edges == graph.csr_t.num_edges == graph.num_edges
    assert graph.edge_index.is_contiguous()
    assert graph.edge_index.shape == (2, graph.num_edges)
    assert graph.y.size(0) == graph.num_nodes
    assert bool(graph.labelled[graph.train_mask | graph.val_mask | graph.test_mask].all())
    for said in graph.notes:
        assert said["en"]
        assert said["zh"]


def outcome(reader: str, rnd: random.Random, folder: Path) -> str:
    """What became of one input: "loaded", "refused", or what is wrong, which no input may bring about."""
    arguments, true, must_load = READERS[reader](rnd, folder)
    RAN.clear()
    refused: FasthopError | None = None
    graph = None
    try:
        if "scipy" in arguments:
            graph = Graph.from_scipy(arguments.pop("scipy"), **arguments)
        else:
            graph = load_graph(**arguments)
            promises(graph)
    except FasthopError as error:
        refused = error
    except Exception as error:
        return f"other: {type(error).__name__}: {' '.join(str(error).split())[:160]}"
    if RAN:
        return "other: code out of the file ran"
    if "data" in arguments:
        try:
            found = diagnose(**arguments)
        except FasthopError:
            if refused is None:
                return "other: diagnose refused what load_graph took"
        except Exception as error:
            return f"other: diagnose: {type(error).__name__}: {' '.join(str(error).split())[:160]}"
        else:
            if bool(found.errors) != (refused is not None):
                return "other: load_graph and diagnose disagree"
    if refused is not None:
        return f"other: a sound input was refused: {refused}" if must_load else "refused"
    assert graph is not None
    wrong = None if true is None else true.holds(graph)
    return f"other: wrong silence, {wrong} is not what was written" if wrong else "loaded"


def main() -> int:
    parser = argparse.ArgumentParser(description="Fuzzes every reader of graphs.")
    parser.add_argument("--inputs", type=int, default=12_000, help="how many in all (default: 12000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--readers", default=",".join(READERS), help="which, with commas between (default: all)"
    )
    parser.add_argument("--out", type=Path, help="a file for the table as well")
    options = parser.parse_args()
    readers = options.readers.split(",")
    counts: dict[str, Counter[str]] = {name: Counter() for name in readers}
    wrong: list[str] = []
    with tempfile.TemporaryDirectory(prefix="fasthop-fuzz-") as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(options.inputs):
            reader = readers[number % len(readers)]
            said = outcome(reader, random.Random(f"{options.seed}-{number}"), Path(name))
            counts[reader][said.partition(":")[0]] += 1
            if said.startswith("other"):
                wrong.append(f"{reader}, input {number}: {said}")
                print(wrong[-1], file=sys.stderr, flush=True)
            if sys.stderr.isatty() and number % 100 == 0:
                print(f"\r{number:,} of {options.inputs:,}", end="", file=sys.stderr, flush=True)
    lines = [
        f"{options.inputs:,} inputs, seed {options.seed}",
        f"{'reader':10} {'loaded':>8} {'refused':>8} {'other':>8}",
    ]
    for reader, own in [*counts.items(), ("all", sum(counts.values(), Counter()))]:
        lines.append(f"{reader:10} {own['loaded']:8,} {own['refused']:8,} {own['other']:8,}")
    lines += wrong
    print("\n".join(lines))
    if options.out is not None:
        options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
