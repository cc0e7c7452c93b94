"""Graph: one graph for node classification, checked once so that nothing after it needs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from fasthop.graph.checks import MASKS, checks_of
from fasthop.graph.csr import CSR
from fasthop.graph.fault import fault
from fasthop.graph.label_checks import labelled_nodes
from fasthop.graph.note import Note

if TYPE_CHECKING:
    from torch_geometric.data import Data, Dataset

NEEDED = ("edge_index", "y", *MASKS, "num_nodes", "num_classes")


@dataclass(frozen=True, kw_only=True, eq=False)
class Graph:
    """A single, homogeneous graph with one class a node, or several labels. All tensors lie on one device.

    x: floating [N, F], dense or sparse (COO, CSR), or None.
    edge_index: [2, E] in the user's order, sources above targets; int64 (int32 in huge graphs).
    edge_weight: floating [E] in the order of edge_index, or None; may require a gradient.
    y: int64 [N]; a value outside 0 .. num_classes - 1 stands for "no label". Multi-label: float32 [N, C]
        of 0 and 1, where a row of NaN stands for "no label" and num_classes is C.
    train_mask, val_mask, test_mask: bool [N]; all nodes in them have a label, and the first is not empty.
    notes: sentences for the reader of a report, by language code.
    extras: the node and edge attributes that fasthop does not use itself, by name.
    node_ids: the user's own ids, a NumPy array [N] of distinct str or int64, or None where none were given.
    class_names: the C names of the classes or labels where they came as words, else None.
    Raises InvalidGraph at construction where any of this does not hold.
    """

    x: Tensor | None
    edge_index: Tensor
    y: Tensor
    train_mask: Tensor
    val_mask: Tensor
    test_mask: Tensor
    num_nodes: int
    num_classes: int
    edge_weight: Tensor | None = None
    name: str = "data"
    notes: tuple[Note, ...] = ()
    extras: Mapping[str, Any] = field(default_factory=dict)
    node_ids: np.ndarray | None = None
    class_names: tuple[str, ...] | None = None
    _cache: dict[str, tuple[int, CSR]] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        fields = dict(self.__dict__)
        for name in NEEDED:
            if fields[name] is None:
                raise fault(
                    "missing",
                    f"{name} is None, and a Graph needs it.",
                    f"{name} 为 None，而 Graph 必须有它。",
                )
        for _, holds in checks_of(fields):
            holds()

    @classmethod
    def from_data(
        cls,
        data: Data | Dataset,
        *,
        split: int | str | None = None,
        seed: int = 0,
        name: str = "data",
        num_classes: int | None = None,
        weight_from: str = "edge_weight",
        dtype: torch.dtype | None = torch.float32,
        undirected: bool = False,
    ) -> Graph:
        """A PyG `Data` (or a dataset of one) as a checked Graph; what had to be changed is said in its notes.

        split: which column of masks of shape [N, S]; or a split drawn from `seed`: "random" (20 nodes
            a class, 500, 1,000), "per-class:20/500/1000" for other numbers, or percentages such as "60/20/20".
        num_classes: the largest label + 1 where it is None.
        weight_from: the attribute that holds the edges' weights; `edge_attr` is one only when named here.
        dtype: what x and the weights are cast to; None keeps a floating dtype as it is.
        undirected: add the reverse of each edge that lacks one, with its weight.
        Raises InvalidGraph for what is not one homogeneous graph with node labels, or has a fault.
        """
        from fasthop.graph.convert import ReadOptions, graph_from_data

        options = ReadOptions(
            name=name,
            split=split,
            seed=seed,
            num_classes=num_classes,
            weight_from=weight_from,
            dtype=dtype,
            undirected=undirected,
        )
        return graph_from_data(data, options)

    @classmethod
    def from_networkx(
        cls,
        graph: Any,
        *,
        x: str | Sequence[str] = "x",
        y: str = "y",
        weight: str = "weight",
        **options: Any,
    ) -> Graph:
        """A NetworkX graph as a checked Graph. Nodes are numbered in its order and keep their names in node_ids; an
        undirected graph gives both directions of each edge, a multigraph its parallel edges.

        x: the nodes' attribute with their features, or several, laid side by side. y: that with the labels (numbers,
        words, or lists of 0 and 1). weight: the edges' attribute with their weights; all edges have it or none.
        Attributes split ("train", "val", "test") or train_mask, val_mask, test_mask of the nodes are the split.
        options: as in `from_data`. Raises InvalidGraph for a fault.
        """
        from fasthop.graph.convert import ReadOptions, graph_from_data
        from fasthop.graph.fault import Faults
        from fasthop.graph.python_graphs import data_from_networkx

        faults = Faults()
        data = data_from_networkx(graph, x=x, y=y, weight=weight, faults=faults)
        return graph_from_data(data, ReadOptions(**options), faults)

    @classmethod
    def from_scipy(
        cls,
        adj: Any,
        *,
        y: Any,
        x: Any = None,
        train_mask: Any = None,
        val_mask: Any = None,
        test_mask: Any = None,
        node_ids: Any = None,
        **options: Any,
    ) -> Graph:
        """A SciPy sparse matrix [N, N] as a checked Graph: the entry [i, j] is an edge i -> j, and its value the edge's
        weight, unless all are 1.

        y, masks: as in `from_data`, arrays or tensors. x: [N, F], an array, a tensor or a sparse matrix.
        options: as in `from_data`. Raises InvalidGraph for a matrix that is not square, or another fault.
        """
        from fasthop.graph.convert import ReadOptions, graph_from_data
        from fasthop.graph.fault import Faults
        from fasthop.graph.matrices import data_from_scipy

        faults = Faults()
        masks = {"train_mask": train_mask, "val_mask": val_mask, "test_mask": test_mask}
        data = data_from_scipy(adj, {"x": x, "y": y, "node_ids": node_ids, **masks}, faults)
        return graph_from_data(data, ReadOptions(**options), faults)

    @classmethod
    def from_dgl(
        cls,
        graph: Any,
        *,
        x: str | None = None,
        y: str | None = None,
        weight: str | None = None,
        **options: Any,
    ) -> Graph:
        """A homogeneous DGLGraph as a checked Graph: edges by their ids, ndata and edata under their own names.

        x, y: the keys in ndata of the features and the labels; feat or x, and label or y, where they are None.
        weight: the key in edata of the edges' weights. options: as in `from_data`.
        Raises InvalidGraph for several types of nodes or edges, or another fault.
        """
        from fasthop.graph.convert import ReadOptions, graph_from_data
        from fasthop.graph.fault import Faults
        from fasthop.graph.python_graphs import data_from_dgl

        faults = Faults()
        data = data_from_dgl(graph, x=x, y=y, weight=weight, faults=faults)
        return graph_from_data(data, ReadOptions(**options), faults)

    def to_data(self) -> Data:
        """The graph as a PyG `Data`: edge_index int64 in the user's order, extras under their names.
        node_ids stay behind: PyG's loaders cannot slice strings."""
        from torch_geometric.data import Data

        data = Data(
            x=self.x,
            edge_index=self.edge_index.to(torch.int64),
            y=self.y,
            num_nodes=self.num_nodes,
            train_mask=self.train_mask,
            val_mask=self.val_mask,
            test_mask=self.test_mask,
            **self.extras,
        )
        if self.edge_weight is not None:
            data.edge_weight = self.edge_weight
        return data

    @property
    def num_edges(self) -> int:
        """Number of directed edges: an undirected link counts twice."""
        return self.edge_index.size(1)

    @property
    def num_features(self) -> int:
        """Width of x; 0 where there is none."""
        return 0 if self.x is None else self.x.size(1)

    @property
    def is_multilabel(self) -> bool:
        """Whether a node may have several labels at once: y is float32 [N, C], not int64 [N]."""
        return self.y.dim() == 2

    @property
    def labelled(self) -> Tensor:
        """bool [N]: the nodes that have a label."""
        return labelled_nodes(self.y, self.num_classes)

    @property
    def csr(self) -> CSR:
        """The edges by target; built at the first call and kept while edge_index stays as it is."""
        return self._cached("csr", lambda: CSR.from_edge_index(self.edge_index, self.num_nodes))

    @property
    def csr_t(self) -> CSR:
        """The edges by source, the transpose of `csr`; kept likewise."""
        return self._cached("csr_t", lambda: self.csr.transpose())

    def _cached(self, name: str, build: Any) -> CSR:
        # The version counter of the tensor tells an edit in place, which would leave the cache stale.
        version = -1 if self.edge_index.is_inference() else self.edge_index._version
        entry = self._cache.get(name)
        if entry is None or entry[0] != version:
            entry = self._cache[name] = (version, build())
        return entry[1]

    def __getstate__(self) -> dict[str, Any]:
        # Copies and pickles go through here: a cache is built anew there, never carried along.
        return {**self.__dict__, "_cache": {}}
