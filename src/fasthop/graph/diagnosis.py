"""Diagnosis: all that is wrong or odd in a graph, its figures, and the file of it repaired."""

from __future__ import annotations

import dataclasses
import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fasthop.errors import InvalidConfig
from fasthop.files import write_file
from fasthop.graph.fault import Faults, Finding
from fasthop.graph.files import SUFFIXES
from fasthop.graph.graph import MASKS, Graph
from fasthop.graph.oddities import say_oddities
from fasthop.graph.parts import Parts
from fasthop.graph.sources import Source
from fasthop.graph.stats import GraphStats


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnosis:
    """What `diagnose` found.

    findings: errors, warnings and notes, in the order of the graph's parts. stats: figures of the sound parts.
    graph: the graph, repaired; None where an error has no single right repair.
    """

    name: str
    findings: tuple[Finding, ...]
    stats: GraphStats
    graph: Graph | None

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that `load_graph` refuses the graph for."""
        return tuple(found for found in self.findings if found.level == "error")

    @property
    def mendable(self) -> tuple[Finding, ...]:
        """The findings that `save` repairs."""
        return tuple(found for found in self.findings if found.is_mendable)

    def to_tree(self) -> dict[str, Any]:
        """The diagnosis ready for JSON."""
        return {
            "schema_version": 1,
            "name": self.name,
            "num_errors": len(self.errors),
            "findings": [
                {
                    "code": found.code,
                    "level": found.level,
                    "sentence": found.sentence,
                    "hint": found.hint,
                    "is_mendable": found.is_mendable,
                }
                for found in self.findings
            ],
            "statistics": dataclasses.asdict(self.stats),
        }

    def save(self, path: Path) -> tuple[str, ...]:
        """Writes the repaired graph as a .pt file of tensors alone, which `load_graph` and torch.load read.

        Returns the names of the extras that are no tensors, numbers or text, and were left out.
        Raises InvalidConfig for another ending, a file that is there already, or a graph that has an error without
        a single right repair; CannotWrite where it cannot be written.
        """
        check_target(path)
        if self.graph is None:
            raise InvalidConfig(
                f"{path} was not written: {self.name} has errors without a single right repair."
            )
        tree, left = _tree(self.graph)
        buffer = io.BytesIO()
        torch.save(tree, buffer)
        write_file(path, buffer.getvalue())
        return left


def check_target(path: Path) -> None:
    """Raises InvalidConfig unless a repaired graph may be written there: nothing is ever overwritten."""
    if path.suffix not in SUFFIXES:
        raise InvalidConfig(f"A repaired graph is a .pt file; {path} ends in {path.suffix or 'nothing'}.")
    if os.path.lexists(path):
        raise InvalidConfig(f"{path} is there already, and is not overwritten; name another file.")


def diagnose(
    data: Any,
    *,
    nodes: str | os.PathLike[str] | None = None,
    undirected: bool = False,
    root: str | os.PathLike[str] | None = None,
    split: int | str | None = None,
    seed: int = 0,
    unsafe: bool = False,
) -> Diagnosis:
    """Every fault of a graph, not only the first, with its figures. The arguments are those of `load_graph`.

    Raises GraphNotFound for what cannot be had, InvalidConfig for an option that cannot work.
    """
    faults = Faults(collecting=True)
    source = Source(
        data=data, nodes=nodes, undirected=undirected, root=root, split=split, seed=seed, unsafe=unsafe
    )
    parts = Parts(name="data")
    with faults.part():
        parts = source.parts(faults)
    parts.check(faults)
    stats = GraphStats.of(parts)
    say_oddities(parts, stats, faults)
    whole = all(found.is_mendable for found in faults.errors)
    return Diagnosis(
        name=parts.name,
        findings=tuple(faults.findings),
        stats=stats,
        graph=parts.graph(faults) if whole else None,
    )


def _tree(graph: Graph) -> tuple[dict[str, Any], tuple[str, ...]]:
    """A dict of tensors, numbers and text, and the names of the extras that are neither."""
    tree: dict[str, Any] = {
        "num_nodes": graph.num_nodes,
        "x": graph.x,
        "edge_index": graph.edge_index,
        "edge_weight": graph.edge_weight,
        "y": graph.y,
        **{name: getattr(graph, name) for name in MASKS},
        "class_names": None if graph.class_names is None else list(graph.class_names),
    }
    ids = graph.node_ids
    if ids is not None:
        tree["node_ids"] = ids.tolist() if ids.dtype.kind == "U" else torch.from_numpy(ids.copy())
    left = []
    for name, value in graph.extras.items():
        if isinstance(value, Tensor | int | float | str):
            tree[name] = value
        else:
            left.append(name)
    plain = {k: v.detach().clone() if isinstance(v, Tensor) else v for k, v in tree.items() if v is not None}
    return plain, tuple(left)
