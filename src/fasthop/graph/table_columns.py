"""Columns of a table: as ids, numbers and words, each fault with its value and its row."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fasthop.graph.fault import Faults, fault
from fasthop.graph.table import Table

LONGEST_ID = 1000


def ids(table: Table, column: str) -> Any:
    """A column of node ids as text; integers are written out. Raises InvalidGraph for other types, and for a
    missing or endless one with its row."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values = table.columns[column]
    if not (pa.types.is_string(values.type) or pa.types.is_integer(values.type)):
        raise fault(
            "id-type",
            f"Column {column} of {table.path.name} has type {values.type}; ids are text or whole numbers.",
            f"{table.path.name} 的 {column} 列类型为 {values.type}；编号应为文本或整数。",
        )
    text = values.cast(pa.string())
    length = pc.fill_null(pc.utf8_length(text), 0).to_numpy()  # pyright: ignore[reportAttributeAccessIssue]
    wrong = np.flatnonzero((length == 0) | (length > LONGEST_ID))
    if wrong.size:
        row = int(wrong[0])
        long = length[row] > 0
        raise fault(
            "id-missing",
            f"The id in {table.cell(column, row)} is {'longer than 1,000 characters' if long else 'missing'} "
            f"({wrong.size:,} such in all).",
            f"{table.cell_zh(column, row)}的编号{'超过 1000 个字符' if long else '缺失'}（共 {wrong.size} 处）。",
        )
    return text


def words(table: Table, column: str) -> list[Any]:
    """A column as Python values; what is missing is None."""
    return table.columns[column].to_pylist()


def numbers(table: Table, column: str, faults: Faults, *, may_miss: bool = False) -> np.ndarray | None:
    """A column of numbers as float64 [N], or [N, D] where each cell is a list of D. None, and an error with the
    value and its row, where one is no finite number; may_miss: empty cells are NaN."""
    import pyarrow as pa

    values = table.columns[column]
    if pa.types.is_string(values.type):
        try:
            found = values.cast(pa.float64()).to_numpy()
        except pa.ArrowException:
            found = np.array([_float(cell) for cell in values.to_pylist()], dtype=np.float64)
    elif (
        pa.types.is_boolean(values.type)
        or pa.types.is_primitive(values.type)
        or pa.types.is_decimal(values.type)
    ):
        try:
            found = values.cast(pa.float64(), safe=False).to_numpy()
        except pa.ArrowException:
            found = np.full(table.num_rows, np.nan)
    elif pa.types.is_list(values.type) or pa.types.is_fixed_size_list(values.type):
        return _lists(table, column, faults)
    else:
        found = np.full(table.num_rows, np.nan)
    wrong = np.flatnonzero(~np.isfinite(found))
    if may_miss and wrong.size:
        cells = [values[int(row)].as_py() for row in wrong]
        wrong = wrong[[cell not in (None, "") for cell in cells]]
    if wrong.size:
        row = int(wrong[0])
        _say_no_number(table, column, row, values[row].as_py(), wrong.size, faults)
        return None
    return np.array(found, dtype=np.float64)  # a copy: torch takes no array that cannot be written to


def _float(cell: Any) -> float:
    try:
        return float(cell) if cell is not None and "_" not in cell else math.nan
    except ValueError:
        return math.nan


def _lists(table: Table, column: str, faults: Faults) -> np.ndarray | None:
    cells = table.columns[column].to_pylist()
    width = len(cells[0]) if cells and cells[0] is not None else 0
    for row, cell in enumerate(cells):
        if (
            cell is None
            or len(cell) != width
            or not all(isinstance(v, int | float) and math.isfinite(v) for v in cell)
        ):
            _say_no_number(table, column, row, cell, 1, faults)
            return None
    return np.array(cells, dtype=np.float64).reshape(len(cells), width)


def _say_no_number(table: Table, column: str, row: int, value: Any, count: int, faults: Faults) -> None:
    said = "empty" if value in (None, "") else repr(value)[:80]
    said_zh = "空" if value in (None, "") else repr(value)[:80]
    faults.error(
        "cell-not-a-number",
        f"The value in {table.cell(column, row)} is {said}, which is no number ({count:,} such in the column).",
        f"{table.cell_zh(column, row)}的值为 {said_zh}，不是数值（该列共 {count} 处）。",
        (
            "Columns beside id, labels and split are features: write numbers, or leave the column out.",
            "除编号、标签与划分外的列都是特征：请写数值，或去掉该列。",
        ),
    )
