"""Graphs in tables: an edge list and a table of the nodes, with the user's own ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fasthop.errors import GraphNotFound, InvalidConfig
from fasthop.graph.both_directions import edges_without_reverse
from fasthop.graph.checks import MASKS
from fasthop.graph.class_words import classes_of, mask_of_flags, masks_of_words
from fasthop.graph.fault import Faults, fault
from fasthop.graph.table import TABLE_SUFFIXES, Table, read_table
from fasthop.graph.table_columns import ids, numbers, words

ENDS = (
    ("source", "target"),
    ("src", "dst"),
    ("from", "to"),
    ("u", "v"),
    ("source_id", "target_id"),
)
WEIGHTS = ("weight", "edge_weight")
LABELS = ("label", "labels", "y", "class")
LABEL_PREFIXES = ("label_", "y_")


def tables_in(folder: Path) -> tuple[Path, Path]:
    """The files edges.* and nodes.* of a folder. Raises GraphNotFound where one of them is not there, or there twice."""
    found = []
    for stem in ("edges", "nodes"):
        there = [folder / f"{stem}{s}" for s in TABLE_SUFFIXES if (folder / f"{stem}{s}").is_file()]
        if len(there) != 1:
            listed = f"holds {', '.join(path.name for path in there)}" if there else f"holds no {stem} table"
            raise GraphNotFound(
                f"The folder {folder} {listed}; a graph's folder has one edges and one nodes table "
                f"({', '.join(TABLE_SUFFIXES)})."
            )
        found.append(there[0])
    return found[0], found[1]


def data_from_tables(edges_path: Path, nodes_path: Path | None, faults: Faults) -> Any:
    """A PyG Data of an edge list and a node table.

    Edges: columns source and target (also src/dst, from/to, u/v, else the first two), taken as directed; weight;
    other columns of numbers are edge_attr. Nodes: column id (else the first); label (numbers or words) or several
    label_*; split (train, val, test) or train_mask, val_mask, test_mask; all other columns are features.
    Rows of the node table are the nodes, in order; ids are kept in node_ids.
    Raises InvalidConfig without a node table, InvalidGraph for faults, each with the value and its row.
    """
    from torch_geometric.data import Data

    if nodes_path is None:
        raise InvalidConfig(
            f"{edges_path} is an edge list, and the nodes' labels are in a table of their own: put both into one folder as "
            "edges.csv and nodes.csv and give the folder, or name the table: nodes= in Python, --nodes nodes.csv where a "
            "command has it."
        )
    data = Data()
    node_text = None
    with faults.part():
        nodes = read_table(nodes_path, faults)
        data.num_nodes = nodes.num_rows
        id_column = nodes.find("id", "node_id", "node") or next(iter(nodes.columns))
        with faults.part():
            node_text = _distinct(nodes, id_column)
            data.node_ids = ids_array(node_text)
        _add_node_columns(data, nodes, id_column, faults)
    with faults.part():
        edges = read_table(edges_path, faults)
        if node_text is not None:
            _add_edges(data, edges, node_text, nodes_path, faults)
    return data


def ids_array(text: Any) -> np.ndarray:
    """int64 where every id is a whole number as it is written, else str."""
    import pyarrow as pa

    try:
        whole = text.cast(pa.int64())
        if whole.cast(pa.string()).equals(text):
            return whole.to_numpy()
    except pa.ArrowException:
        pass
    return np.array(text.to_pylist(), dtype=np.str_)


def _distinct(nodes: Table, column: str) -> Any:
    text = ids(nodes, column)
    codes = text.combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    _, first, counts = np.unique(codes, return_index=True, return_counts=True)
    if (counts > 1).any():
        doubled = counts > 1
        code = codes[first[doubled].min()]
        rows = np.flatnonzero(codes == code)
        value = text[int(rows[0])].as_py()
        raise fault(
            "id-doubled",
            f"The id {value!r} stands in rows {rows[0] + 1} and {rows[1] + 1} of {nodes.path.name} "
            f"({int(doubled.sum()):,} such ids in all); each node has one row.",
            f"编号 {value!r} 同时出现在 {nodes.path.name} 的第 {rows[0] + 1} 行和第 {rows[1] + 1} 行"
            f"（共 {int(doubled.sum())} 个重复编号）；每个节点只应有一行。",
        )
    return text


def _add_edges(data: Any, edges: Table, node_text: Any, nodes_path: Path, faults: Faults) -> None:
    import pyarrow.compute as pc

    ends = next(
        ((edges.find(a), edges.find(b)) for a, b in ENDS if edges.find(a) and edges.find(b)),
        tuple(edges.columns)[:2],
    )
    if len(ends) < 2:
        raise fault(
            "edges-columns",
            f"{edges.path.name} has one column, {next(iter(edges.columns))!r}; an edge list has two, source and target.",
            f"{edges.path.name} 只有一列 {next(iter(edges.columns))!r}；边列表应有 source 与 target 两列。",
            (
                "A .csv file is separated by commas, a .tsv file by tabs.",
                ".csv 以逗号分隔，.tsv 以制表符分隔。",
            ),
        )
    columns = [column for column in ends if column is not None]
    if columns[0].lower() not in {source for source, _ in ENDS}:
        faults.note(
            "edges-first-two",
            f"The columns {columns[0]} and {columns[1]} of {edges.path.name} were taken as source and target.",
            f"{edges.path.name} 的 {columns[0]} 列与 {columns[1]} 列被当作源节点与目标节点。",
        )
    index, broken = [], False
    for column in columns:
        with faults.part():
            place = pc.index_in(ids(edges, column), value_set=node_text)  # pyright: ignore[reportAttributeAccessIssue]
            missing = np.flatnonzero(place.is_null().to_numpy())
            if missing.size:
                row = int(missing[0])
                value = edges.columns[column][row].as_py()
                faults.error(
                    "end-unknown",
                    f"The edge in {edges.cell(column, row)} ends at {value!r}, which is no id in {nodes_path.name} "
                    f"({missing.size:,} such ends in the column).",
                    f"{edges.cell_zh(column, row)}的端点 {value!r} 不在 {nodes_path.name} 的编号中"
                    f"（该列共 {missing.size} 处）。",
                    (
                        f"Add these nodes to {nodes_path.name}, or leave their edges out.",
                        f"请将这些节点加入 {nodes_path.name}，或去掉这些边。",
                    ),
                )
                broken = True
            else:
                index.append(torch.from_numpy(place.to_numpy().astype(np.int64)))
    if broken or len(index) < 2:
        return
    data.edge_index = torch.stack(index)
    lone = edges_without_reverse(data.edge_index, data.num_nodes).numel()
    if lone:
        faults.note(
            "edges-directed",
            f"The edges were taken as directed, source to target: {lone:,} of {edges.num_rows:,} have no reverse.",
            f"边按有向（源到目标）读取：{edges.num_rows} 条边中有 {lone} 条没有反向边。",
            ("Where they are undirected, give undirected=True.", "若边是无向的，请设 undirected=True。"),
        )
    _add_edge_columns(data, edges, columns, faults)


def _add_edge_columns(data: Any, edges: Table, ends: list[str], faults: Faults) -> None:
    weight = edges.find(*WEIGHTS)
    if weight is not None and weight not in ends:
        value = numbers(edges, weight, faults)
        if value is not None:
            data.edge_weight = torch.from_numpy(value).to(torch.float32)
    attributes, left = [], []
    for column in edges.columns:
        if column in (*ends, weight):
            continue
        quiet = Faults(collecting=True)
        value = numbers(edges, column, quiet)
        if value is None:
            left.append(column)
        else:
            attributes.append(_block(value))
    if attributes:
        data.edge_attr = torch.from_numpy(np.concatenate(attributes, axis=1))
    if left:
        faults.note(
            "edge-columns-left",
            f"Columns of {edges.path.name} that hold more than numbers were not read: {', '.join(left[:8])}.",
            f"{edges.path.name} 中含非数值的列未读取：{'、'.join(left[:8])}。",
        )


def _add_node_columns(data: Any, nodes: Table, id_column: str, faults: Faults) -> None:
    used = {id_column}
    with faults.part():
        _add_labels(data, nodes, used, faults)
    with faults.part():
        _add_masks(data, nodes, used)
    blocks = []
    for column in nodes.columns:
        if column not in used:
            value = numbers(nodes, column, faults)
            if value is not None:
                blocks.append(_block(value))
    if blocks:
        data.x = torch.from_numpy(np.concatenate(blocks, axis=1))


def _add_labels(data: Any, nodes: Table, used: set[str], faults: Faults) -> None:
    single = [column for column in nodes.columns if column.lower() in LABELS and column not in used]
    several = [c for c in nodes.columns if c.lower().startswith(LABEL_PREFIXES) and c not in used]
    used.update(single, several)
    if len(single) + bool(several) > 1:
        listed = ", ".join((*single, *several[:1]))
        raise fault(
            "labels-several",
            f"{nodes.path.name} has labels in several columns: {listed}; a label taken for a feature would give it away.",
            f"{nodes.path.name} 有多个标签列：{listed}；被当作特征的标签会泄露答案。",
            ("Keep one of them, or name several labels label_*.", "请只保留一个；多个标签请命名为 label_*。"),
        )
    if single:
        data.y, names = classes_of(words(nodes, single[0]), f"The labels in column {single[0]}")
        if names is not None:
            data.class_names = list(names)
    elif several:
        found = [numbers(nodes, column, faults, may_miss=True) for column in several]
        values = [value for value in found if value is not None]
        lists = [
            column
            for column, value in zip(several, found, strict=True)
            if value is not None and value.ndim > 1
        ]
        if lists:
            raise fault(
                "labels-lists",
                f"Column {lists[0]} of {nodes.path.name} holds lists; a label column holds a 0 or 1 for each node.",
                f"{nodes.path.name} 的 {lists[0]} 列为列表；标签列应为每个节点一个 0 或 1。",
            )
        if len(values) == len(found):
            data.y = torch.from_numpy(np.stack(values, axis=1)).to(torch.float32)
            data.class_names = [column.partition("_")[2] for column in several]


def _add_masks(data: Any, nodes: Table, used: set[str]) -> None:
    word = nodes.find("split")
    flags = {mask: nodes.find(mask) for mask in MASKS}
    given = {mask: column for mask, column in flags.items() if column is not None and column not in used}
    if word in used:
        word = None
    used.update(given.values())
    if word is not None:
        used.add(word)
    if word is not None and given:
        raise fault(
            "split-twice",
            f"{nodes.path.name} has both {word} and {next(iter(given.values()))}; keep one of them.",
            f"{nodes.path.name} 同时有 {word} 与 {next(iter(given.values()))}；请只保留其一。",
        )
    if word is not None:
        for mask, value in masks_of_words(words(nodes, word), f"The {word}").items():
            data[mask] = value
    for mask, column in given.items():
        data[mask] = _mask(nodes, column)


def _mask(nodes: Table, column: str) -> Tensor:
    return mask_of_flags(words(nodes, column), f"The {column}")


def _block(values: np.ndarray) -> np.ndarray:
    """float32 [N, D] of a column of numbers or of lists."""
    return values.astype(np.float32).reshape(len(values), 1 if values.ndim == 1 else values.shape[1])
