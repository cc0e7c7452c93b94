"""Makes src/fasthop/graph/cora.npz from the LINQS release of Cora, the same bytes each time.

    python scripts/make_cora.py FOLDER [OUT]

FOLDER holds cora.content (or cora.content.gz) and cora.cites. Nodes keep the order of cora.content, and
classes are numbered in alphabetical order. The file is not compressed: its bytes do not depend on zlib.
"""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import numpy as np
import torch

from fasthop.graph.bundled import CORA, CORA_SEED
from fasthop.graph.split import planetoid_split


def arrays_of(folder: Path) -> dict[str, np.ndarray]:
    """What cora.npz holds, by name."""
    papers, labels, words = [], [], []
    for line in _lines(folder / "cora.content"):
        paper, *flags, label = line.split("\t")
        papers.append(paper)
        labels.append(label)
        words.append(np.flatnonzero(np.array(flags, dtype=np.uint8)))
    number = {paper: node for node, paper in enumerate(papers)}
    classes = sorted(set(labels))
    y = np.array([classes.index(label) for label in labels], np.uint8)
    links = {
        tuple(sorted((number[cited], number[citing])))
        for cited, citing in (line.split("\t") for line in _lines(folder / "cora.cites"))
        if cited != citing
    }
    part = np.zeros(y.size, np.uint8)
    for value, mask in enumerate(
        planetoid_split(torch.from_numpy(y.astype(np.int64)), 7, CORA_SEED), start=1
    ):
        part[mask.numpy()] = value
    return {
        "num_words": np.array(len(flags), np.uint16),
        "words_per_paper": np.array([row.size for row in words], np.uint8),
        "word": np.concatenate(words).astype(np.uint16),
        "link": np.array(sorted(links), np.uint16).T.copy(),
        "y": y,
        "part": part,
    }


def _lines(path: Path) -> list[str]:
    if path.exists():
        return path.read_text(encoding="ascii").splitlines()
    with gzip.open(path.with_name(path.name + ".gz"), "rt", encoding="ascii") as file:
        return file.read().splitlines()


def main(arguments: list[str]) -> None:
    """Writes the file beside its place, then renames it."""
    if len(arguments) not in (1, 2):
        raise SystemExit(__doc__)
    out = Path(arguments[1]) if len(arguments) == 2 else CORA
    beside = out.with_suffix(".part.npz")
    np.savez(beside, allow_pickle=False, **arrays_of(Path(arguments[0])))
    beside.replace(out)
    print(f"{out}: {out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
