"""Synthetic graphs from a seed: power-law degrees, homophilous links, and labels that neighbours give away.

A node's features are its class's mean, of length `signal`, in standard normal noise: too little for a
model that sees one node, enough for one that averages over neighbours (the noise falls with the root
of their number). Same seed, same bits, for any number of threads.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace

import numpy as np
import torch

from fasthop.errors import InvalidConfig
from fasthop.graph.block_model import block_model, hub_offset
from fasthop.graph.graph import Graph
from fasthop.graph.mend import INT64_UP_TO
from fasthop.graph.note import note

# Rows of x that are filled at a time: some tens of megabytes beside x itself.
ROWS_PER_PIECE = 1 << 16


@dataclass(frozen=True, kw_only=True, slots=True)
class SyntheticConfig:
    """What a synthetic graph is made from.

    num_nodes; num_edges: directed edges, two a link; num_features; num_classes: sizes fall as 1/(c + 2).
    homophily: the share of links within a class, 0 to 1.
    max_degree: about the largest degree, where the power law would go beyond it.
    train, val: shares of the nodes; the rest is the test set. signal: length of the class means.
    Raises InvalidConfig for values that cannot work.
    """

    num_nodes: int
    num_edges: int
    num_features: int
    num_classes: int
    homophily: float
    max_degree: int
    train: float = 0.5
    val: float = 0.25
    signal: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("num_classes", "num_features"):
            if getattr(self, name) < 1:
                raise InvalidConfig(
                    f"{name} of a synthetic graph is {getattr(self, name)}; it must be at least 1."
                )
        if not self.num_classes <= self.num_nodes < 2**31:
            raise InvalidConfig(
                f"num_nodes of a synthetic graph is {self.num_nodes:,}; it must be at least num_classes = "
                f"{self.num_classes} and below 2^31."
            )
        if not 0 <= self.num_edges <= self.num_nodes * (self.num_nodes - 1):
            raise InvalidConfig(
                f"A graph of {self.num_nodes:,} nodes cannot have {self.num_edges:,} edges; lower degree."
            )
        if not 0 <= self.homophily <= 1:
            raise InvalidConfig(f"homophily is {self.homophily}; it must be from 0 to 1.")
        if not (self.train > 0 and self.val >= 0 and self.train + self.val <= 1):
            raise InvalidConfig(f"train = {self.train} and val = {self.val} are no shares of the nodes.")
        if self.seed < 0:
            raise InvalidConfig(f"seed is {self.seed}; it must be at least 0.")


# Sizes, shares and largest degrees of the graphs that the shapes stand for, both directions counted
# (ogbn-arxiv symmetrised, ogbn-products: Hu et al. 2020; Reddit: Hamilton et al. 2017).
SHAPES: dict[str, SyntheticConfig] = {
    "arxiv": SyntheticConfig(
        num_nodes=169_343, num_edges=2_315_598, num_features=128, num_classes=40, homophily=0.65,
        max_degree=13_161, train=0.537, val=0.176,
    ),
    "products": SyntheticConfig(
        num_nodes=2_449_029, num_edges=123_718_280, num_features=100, num_classes=47, homophily=0.81,
        max_degree=17_481, train=0.0803, val=0.0161,
    ),
    "reddit": SyntheticConfig(
        num_nodes=232_965, num_edges=114_615_892, num_features=602, num_classes=41, homophily=0.76,
        max_degree=21_657, train=0.659, val=0.102,
    ),
}  # fmt: skip
FREE_DEFAULTS = {"nodes": 10_000, "degree": 10.0, "features": 64, "classes": 8, "homophily": 0.7}


def synthetic_config(spec: str, seed: int = 0) -> SyntheticConfig:
    """The config that `synthetic:<spec>` names: a shape, or "nodes=…,degree=…,features=…,classes=…,
    homophily=…", each optional; "seed=…" may follow either and comes before the argument.

    Raises InvalidConfig, with what is known, for another name or a value that is no number.
    """
    shape, *rest = spec.split(",")
    parts = rest if shape in SHAPES else [part for part in spec.split(",") if part]
    known = ("seed",) if shape in SHAPES else (*FREE_DEFAULTS, "seed")
    values: dict[str, float] = {}
    for part in parts:
        key, _, text = part.partition("=")
        if key.strip() not in known:
            near = difflib.get_close_matches(key.strip(), (*SHAPES, *known), n=1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise InvalidConfig(
                f"synthetic:{spec} has {key.strip()!r}{hint}; known are the shapes {', '.join(SHAPES)} (with "
                f"seed=…), or "
                f"{', '.join(f'{name}=…' for name in (*FREE_DEFAULTS, 'seed'))}."
            )
        if key.strip() in values:
            raise InvalidConfig(f"synthetic:{spec} gives {key.strip()} twice; give it once.")
        values[key.strip()] = _number(key.strip(), text)
    if "seed" in values:
        seed = int(values.pop("seed"))
    if shape in SHAPES:
        return replace(SHAPES[shape], seed=seed)
    free = FREE_DEFAULTS | values
    nodes = int(free["nodes"])
    return SyntheticConfig(
        num_nodes=nodes,
        num_edges=2 * round(nodes * free["degree"] / 2),
        num_features=int(free["features"]),
        num_classes=int(free["classes"]),
        homophily=free["homophily"],
        max_degree=max(
            int(4 * free["degree"]), nodes // 13
        ),  # the largest in ogbn-arxiv is 1/13 of its nodes
        seed=seed,
    )


def synthetic_graph(config: SyntheticConfig, name: str = "synthetic") -> Graph:
    """Makes the graph; raises InvalidConfig where its classes are too small for so many edges."""
    streams = np.random.SeedSequence(config.seed).spawn(4)
    sizes = _class_sizes(config.num_nodes, config.num_classes)
    # Node numbers tell nothing about class or degree, as in the real graphs.
    node = np.random.Generator(np.random.PCG64(streams[0])).permutation(config.num_nodes).astype(np.int32)
    y = np.empty(config.num_nodes, np.int64)
    y[node] = np.repeat(np.arange(config.num_classes), sizes)
    graph = block_model(
        sizes,
        _hub_offsets(config, sizes),
        node,
        config.num_edges // 2,
        config.homophily,
        int(streams[1].generate_state(1, np.uint64)[0]),
    )
    if graph is None:
        raise InvalidConfig(
            f"{config.num_edges:,} edges do not fit between {config.num_nodes:,} nodes in "
            f"{config.num_classes} classes "
            f"at homophily {config.homophily}; lower degree or classes, or raise nodes."
        )
    masks = _masks(config, np.random.Generator(np.random.PCG64(streams[2])))
    return Graph(
        x=_features(config, y, np.random.Generator(np.random.PCG64(streams[3]))),
        edge_index=_edge_index(*graph),
        y=torch.from_numpy(y),
        train_mask=masks[0],
        val_mask=masks[1],
        test_mask=masks[2],
        num_nodes=config.num_nodes,
        num_classes=config.num_classes,
        name=name,
        notes=(
            note(
                f"This graph is synthetic (a degree-corrected block model, seed {config.seed}): times and "
                f"memory "
                "stand for a real graph of this shape, accuracies do not.",
                f"该图为合成图（度修正随机块模型，种子 {config.seed}）：时间与内存可代表同等规模的真实图，"
                f"准确率不能。",
            ),
        ),
    )


def _number(key: str, text: str) -> float:
    try:
        value = float(text) if key in ("degree", "homophily") else int(text)
    except ValueError:
        raise InvalidConfig(f"{key}={text!r} in the name of a synthetic graph is no number.") from None
    if not np.isfinite(value) or value < 0:
        raise InvalidConfig(f"{key}={text} in the name of a synthetic graph must be finite and at least 0.")
    return value


def _class_sizes(num_nodes: int, num_classes: int) -> np.ndarray:
    """Sizes that fall as 1 / (c + 2): of 40 classes the largest has 15 % and the smallest 0.7 %."""
    share = 1 / (np.arange(num_classes) + 2.0)
    ends = np.round(np.cumsum(share) / share.sum() * (num_nodes - num_classes)).astype(np.int64)
    return np.diff(ends, prepend=0) + 1


def _hub_offsets(config: SyntheticConfig, sizes: np.ndarray) -> np.ndarray:
    degree = config.num_edges / config.num_nodes
    return np.array([hub_offset(int(size), degree, config.max_degree) for size in sizes])


def _edge_index(rowptr: np.ndarray, col: np.ndarray) -> torch.Tensor:
    """[2, E] by source, then target, as PyG's coalesced graphs are; int32 where int64 is a burden."""
    dtype = torch.int64 if col.size <= INT64_UP_TO else torch.int32
    edge_index = torch.empty(2, col.size, dtype=dtype)
    rows = torch.arange(rowptr.size - 1, dtype=dtype)
    edge_index[0] = torch.repeat_interleave(rows, torch.from_numpy(rowptr).diff(), output_size=col.size)
    edge_index[1] = torch.from_numpy(col)
    return edge_index


def _features(config: SyntheticConfig, y: np.ndarray, rng: np.random.Generator) -> torch.Tensor:
    means = rng.standard_normal((config.num_classes, config.num_features), dtype=np.float32)
    means *= config.signal / np.linalg.norm(means, axis=1, keepdims=True)
    x = np.empty((config.num_nodes, config.num_features), np.float32)
    for start in range(0, config.num_nodes, ROWS_PER_PIECE):
        piece = x[start : start + ROWS_PER_PIECE]
        rng.standard_normal(out=piece, dtype=np.float32)
        piece += means[y[start : start + ROWS_PER_PIECE]]
    return torch.from_numpy(x)


def _masks(config: SyntheticConfig, rng: np.random.Generator) -> list[torch.Tensor]:
    order = torch.from_numpy(rng.permutation(config.num_nodes))
    train = max(1, round(config.train * config.num_nodes))
    val = round(config.val * config.num_nodes)
    masks = [torch.zeros(config.num_nodes, dtype=torch.bool) for _ in range(3)]
    for mask, part in zip(masks, torch.tensor_split(order, [train, train + val]), strict=True):
        mask[part] = True
    return masks
