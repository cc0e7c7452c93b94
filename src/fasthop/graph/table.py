"""Tables: the columns of a CSV, TSV or Parquet file, with the place of every value at hand.

CSV cells stay text until it is known what they stand for: an id `007` must not become 7, and a reader that
guesses types cannot say which row was wrong.
"""

from __future__ import annotations

import codecs
import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fasthop.errors import GraphNotFound
from fasthop.graph.fault import Faults, fault

DELIMITERS = {".csv": ",", ".tsv": "\t"}
TABLE_SUFFIXES = (*DELIMITERS, ".parquet")
BLOCK_BYTES = 1 << 24


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """The columns of one file: pyarrow chunked arrays by name, in the file's order."""

    path: Path
    columns: dict[str, Any]
    num_rows: int

    def find(self, *names: str) -> str | None:
        """The first of the names that a column has, in any case."""
        by_lower = {name.lower(): name for name in self.columns}
        return next((by_lower[name] for name in names if name in by_lower), None)

    def cell(self, column: str, row: int) -> str:
        """The place of a value in a sentence; rows count from 1 after the header."""
        return f"row {row + 1}, column {column}, of {self.path.name}"

    def cell_zh(self, column: str, row: int) -> str:
        """The same in Chinese."""
        return f"{self.path.name} 第 {row + 1} 行 {column} 列"


def read_table(path: Path, faults: Faults) -> Table:
    """The table of a file by its ending. Raises GraphNotFound without it, InvalidGraph for damage; ragged rows
    are errors after which the other rows are looked through."""
    if not path.is_file():
        raise GraphNotFound(f"There is no file {path}.")
    if path.stat().st_size == 0:
        raise fault("table-empty", f"{path} is empty.", f"{path} 是空文件。", HEADER_HINT)
    return _parquet(path) if path.suffix.lower() == ".parquet" else _text(path, faults)


HEADER_HINT = (
    "Its first line names the columns, such as source,target or id,label.",
    "首行应为列名，例如 source,target 或 id,label。",
)


def _text(path: Path, faults: Faults) -> Table:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    _check_utf8(path)
    delimiter = DELIMITERS[path.suffix.lower()]
    names = _header(path, delimiter)
    ragged: list[Any] = []

    def keep(row: Any) -> str:
        ragged.append((row.number, row.actual_columns))
        return "skip"

    try:
        table = arrow_csv.read_csv(
            path,
            # One thread, for only then does a ragged row know its number.
            read_options=arrow_csv.ReadOptions(
                use_threads=False, block_size=BLOCK_BYTES, column_names=names, skip_rows=1
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=delimiter, invalid_row_handler=keep, newlines_in_values=True
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
            ),
        )
    except (pa.ArrowException, ValueError, OSError) as error:
        if "Empty CSV file" not in str(error):
            raise _damaged(path, error) from None
        table = pa.table({name: pa.array([], pa.string()) for name in names})
    if ragged:
        number, count = ragged[0]
        row = "?" if number is None else number - 1
        faults.error(
            "table-ragged",
            f"Row {row} of {path.name} has {count:,} values, and the header names {len(names):,} columns "
            f"({len(ragged):,} such rows in all).",
            f"{path.name} 第 {row} 行有 {count} 个值，而表头有 {len(names)} 列（共 {len(ragged)} 行如此）。",
            (
                f"Values are separated by {'commas' if delimiter == ',' else 'tabs'}; quote one that holds its separator.",
                f"值以{'逗号' if delimiter == ',' else '制表符'}分隔；含分隔符的值请加引号。",
            ),
        )
    columns = {name: _trimmed(table.column(name)) for name in names}
    return Table(path=path, columns=columns, num_rows=table.num_rows)


def _check_utf8(path: Path) -> None:
    """Raises InvalidGraph with the line of the first byte that is no UTF-8 text."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    lines, start = 1, True
    with path.open("rb") as file:
        while True:
            block = file.read(BLOCK_BYTES)
            try:
                text = decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                lines += error.object[: error.start].count(b"\n")
                wide = start and block[:2] in (b"\xff\xfe", b"\xfe\xff")
                raise fault(
                    "table-encoding",
                    f"{path} is not UTF-8 text: byte 0x{error.object[error.start]:02x} in line {lines}"
                    f"{' (it looks like UTF-16)' if wide else ''}.",
                    f"{path} 不是 UTF-8 文本：第 {lines} 行含字节 0x{error.object[error.start]:02x}"
                    f"{'（似为 UTF-16）' if wide else ''}。",
                    ("Save it as UTF-8.", "请以 UTF-8 编码保存。"),
                ) from None
            lines += text.count("\n")
            start = False
            if "\x00" in text:
                raise fault(
                    "table-binary",
                    f"{path} holds zero bytes, so it is no text.",
                    f"{path} 含零字节，不是文本文件。",
                    ("Save it as UTF-8 text.", "请以 UTF-8 文本保存。"),
                )
            if not block:
                return


def _header(path: Path, delimiter: str) -> list[str]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        line = file.readline(1 << 20)
    try:
        names = [name.strip() for name in next(csv.reader([line], delimiter=delimiter), [])]
    except csv.Error as error:
        raise _damaged(path, error) from None
    if not any(names):
        raise fault("table-empty", f"{path} has no header.", f"{path} 没有表头。", HEADER_HINT)
    if all(_is_number(name) for name in names):
        raise fault(
            "table-no-header",
            f"The first line of {path.name} is {line.strip()[:80]!r}, which is no header: without one, it would be lost.",
            f"{path.name} 的首行为 {line.strip()[:80]!r}，不是表头；没有表头会丢失这一行。",
            HEADER_HINT,
        )
    _check_names(path, names)
    return names


def _check_names(path: Path, names: Sequence[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise fault(
                "table-columns-doubled",
                f"{path.name} has two columns named {name!r}.",
                f"{path.name} 有两列名为 {name!r}。",
                ("Rename one of them.", "请将其中一列改名。"),
            )
        seen.add(name.lower())


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _trimmed(column: Any) -> Any:
    import pyarrow.compute as pc

    return pc.utf8_trim_whitespace(column)  # pyright: ignore[reportAttributeAccessIssue]


def _parquet(path: Path) -> Table:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        table = parquet.read_table(path, use_threads=False, memory_map=False)
        table.validate(full=True)
        columns = {}
        for name, column in zip(table.column_names, table.columns, strict=True):
            if pa.types.is_dictionary(column.type):
                column = column.cast(column.type.value_type)
            if pa.types.is_large_string(column.type) or pa.types.is_string_view(column.type):
                column = column.cast(pa.string())
            columns[name] = _trimmed(column) if pa.types.is_string(column.type) else column
    except MemoryError:
        raise
    except Exception as error:  # what a file of any bytes makes pyarrow raise is not to be listed
        raise _damaged(path, error) from None
    _check_names(path, table.column_names)
    return Table(path=path, columns=columns, num_rows=table.num_rows)


def _damaged(path: Path, error: Exception) -> Exception:
    said = " ".join(str(error).split())[:200]
    kind = {".csv": "CSV", ".tsv": "TSV"}.get(path.suffix.lower(), "Parquet")
    return fault(
        "table-damaged",
        f"{path} is not a {kind} file, or is damaged ({type(error).__name__}: {said}).",
        f"{path} 不是 {kind} 文件，或已损坏（{type(error).__name__}: {said}）。",
    )
