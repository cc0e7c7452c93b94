"""Writing files: each beside its place first, then renamed, so that none is ever half-written."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from pathlib import Path
from typing import Any

from fasthop.errors import FasthopError


class CannotWrite(FasthopError, OSError):
    """A file or folder could not be written; the message says where and why.

    report: the Report that could not be saved whole, where there was one.
    """

    report: Any = None


def make_folder(folder: Path, *, fresh: bool = False) -> Path:
    """Makes `folder` with its parents and finds out that files can be made in it.

    fresh: raises FileExistsError where it stands already. Raises CannotWrite.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(exist_ok=not fresh)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        if fresh and isinstance(error, FileExistsError) and folder.is_dir():
            raise
        raise CannotWrite(
            f"The folder {folder} cannot be written ({_reason(error)}); name another one."
        ) from None
    return folder


def write_file(path: Path, content: bytes) -> None:
    """Writes `content` to a file beside `path` and renames it. Raises CannotWrite, with `path` as it was."""
    beside = path.with_name(f".{path.name}-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        with beside.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            beside.unlink()
        if isinstance(error, OSError):
            raise CannotWrite(
                f"{path} cannot be written ({_reason(error)}); make room or name another folder."
            ) from None
        raise


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
