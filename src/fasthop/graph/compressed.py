"""Matrices in compressed rows out of an archive's arrays: checked, for SciPy trusts what it is given."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from fasthop.graph.arrays import Archive, is_numeric, tensor_of
from fasthop.graph.check import check_indices
from fasthop.graph.edges import square
from fasthop.graph.fault import fault


def compressed(archive: Archive, names: tuple[str, ...], what: str) -> Any:
    """The SciPy matrix of compressed rows, once it is known to be one: SciPy itself trusts its arrays."""
    import scipy.sparse

    arrays = {name: archive.read(name) for name in names if name in archive.headers}
    indptr, indices = (arrays[name] for name in names[:2])
    for name in names[:2]:
        if arrays[name].ndim != 1 or arrays[name].dtype.kind not in "iu":
            raise bad_matrix(
                f"{name} has dtype {arrays[name].dtype} and shape {list(arrays[name].shape)}", what
            )
    indptr, indices = (tensor_of(a, what).to(torch.int64).numpy() for a in (indptr, indices))
    values = arrays.get(names[2])
    if values is None:
        values = np.ones(indices.size, np.float32)
    if values.ndim != 1 or values.size != indices.size or not is_numeric(values.dtype):
        raise bad_matrix(f"{names[2]} has dtype {values.dtype} and shape {list(values.shape)}", what)
    if indptr.size == 0 or indptr[0] != 0 or indptr[-1] != indices.size or bool((np.diff(indptr) < 0).any()):
        raise bad_matrix(
            f"{names[0]} does not rise from 0 to the {indices.size:,} entries of {names[1]}", what
        )
    shape = matrix_size(arrays.get(names[3]), names[3], what)
    kind = _format(archive) if names[0] == "indptr" else "csr"
    if kind not in ("csr", "csc"):
        raise bad_matrix(f"format is {kind!r}, and csr, csc and coo are read", what)
    major = 0 if kind == "csr" else 1
    if shape is None:
        size = indptr.size - 1
        shape = (size, size) if what == "adjacency" else (size, int(indices.max(initial=-1)) + 1)
    if shape[major] != indptr.size - 1:
        raise bad_matrix(f"{names[3]} is {list(shape)}, and {names[0]} has {indptr.size:,} entries", what)
    if what == "adjacency":
        square(*shape, "The adjacency")
    check_indices(torch.from_numpy(indices), shape[1 - major], names[1])
    form = scipy.sparse.csr_array if kind == "csr" else scipy.sparse.csc_array
    return form((values, indices, indptr), shape=shape)


def matrix_size(array: np.ndarray | None, name: str, what: str) -> tuple[int, int] | None:
    if array is None:
        return None
    if (
        array.dtype.kind not in "iu"
        or array.shape != (2,)
        or bool((array < 0).any())
        or int(array.max()) >= 2**62
    ):
        raise bad_matrix(f"{name} has dtype {array.dtype} and shape {list(array.shape)}", what)
    return int(array[0]), int(array[1])


def _format(archive: Archive) -> str:
    """The word that scipy.sparse.save_npz writes beside a matrix."""
    if "format" not in archive.headers:
        return "csr"
    word = archive.read("format")
    if word.size != 1:
        return str(list(word.shape))
    value = word.item()
    return value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)


def bad_matrix(said: str, what: str) -> Exception:
    kinds = {"adjacency": "邻接矩阵", "features": "特征矩阵"}
    return fault(
        "npz-matrix",
        f"The {what} is no matrix in compressed rows: {said}.",
        f"{kinds[what]}不是按行压缩的矩阵：{said}。",
    )
