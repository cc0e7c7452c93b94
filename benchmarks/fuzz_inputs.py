"""One input for each reader of graphs, drawn from a random stream: what fuzz_readers.py loads and diagnoses."""

from __future__ import annotations

import csv
import io
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from fasthop.graph.graph import MASKS
from fuzz_truth import (
    HOSTILE_PICKLES,
    JUNK_CELLS,
    Hostile,
    Truth,
    damaged,
    fields_of,
    is_multilabel,
    junk,
    odd_forms,
    saved,
    truth,
)

# load_graph's arguments, the truth where it is known, and whether the input is so plain that it must load.
Input = tuple[dict[str, Any], Truth | None, bool]


def pt(rnd: random.Random, folder: Path) -> Input:
    path, true, known = folder / "graph.pt", truth(rnd), True
    fields, plain = fields_of(true), True
    kind = rnd.randrange(6)
    if kind == 1:
        odd_forms(fields, rnd)
        plain = False
    elif kind == 2:
        for _ in range(rnd.randint(1, 3)):
            fields[rnd.choice((*fields, "adj_t", "node_ids", "batch", "year", "ptr"))] = junk(rnd)
        known = False
    content = saved(fields if rnd.random() < 0.5 else Data(**fields))
    if kind == 3:
        content, known = damaged(content, rnd), False
    elif kind == 4:
        content, known = rnd.choice(HOSTILE_PICKLES)(), False
    path.write_bytes(content)
    return {"data": path}, true if known else None, plain and known


def as_arrays(fields: dict[str, Any]) -> dict[str, np.ndarray]:
    found = {}
    for name, value in fields.items():
        if isinstance(value, torch.Tensor):
            dense = value.to_dense()
            found[name] = (dense.float() if dense.dtype is torch.bfloat16 else dense).numpy()
        elif value is not None:
            try:
                found[name] = np.asarray(value)
            except (ValueError, TypeError, RuntimeError):
                found[name] = np.array([str(value)], dtype=object)
    return found


def npz(rnd: random.Random, folder: Path) -> Input:
    layout = rnd.choice(("edge_index", "compressed", "heterophilous"))
    true = truth(rnd, undirected=layout == "heterophilous")
    fields, options, known, plain = fields_of(true), {}, True, True
    kind = rnd.randrange(5)
    if layout == "heterophilous":
        split = rnd.randrange(10)
        options["split"] = split
        del fields["edge_index"], fields["num_nodes"]
        arrays = {"edges": np.array(true.edges, dtype=np.int64).reshape(-1, 2)}
        for part, name in enumerate(MASKS):
            del fields[name]
            masks = np.array([[rnd.random() < 0.5 for _ in range(true.num_nodes)] for _ in range(10)])
            masks[split] = true.mask(part)
            arrays[f"{name}s"] = masks
        arrays["node_labels"] = fields.pop("y").numpy()
        if "x" in fields:
            arrays["node_features"] = fields.pop("x").numpy()
        true.edges += [(b, a) for a, b in true.edges if a != b]
    elif layout == "compressed":
        index = fields.pop("edge_index")
        order = torch.argsort(index[0], stable=True)
        counts = torch.bincount(index[0], minlength=true.num_nodes)
        names = rnd.choice(
            (
                ("adj_indptr", "adj_indices", "adj_data"),
                ("indptr", "indices", "data"),
                ("rowptr", "col", "value"),
            )
        )
        fields[names[0]] = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
        fields[names[1]] = index[1][order]
        weight = fields.pop("edge_weight", None)
        if weight is not None:
            fields[names[2]] = weight[order]
        arrays = as_arrays(fields)
    else:
        if kind == 1:
            odd_forms(fields, rnd)
            plain = False
        arrays = as_arrays(fields)
    if kind == 2:
        for _ in range(rnd.randint(1, 3)):
            arrays |= as_arrays(
                {rnd.choice((*arrays, "shape", "format", "num_nodes", "row", "node_ids")): junk(rnd)}
            )
        known = False
    elif kind == 3 and rnd.random() < 0.3:
        arrays[rnd.choice(list(arrays))] = np.array([Hostile()], dtype=object)
        known = False
    buffer = io.BytesIO()
    rnd.choice((np.savez, np.savez_compressed))(buffer, **arrays)  # type: ignore[operator]
    content = buffer.getvalue()
    if kind == 4:
        content, known = damaged(content, rnd), False
    (folder / "graph.npz").write_bytes(content)
    return {"data": folder / "graph.npz", **options}, true if known else None, plain and known


def columns_of(true: Truth, rnd: random.Random) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """The columns of the edges and of the nodes."""
    edges: dict[str, list[Any]] = {
        "source": [true.ids[a] for a, _ in true.edges],
        "target": [true.ids[b] for _, b in true.edges],
    }
    if true.weights is not None:
        edges["weight"] = true.weights
    nodes: dict[str, list[Any]] = {"id": true.ids}
    if is_multilabel(true):
        for column in range(2):
            nodes[f"label_{column}"] = [None if row[0] < 0 else int(row[column]) for row in true.y]
    elif rnd.random() < 0.5:
        nodes["label"] = [None if label < 0 else label for label in true.y]
    else:
        nodes["label"] = [None if label < 0 else f"class {label}" for label in true.y]
    if true.x is not None:
        for column in range(len(true.x[0])):
            nodes[f"f{column}"] = [row[column] for row in true.x]
    nodes["split"] = [None if part is None else ("train", "val", "test")[part] for part in true.parts]
    return edges, nodes


def text_of(columns: dict[str, list[Any]], delimiter: str, rnd: random.Random, *, faults: int) -> bytes:
    rows = [list(columns), *([*row] for row in zip(*columns.values(), strict=True))]
    rows = [["" if cell is None else cell for cell in row] for row in rows]
    for _ in range(faults):
        row = rnd.choice(rows)
        kind = rnd.randrange(5)
        if kind == 0:
            rows.append(list(rnd.choice(rows)))
        elif kind == 1 and row:
            del row[rnd.randrange(len(row))]
        elif kind == 2:
            row.append(rnd.choice(JUNK_CELLS))
        elif row:
            row[rnd.randrange(len(row))] = rnd.choice(JUNK_CELLS)
    buffer = io.StringIO()
    csv.writer(buffer, delimiter=delimiter, lineterminator=rnd.choice(("\n", "\r\n"))).writerows(rows)
    return buffer.getvalue().encode()


def text_tables(rnd: random.Random, folder: Path, suffix: str, delimiter: str) -> Input:
    true = truth(rnd)
    kind = rnd.randrange(4)
    columns = columns_of(true, rnd)
    which = rnd.randrange(2)
    paths = [folder / f"{stem}{suffix}" for stem in ("edges", "nodes")]
    for place, (path, own) in enumerate(zip(paths, columns, strict=True)):
        here = place == which
        content = text_of(own, delimiter, rnd, faults=rnd.randint(1, 3) if kind == 1 and here else 0)
        if kind == 2 and here:
            content = damaged(content, rnd)
        path.write_bytes(content)
    known = kind in (0, 3)
    return {"data": paths[0], "nodes": paths[1]}, true if known else None, known


def csv_tables(rnd: random.Random, folder: Path) -> Input:
    return text_tables(rnd, folder, ".csv", ",")


def tsv_tables(rnd: random.Random, folder: Path) -> Input:
    return text_tables(rnd, folder, ".tsv", "\t")


def parquet_tables(rnd: random.Random, folder: Path) -> Input:
    true = truth(rnd)
    kind, which = rnd.randrange(4), rnd.randrange(2)
    paths = [folder / f"{stem}.parquet" for stem in ("edges", "nodes")]
    for place, (path, own) in enumerate(zip(paths, columns_of(true, rnd), strict=True)):
        arrays = {name: pa.array(cells, from_pandas=False) for name, cells in own.items()}
        if not true.edges and place == 0:
            arrays = {
                name: array.cast(pa.float64() if name == "weight" else pa.string())
                for name, array in arrays.items()
            }
        if kind == 1 and place == which:
            name = rnd.choice(list(arrays))
            cells = [rnd.choice((None, 1, -2)) for _ in own[name]]
            odd: list[Callable[[], pa.Array]] = [
                lambda cells=cells: pa.array(cells, pa.int8()),
                lambda cells=cells: pa.array([None if c is None else float(c) for c in cells]),
                lambda cells=cells: pa.array([[c] for c in cells]),
                lambda cells=cells: pa.array([{"a": c} for c in cells]),
                lambda cells=cells: pa.array([None if c is None else c > 0 for c in cells]),
                lambda cells=cells: pa.array([None if c is None else bytes([c + 2]) for c in cells]),
                lambda cells=cells: pa.array([None] * len(cells)),
                lambda cells=cells: pa.array([rnd.choice(JUNK_CELLS) for _ in cells]),
                lambda cells=cells: pa.array(cells, pa.timestamp("s")),
            ]
            arrays[name] = rnd.choice(odd)()
        pq.write_table(pa.table(arrays), path, compression=rnd.choice(("none", "snappy")))
        if kind == 2 and place == which:
            path.write_bytes(damaged(path.read_bytes(), rnd))
    known = kind in (0, 3)
    return {"data": paths[0], "nodes": paths[1]}, true if known else None, known


def data_objects(rnd: random.Random, folder: Path) -> Input:
    true = truth(rnd)
    fields = fields_of(true)
    kind = rnd.randrange(3)
    if kind == 1:
        odd_forms(fields, rnd)
    elif kind == 2:
        for _ in range(rnd.randint(1, 3)):
            fields[rnd.choice((*fields, "adj_t", "edge_attr", "node_ids", "x_s", "year"))] = junk(rnd)
    return {"data": Data(**fields)}, true if kind < 2 else None, kind == 0


def networkx_graphs(rnd: random.Random, folder: Path) -> Input:
    true = truth(rnd)
    graph = nx.MultiDiGraph()
    for number, name in enumerate(true.ids):
        label = true.y[number]
        y = (
            ([math.nan, math.nan] if label[0] < 0 else label)
            if is_multilabel(true)
            else (None if label < 0 else label)
        )
        attributes = {
            "y": y,
            "split": (None if true.parts[number] is None else ("train", "val", "test")[true.parts[number]]),
        }
        if true.x is not None:
            attributes["x"] = true.x[number]
        graph.add_node(name, **{key: value for key, value in attributes.items() if value is not None})
    for number, (a, b) in enumerate(true.edges):
        graph.add_edge(
            true.ids[a], true.ids[b], **({} if true.weights is None else {"weight": true.weights[number]})
        )
    faulty = rnd.random() < 0.6
    if faulty:
        for _ in range(rnd.randint(1, 3)):
            if graph.edges and rnd.random() < 0.3:
                graph.edges[rnd.choice(list(graph.edges))]["weight"] = junk(rnd)
            else:
                graph.nodes[rnd.choice(true.ids)][rnd.choice(("x", "y", "split", "train_mask"))] = junk(rnd)
    return {"data": graph}, None if faulty else true, not faulty


def scipy_matrices(rnd: random.Random, folder: Path) -> Input:
    true = truth(rnd)
    if is_multilabel(true):
        true.y = [0] * true.num_nodes
    ends = ([a for a, _ in true.edges], [b for _, b in true.edges])
    values = np.ones(len(true.edges)) if true.weights is None else np.array(true.weights)
    adj = sp.coo_array((values, ends), shape=(true.num_nodes, true.num_nodes + (rnd.random() < 0.1)))
    fields = fields_of(true)
    arguments: dict[str, Any] = {key: fields.get(key) for key in ("x", "y", *MASKS)}
    faulty = rnd.random() < 0.6
    if faulty:
        for _ in range(rnd.randint(1, 2)):
            arguments[rnd.choice(list(arguments))] = junk(rnd)
    return {"scipy": adj, **arguments}, None if faulty or adj.shape[0] != adj.shape[1] else true, False


READERS: dict[str, Callable[[random.Random, Path], Input]] = {
    "pt": pt,
    "npz": npz,
    "csv": csv_tables,
    "tsv": tsv_tables,
    "parquet": parquet_tables,
    "data": data_objects,
    "networkx": networkx_graphs,
    "scipy": scipy_matrices,
}
