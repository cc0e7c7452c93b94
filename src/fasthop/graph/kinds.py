"""Kinds of graphs: which one fasthop trains on, and a sentence for each that it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fasthop.graph.fault import fault

if TYPE_CHECKING:
    from torch_geometric.data import Data


def single_graph(data: Any) -> tuple[Data, int | None]:
    """The one homogeneous graph that was given, and its number of classes where a dataset knows it.

    Raises InvalidGraph, by name, for what fasthop does not train on.
    """
    from torch_geometric.data import Batch, Data, Dataset, HeteroData

    classes = None
    if isinstance(data, Dataset):
        if len(data) != 1:
            raise fault(
                "several-graphs",
                f"The dataset {data} holds {len(data):,} graphs; fasthop trains on one graph. Give dataset[i].",
                f"数据集 {data} 含 {len(data)} 张图；fasthop 在一张图上训练。请给出 dataset[i]。",
            )
        classes, data = int(data.num_classes), data[0]
    if isinstance(data, HeteroData):
        raise heterogeneous("This is a HeteroData", "这是 HeteroData")
    if isinstance(data, list | tuple):
        kind = type(data).__name__
        raise fault(
            "several-graphs",
            f"This is a {kind} of {len(data):,} graphs; fasthop trains on one graph. Give one of them.",
            f"这是含 {len(data)} 张图的 {kind}；fasthop 在一张图上训练。请给出其中一张。",
        )
    if isinstance(data, Batch) and data.num_graphs != 1:
        raise fault(
            "several-graphs",
            f"This is a Batch of {data.num_graphs:,} graphs; fasthop trains on one graph. Give one of them.",
            f"这是含 {data.num_graphs} 张图的 Batch；fasthop 在一张图上训练。请给出其中一张。",
        )
    if not isinstance(data, Data):
        kind = type(data).__name__
        raise fault(
            "not-a-graph",
            f"This is a {kind}; give a torch_geometric.data.Data.",
            f"这是 {kind}；请给出 torch_geometric.data.Data。",
        )
    for key in ("edge_label_index", "neg_edge_label_index"):
        if key in data:
            raise fault(
                "link-prediction",
                f"The data has {key}, which means link prediction; fasthop trains node classification only. "
                f"Delete it (del data.{key}) to train on the nodes.",
                f"数据含 {key}，即链接预测；fasthop 只训练节点分类。如需在节点上训练，请删除它（del data.{key}）。",
            )
    for key in ("x_s", "x_t", "hyperedge_index"):
        if key in data:
            kind = ("a hypergraph", "超图") if key == "hyperedge_index" else ("a bipartite graph", "二部图")
            raise fault(
                "other-graph",
                f"The data has {key}, which means {kind[0]}; fasthop trains on plain graphs only.",
                f"数据含 {key}，即{kind[1]}；fasthop 只在普通图上训练。",
            )
    return data, classes


def heterogeneous(en: str, zh: str) -> Exception:
    """The refusal of a graph of several kinds of nodes or edges; en, zh: what it is."""
    return fault(
        "heterogeneous",
        f"{en}, with several kinds of nodes or edges; fasthop trains on one kind.",
        f"{zh}，含多种类型的节点或边；fasthop 只训练单一类型的图。",
        ("data.to_homogeneous() may help.", "可尝试 data.to_homogeneous()。"),
    )


def is_attribute_name(name: object) -> bool:
    """Whether a Data may hold an extra under the name: none of its methods, nothing private."""
    from torch_geometric.data import Data

    if not isinstance(name, str) or not name or name.startswith("_"):
        return False
    return name in ("edge_attr", "edge_weight", "pos", "time") or not hasattr(Data, name)
