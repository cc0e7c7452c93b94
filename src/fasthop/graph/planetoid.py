"""Planetoid's Cora, CiteSeer and PubMed (Yang et al. 2016), through PyG's own class and file layout.

The raw files are looked for under the user's root, then in the cache, then downloaded. What PyG derives
from them always goes to the cache: the root is only read, and processes that start together do not
write one file.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import pickle
import shutil
import tempfile
import urllib.request
import warnings
from pathlib import Path
from typing import Any

from fasthop.cache import cache_dir
from fasthop.errors import GraphNotFound, InvalidConfig, InvalidGraph
from fasthop.graph.graph import Graph

NAMES = ("Cora", "CiteSeer", "PubMed")
PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
ADDRESSES = (
    "https://raw.githubusercontent.com/kimiyoung/planetoid/master/data",
    "https://github.com/kimiyoung/planetoid/raw/master/data",
    "https://gitee.com/jiajiewu/planetoid/raw/master/data",
)
TIMEOUT_S = 10
# The files are pickles of 2016; these are all the names in them, under their old and new homes.
SAFE_GLOBALS = {
    ("scipy.sparse.csr", "csr_matrix"),
    ("scipy.sparse._csr", "csr_matrix"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("collections", "defaultdict"),
    ("__builtin__", "list"),
    ("builtins", "list"),
}


def planetoid_graph(
    name: str, *, root: Path | None = None, split: int | str | None = None, seed: int = 0
) -> Graph:
    """One of `NAMES` (in any case).

    root: the folder that holds Cora/raw, the Cora folder or the raw folder; it may be read-only.
    split: "public" (the default) or "full" as in PyG, or a split that `Graph.from_data` draws.
    Raises GraphNotFound, with what was tried, where the files cannot be had; InvalidGraph where one is
    damaged or holds anything but the arrays it should.
    """
    match = [known for known in NAMES if known.lower() == name.lower()]
    if not match:
        raise GraphNotFound(
            f"planetoid:{name} is not known; there are planetoid:{', planetoid:'.join(NAMES)}."
        )
    name = match[0]
    if isinstance(split, int):
        raise InvalidConfig(
            f'split is {split}; planetoid:{name} has "public", "full", or "random" and percentages.'
        )
    raw = _raw_folder(name, root)
    digest = _checked_digest(raw, name)
    own = split if split in ("public", "full") else "public"
    dataset = _dataset(name, raw, digest, own)
    drawn = None if split in (None, "public", "full") else split
    return Graph.from_data(
        dataset[0], split=drawn, seed=seed, name=f"planetoid:{name}", num_classes=dataset.num_classes
    )


def file_names(name: str) -> list[str]:
    """The eight raw files of one data set."""
    return [f"ind.{name.lower()}.{part}" for part in PARTS]


def _raw_folder(name: str, root: Path | None) -> Path:
    cached = cache_dir("graphs") / "planetoid" / name / "raw"
    folders = [root / name / "raw", root / "raw", root] if root is not None else []
    for folder in (*folders, cached):
        if all((folder / file).is_file() for file in file_names(name)):
            return folder
    goal = cached
    if root is not None and os.access(root, os.W_OK):
        goal = root / name / "raw"
    failures = _download(name, goal)
    if failures is None:
        return goal
    tried = "; ".join([f"{folder} (not there)" for folder in (*folders[:1], cached)] + failures)
    raise GraphNotFound(
        f"planetoid:{name} cannot be had. Tried: {tried}. To supply the files, put "
        f"{', '.join(file_names(name))} "
        f"into {goal}, or give the folder that holds {name}/raw with --root (root=). "
        "The bundled graph `cora` needs no download."
    )


def _download(name: str, goal: Path) -> list[str] | None:
    """Fetches all eight files from the first address that has them; else why each address failed."""
    failures = []
    for address in ADDRESSES:
        try:
            goal.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=goal.parent) as beside:
                for file in file_names(name):
                    with urllib.request.urlopen(f"{address}/{file}", timeout=TIMEOUT_S) as answer:
                        (Path(beside) / file).write_bytes(answer.read())
                _checked_digest(Path(beside), name)
                goal.mkdir(exist_ok=True)
                for file in file_names(name):
                    os.replace(Path(beside) / file, goal / file)
            return None
        except (OSError, ValueError) as error:  # urllib's errors are OSErrors, a damaged file a ValueError
            failures.append(f"{address} ({error})")
    with contextlib.suppress(OSError):
        goal.parent.rmdir()  # only where nothing is in it: a folder without files looks like a data set
    return failures


def _checked_digest(raw: Path, name: str) -> str:
    """The digest of the raw files, once each is known to hold nothing but arrays."""
    digest = hashlib.sha256()
    for file in file_names(name):
        content = (raw / file).read_bytes()
        digest.update(content)
        try:
            if file.endswith(".index"):
                [int(line) for line in content.split()]
            else:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # old homes of SciPy's and NumPy's classes
                    _ArraysOnly(io.BytesIO(content), encoding="latin1").load()
        except Exception as error:
            raise InvalidGraph(
                f"{raw / file} is not Planetoid's file ({type(error).__name__}: {error}); delete it and "
                f"fetch it again."
            ) from None
    return digest.hexdigest()[:16]


class _ArraysOnly(pickle.Unpickler):
    """An unpickler that knows no name but those of arrays, so that loading cannot run code."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in SAFE_GLOBALS:
            raise pickle.UnpicklingError(f"it refers to {module}.{name}")
        return super().find_class(module, name)


def _dataset(name: str, raw: Path, digest: str, split: str) -> Any:
    """PyG's Planetoid over `raw`; what it derives lies in the cache, where it is renamed into place."""
    import torch_geometric

    place = cache_dir("graphs") / "planetoid" / name / f"processed-{digest}-pyg{torch_geometric.__version__}"
    if (place / "data.pt").is_file():
        return _opened(name, raw, place, split)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(dir=place.parent))
    except OSError:  # no cache to write to: derive it for this process alone
        beside = Path(tempfile.mkdtemp())
    try:
        dataset = _opened(name, raw, beside, split)
        # Fails where another process was first, with the same content, or where there is no cache.
        with contextlib.suppress(OSError):
            beside.rename(place)
        return dataset
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _opened(name: str, raw: Path, processed: Path, split: str) -> Any:
    from torch_geometric.datasets import Planetoid

    class PlanetoidHere(Planetoid):
        @property
        def raw_dir(self) -> str:
            return str(raw)

        @property
        def processed_dir(self) -> str:
            return str(processed)

        def download(self) -> None:
            raise GraphNotFound(f"The files of planetoid:{name} vanished from {raw} while they were read.")

    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")  # old homes of SciPy's and NumPy's classes; "Processing..." on stderr
        return PlanetoidHere(str(raw), name, split=split)
