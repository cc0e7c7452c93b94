"""Journals of a training: metrics as JSON lines, and TensorBoard's files where they are asked for."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

from fasthop.errors import InvalidConfig
from fasthop.files import CannotWrite, write_file

SCHEMA = "fasthop-journal"
VERSION = 1


class Journal:
    """One JSON object a line: a header with the schema version, then one line an event.

    Each line goes to the file in one write, so that whoever reads along sees whole lines, and a process that is killed leaves
    a torn last one at worst, which reading drops. Figures that are not finite are null.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def begin(self, header: dict[str, Any]) -> None:
        """A new file with its header; what stood there is replaced. Raises CannotWrite."""
        self._replace([{"schema": SCHEMA, "version": VERSION, **header}])

    def continue_after(self, epoch: int) -> None:
        """Drops what is of a later epoch, or torn, and goes on behind the rest. Raises CannotWrite, and InvalidConfig where the
        file is no journal of this version."""
        header, lines = read_journal(self.path)
        self._replace([header, *(line for line in lines if line.get("epoch", 0) <= epoch)])

    def write(self, line: dict[str, Any]) -> None:
        """Adds a line. Raises CannotWrite."""
        try:
            if self._descriptor is None:
                self._descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
            content = _encoded(line)
            written = os.write(self._descriptor, content)
            if written < len(content):
                raise OSError(28, "no space left on device")
        except OSError as error:
            raise CannotWrite(
                f"{self.path} cannot be written ({(error.strerror or str(error)).lower()}); make room, then resume."
            ) from None

    def close(self) -> None:
        """Closes the file; to be called more than once is fine."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _replace(self, lines: list[dict[str, Any]]) -> None:
        self.close()
        write_file(self.path, b"".join(map(_encoded, lines)))


def read_journal(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The header and the whole lines of a journal. Raises InvalidConfig where it is none, or of another version."""
    try:
        texts = path.read_bytes().split(b"\n")
    except OSError as error:
        raise InvalidConfig(f"{path} cannot be read ({(error.strerror or str(error)).lower()}).") from None
    lines = []
    for text in texts:
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(line, dict):
            lines.append(line)
    if not lines or lines[0].get("schema") != SCHEMA:
        raise InvalidConfig(f"{path} is no journal of a fasthop training.")
    if lines[0].get("version") != VERSION:
        raise InvalidConfig(
            f"{path} has version {lines[0].get('version')!r}, and this fasthop reads version {VERSION}."
        )
    return lines[0], lines[1:]


class TensorBoard:
    """The same figures as TensorBoard shows them. Raises InvalidConfig where the package is not installed."""

    def __init__(self, folder: Path, *, first_epoch: int) -> None:
        check_tensorboard()
        from torch.utils.tensorboard import SummaryWriter

        # Points of later epochs, from before an interruption, are hidden by purge_step.
        self._writer = SummaryWriter(str(folder), purge_step=first_epoch)

    def write(self, line: dict[str, Any]) -> None:
        """The line's numbers at its epoch."""
        for name, value in line.items():
            if name != "epoch" and isinstance(value, float) and math.isfinite(value):
                self._writer.add_scalar(name, value, line["epoch"])

    def close(self) -> None:
        """Writes what is left."""
        self._writer.close()


def check_tensorboard() -> None:
    """Raises InvalidConfig where the package tensorboard is not installed."""
    from importlib.util import find_spec

    if find_spec("tensorboard") is None:
        raise InvalidConfig(
            "TensorBoard's files need the package tensorboard; run pip install 'fasthop[tensorboard]', or leave them out: "
            "metrics.jsonl has the same figures."
        )


def _encoded(line: dict[str, Any]) -> bytes:
    return (json.dumps(_finite(line), ensure_ascii=False, allow_nan=False) + "\n").encode()


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(entry) for entry in value]
    return value
