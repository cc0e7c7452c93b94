"""Small graphs whose content is known, in sound, odd, faulty, damaged and hostile forms: what fuzz_readers.py reads."""

from __future__ import annotations

import io
import math
import pickle
import random
import warnings
from dataclasses import dataclass, field
from typing import Any

import torch

from fasthop.noise import silence

with warnings.catch_warnings():
    silence()
    from torch_geometric.data import Data

from fasthop.graph.graph import MASKS, Graph

LETTERS = "abz09 ,'\"é中_-.;#"
JUNK_CELLS = (
    "", "nan", "inf", "-1", "1e999", "7", "zoe", '"', "a,b", "é", "\t", "0x1f", "1_0", "TRUE", "null", "None", "-0", " ",
    "9" * 30, "train",
)  # fmt: skip
RAN: list[str] = []


def ran() -> None:
    """What hostile files try to call."""
    RAN.append("code ran")


class Hostile:
    def __reduce__(self) -> Any:
        return ran, ()


@dataclass
class Truth:
    """What a graph really is; edges with their weights, 1 where there are none."""

    num_nodes: int
    edges: list[tuple[int, int]]
    weights: list[float] | None
    x: list[list[float]] | None
    y: list[Any]
    parts: list[int | None]
    ids: list[str]
    options: dict[str, Any] = field(default_factory=dict)

    def mask(self, part: int) -> list[bool]:
        return [own == part for own in self.parts]

    def masks(self) -> dict[str, torch.Tensor]:
        return {name: torch.tensor(self.mask(part)) for part, name in enumerate(MASKS)}

    def edge_index(self) -> torch.Tensor:
        return torch.tensor(self.edges, dtype=torch.int64).reshape(-1, 2).t().contiguous()

    def holds(self, graph: Graph) -> str | None:
        """What of a loaded graph is not as it should be; None where all is."""
        weights = [1.0] * len(self.edges) if self.weights is None else self.weights
        own = [1.0] * graph.num_edges if graph.edge_weight is None else graph.edge_weight.tolist()
        pairs = zip(*graph.edge_index.tolist(), own, strict=True)
        if sorted(pairs) != sorted((*edge, weight) for edge, weight in zip(self.edges, weights, strict=True)):
            return "edges"
        x = None if graph.x is None else graph.x.to_dense().tolist()
        if (x or None) != (self.x or None) and not (self.x is not None and self.x[0] == [] and x is None):
            return "x"
        y = graph.y.nan_to_num(-1).tolist()
        if graph.class_names is not None and not graph.is_multilabel:
            y = [-1 if label < 0 else int(graph.class_names[label].removeprefix("class ")) for label in y]
        if y != self.y:
            return "y"
        for part, name in enumerate(MASKS):
            if getattr(graph, name).tolist() != self.mask(part):
                return name
        if graph.node_ids is not None and list(map(str, graph.node_ids.tolist())) != self.ids:
            return "node_ids"
        return None


def truth(rnd: random.Random, *, undirected: bool = False) -> Truth:
    """A small random graph: parallel edges, self-loops, isolated and unlabelled nodes, one class or several labels."""
    n = rnd.randint(1, 6)
    edges = [(rnd.randrange(n), rnd.randrange(n)) for _ in range(rnd.randint(0, 8))]
    if undirected:
        edges = sorted({(min(pair), max(pair)) for pair in edges})
    weights = [rnd.randint(1, 9) / 4 for _ in edges] if rnd.random() < 0.4 and not undirected else None
    width = rnd.randint(1, 3)
    x = [[rnd.randint(-8, 8) / 4 for _ in range(width)] for _ in range(n)] if rnd.random() < 0.9 else None
    parts = [rnd.choice((0, 0, 1, 2, None)) for _ in range(n)]
    parts[rnd.randrange(n)] = 0
    if rnd.random() < 0.2:
        y: list[Any] = [[float(rnd.randint(0, 1)) for _ in range(2)] for _ in range(n)]
        y[parts.index(0)] = [1.0, 1.0]  # else they may be one-hot
        y = [
            [-1.0, -1.0] if part is None and rnd.random() < 0.3 else row
            for row, part in zip(y, parts, strict=True)
        ]
    else:
        y = [-1 if part is None and rnd.random() < 0.5 else rnd.randint(0, 3) for part in parts]
    ids: list[str] = []
    while len(ids) < n:
        word = "".join(rnd.choice(LETTERS) for _ in range(rnd.randint(1, 4))).strip()
        if word and word not in ids:
            ids.append(word)
    return Truth(n, edges, weights, x, y, parts, ids)


def is_multilabel(true: Truth) -> bool:
    return isinstance(true.y[0], list)


def y_tensor(true: Truth) -> torch.Tensor:
    if is_multilabel(true):
        y = torch.tensor(true.y)
        return torch.where(y < 0, math.nan, y)
    return torch.tensor(true.y)


def fields_of(true: Truth) -> dict[str, Any]:
    found: dict[str, Any] = {
        "edge_index": true.edge_index(),
        "y": y_tensor(true),
        "num_nodes": true.num_nodes,
        **true.masks(),
    }
    if true.x is not None:
        found["x"] = torch.tensor(true.x)
    if true.weights is not None:
        found["edge_weight"] = torch.tensor(true.weights)
    return found


def odd_forms(fields: dict[str, Any], rnd: random.Random) -> None:
    """The same content in other forms, all of which may be read and none of which may be read wrongly."""

    def sometimes() -> bool:
        return rnd.random() < 0.3

    if sometimes():
        fields["edge_index"] = fields["edge_index"].to(
            rnd.choice((torch.int32, torch.int16, torch.float32, torch.uint8))
        )
    if sometimes():
        fields["edge_index"] = (
            fields["edge_index"].t().contiguous()
            if fields["edge_index"].size(1) != 2
            else fields["edge_index"]
        )
    if sometimes() and "x" in fields:
        fields["x"] = rnd.choice(
            (torch.Tensor.double, torch.Tensor.half, torch.Tensor.to_sparse_coo, torch.Tensor.to_sparse_csr)
        )(fields["x"])
    if sometimes() and fields["y"].dim() == 1:
        fields["y"] = rnd.choice(
            (lambda y: y.unsqueeze(1), lambda y: torch.where(y < 0, math.nan, y.double()), torch.Tensor.int)
        )(fields["y"])
    for name in MASKS:
        if sometimes():
            mask = fields[name]
            fields[name] = rnd.choice(
                (mask.long(), mask.to(torch.uint8), mask.float(), mask.nonzero().flatten(), mask.unsqueeze(1))
            )
    if sometimes() and "edge_weight" in fields:
        fields["edge_weight"] = rnd.choice((torch.Tensor.double, lambda w: w.unsqueeze(1)))(
            fields["edge_weight"]
        )
    if sometimes():
        del fields["num_nodes"]


def junk(rnd: random.Random) -> Any:
    """A value of any kind, in place of a field."""
    shape = [rnd.randint(0, 4) for _ in range(rnd.randint(0, 3))]
    dtype = rnd.choice(
        (
            torch.int64,
            torch.int32,
            torch.float32,
            torch.float64,
            torch.bool,
            torch.uint8,
            torch.complex64,
            torch.bfloat16,
            torch.int8,
        )
    )
    numbers = torch.tensor([rnd.choice((0, 1, 2, 3, -1, 7, 100)) for _ in range(math.prod(shape))])
    tensor = numbers.reshape(shape).to(dtype)
    if tensor.is_floating_point() and rnd.random() < 0.5 and tensor.numel():
        tensor.view(-1)[0] = rnd.choice((math.nan, math.inf, 0.5, -math.inf, 1e30))
    other = (
        None,
        "word",
        5,
        -3,
        2.5,
        [1, 2],
        [[0, 1], [1, 0]],
        {"a": 1},
        (tensor, tensor),
        tensor.to_sparse() if shape else tensor,
    )
    return tensor if rnd.random() < 0.75 else rnd.choice(other)


def damaged(content: bytes, rnd: random.Random) -> bytes:
    """The bytes truncated, flipped, overwritten, cut out or doubled somewhere."""
    data = bytearray(content)
    for _ in range(rnd.choice((1, 1, 1, 2, 5))):
        if not data:
            break
        at, length = rnd.randrange(len(data)), rnd.randint(1, 16)
        kind = rnd.randrange(6)
        if kind == 0:
            del data[at:]
        elif kind == 1:
            data[at] ^= 1 << rnd.randrange(8)
        elif kind == 2:
            data[at : at + length] = bytes(rnd.randrange(256) for _ in range(length))
        elif kind == 3:
            del data[at : at + length]
        elif kind == 4:
            data[at:at] = data[at : at + length]
        else:
            data[at] = rnd.choice((0, 255, 10, 44, 34, 128))
    return bytes(data)


HOSTILE_PICKLES = (
    lambda: pickle.dumps(Hostile()),
    lambda: pickle.dumps({"edge_index": Hostile()}, protocol=2),
    lambda: b"cos\nsystem\n(S'true'\ntR.",
    lambda: saved({"edge_index": Hostile(), "x": torch.ones(2, 2)}),
    lambda: saved(Hostile()),
    lambda: saved(Data(edge_index=torch.empty(2, 0, dtype=torch.int64), note=Hostile())),
)


def saved(content: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()
