"""Arrays: NumPy's, out of an .npz file that is never unpickled, and as tensors."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fasthop.errors import DoesNotFit, GraphNotFound
from fasthop.graph.fault import fault

# What NumPy's header of one array may be long; it is a line of text, and real ones have 128 bytes.
LONGEST_HEADER = 10_000


class Archive:
    """The arrays of one .npz file, read one by one when they are asked for.

    names: of all arrays. objects: of those that hold Python objects, which would have to be unpickled.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise GraphNotFound(f"There is no file {path}.")
        self.path = path
        self.headers: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {}
        try:
            with zipfile.ZipFile(path) as archive:
                for member in archive.infolist():
                    if member.filename.endswith(".npy"):
                        self.headers[member.filename.removesuffix(".npy")] = _header(archive, member)
        except (
            Exception
        ) as error:  # what a file of any bytes makes zipfile and NumPy raise is not to be listed
            raise _damaged(path, error) from None

    @property
    def names(self) -> list[str]:
        """The names of the arrays."""
        return list(self.headers)

    @property
    def objects(self) -> list[str]:
        """The names of the arrays that hold Python objects."""
        return [name for name, (_, dtype) in self.headers.items() if dtype.hasobject]

    def read(self, name: str) -> np.ndarray:
        """One array. Raises InvalidGraph for Python objects and damage, DoesNotFit for more than is free."""
        shape, dtype = self.headers[name]
        if dtype.hasobject:
            raise fault(
                "npz-objects",
                f"The array {name} of {self.path} holds Python objects, and unpickling those may run any code.",
                f"{self.path} 的数组 {name} 含 Python 对象，反序列化可能执行任意代码。",
                (
                    "Save it as numbers or strings, for example as array.astype(str).",
                    "请保存为数值或字符串，例如 array.astype(str)。",
                ),
            )
        import psutil

        needed, free = math.prod(shape) * dtype.itemsize, psutil.virtual_memory().available
        if needed > free:
            raise DoesNotFit(
                f"The array {name} of {self.path} takes {needed / 1e9:,.1f} GB, and {free / 1e9:,.1f} GB of memory are free."
            )
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(f"{name}.npy") as file:
                return np.lib.format.read_array(file, allow_pickle=False)
        except Exception as error:
            raise _damaged(self.path, error) from None


def _header(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and dtype; an array that claims more bytes than the archive holds of it is refused unread, for
    NumPy would reserve them first."""
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        read = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        shape, _, dtype = read(file, max_header_size=LONGEST_HEADER)
        size, room = math.prod(shape) * dtype.itemsize, member.file_size - file.tell()
    if not dtype.hasobject and size != room:
        raise ValueError(f"{member.filename} should hold {size:,} bytes and holds {room:,}")
    return shape, dtype


def _damaged(path: Path, error: Exception) -> Exception:
    said = " ".join(str(error).split())[:200]
    cause = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return fault(
        "npz-damaged",
        f"{path} is not an .npz file, or is damaged ({cause}); write it with numpy.savez.",
        f"{path} 不是 .npz 文件，或已损坏（{cause}）；请用 numpy.savez 写出。",
    )


def tensor_of(array: np.ndarray, name: str) -> Tensor:
    """An array of numbers as a tensor; unsigned integers become int64. Raises InvalidGraph for what are no numbers."""
    kind = array.dtype.kind
    if kind == "u" and array.dtype.itemsize == 8 and array.size and int(array.max()) >= 2**63:
        at = int(np.flatnonzero(array >= 2**63)[0])
        raise fault(
            "number-too-large",
            f"{name} holds {int(array.flat[at])}, which does not fit into int64.",
            f"{name} 含 {int(array.flat[at])}，超出 int64 的范围。",
        )
    if kind == "u" and array.dtype.itemsize > 1:
        array = array.astype(np.int64)
    elif kind == "f" and array.dtype.itemsize > 8:
        array = array.astype(np.float64)
    elif kind not in "biuf":
        raise fault(
            "not-numbers",
            f"{name} has dtype {array.dtype}; it must hold numbers.",
            f"{name} 的 dtype 为 {array.dtype}；应为数值。",
        )
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    # A copy where it cannot be written to or is laid out backwards, which torch does not take.
    return torch.from_numpy(np.require(native, requirements=["C", "W"]).reshape(array.shape))


def is_numeric(dtype: np.dtype[Any]) -> bool:
    """Whether `tensor_of` takes it."""
    return dtype.kind in "biuf"
