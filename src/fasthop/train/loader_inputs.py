"""What a NeighborLoader is given, checked: the graph's edges by target, the seed nodes, PyG's other options."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fasthop.errors import InvalidConfig, InvalidGraph
from fasthop.graph.check import check_indices
from fasthop.graph.csr import CSR

log = logging.getLogger("fasthop.train")

# PyG's options that change what is sampled, with the only value that fasthop's sampler knows.
ONLY_VALUE: dict[str, Any] = {
    "input_time": None,
    "subgraph_type": "directional",
    "disjoint": False,
    "temporal_strategy": "uniform",
    "time_attr": None,
    "weight_attr": None,
    "transform_sampler_output": None,
    "neighbor_sampler": None,
    "directed": True,
    "custom_cls": None,
    "input_id": None,
    "sampler": None,
    "batch_sampler": None,
    "generator": None,
}
# PyG's options about worker processes or sortedness: they change no batch, so they are taken and not needed.
NOT_NEEDED = frozenset(
    {
        "is_sorted", "filter_per_worker", "persistent_workers", "prefetch_factor", "worker_init_fn", "timeout",
        "multiprocessing_context", "pin_memory_device", "in_order", "dataset", "collate_fn",
    }
)  # fmt: skip
_said: set[str] = set()


@dataclass(frozen=True, kw_only=True, slots=True)
class Edges:
    """The edges that are sampled. csr: by target, on the CPU; form: the attribute of the data they came
    from, "edge_index" or "adj_t"."""

    csr: CSR
    form: str


def edges_of(data: Any) -> Edges:
    """The edges of a PyG `Data`; e_id counts along edge_index, or along adj_t's entries row by row.

    Raises InvalidGraph for heterogeneous data, no edges' attribute at all, a number of nodes that only
    the largest index hints at, or a fault in the indices.
    """
    from torch_geometric.data import Data

    if not isinstance(data, Data):
        raise InvalidGraph(
            f"NeighborLoader got a {type(data).__name__}; it samples one homogeneous graph: give a "
            "torch_geometric.data.Data or a fasthop Graph."
        )
    num_nodes = known_num_nodes(data)
    adj_t = data.get("adj_t")
    if adj_t is not None:
        return Edges(csr=_csr_of_adj_t(adj_t, num_nodes), form="adj_t")
    edge_index = data.get("edge_index")
    if edge_index is None:
        raise InvalidGraph(
            "The data has neither edge_index nor adj_t; a graph without edges has edge_index "
            "torch.empty(2, 0, dtype=torch.int64)."
        )
    if isinstance(edge_index, Tensor):
        edge_index = edge_index.as_subclass(Tensor).cpu()
    return Edges(csr=CSR.from_edge_index(edge_index, num_nodes), form="edge_index")


def known_num_nodes(data: Any) -> int:
    """data.num_nodes; raises InvalidGraph where PyG could only guess it, which loses isolated nodes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="Unable to accurately infer 'num_nodes'")
        try:
            num_nodes = data.num_nodes
        except UserWarning:
            num_nodes = None
    if num_nodes is None:
        raise InvalidGraph(
            "The number of nodes is not known: the data has no x and no num_nodes, and the largest index in "
            "edge_index misses isolated nodes. Set data.num_nodes."
        )
    return int(num_nodes)


def _csr_of_adj_t(adj_t: Any, num_nodes: int) -> CSR:
    """The CSR of a SparseTensor or a torch sparse tensor, whose rows are the targets."""
    if isinstance(adj_t, Tensor):
        if adj_t.layout is torch.sparse_coo and adj_t.is_coalesced():
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
                adj_t = adj_t.to_sparse_csr()
        if adj_t.layout is not torch.sparse_csr:
            raise InvalidGraph(
                f"adj_t has layout {adj_t.layout}; give CSR (adj_t.to_sparse_csr()) or coalesced COO, targets as rows."
            )
        shape, rowptr, col = tuple(adj_t.shape), adj_t.crow_indices(), adj_t.col_indices()
    else:
        rowptr, col, _ = adj_t.csr()
        shape = tuple(adj_t.sparse_sizes())
    if shape != (num_nodes, num_nodes):
        raise InvalidGraph(
            f"adj_t has shape {list(shape)}; with {num_nodes:,} nodes it must be square of that size."
        )
    col = col.cpu()
    check_indices(col, num_nodes, "adj_t's columns")
    e_id = torch.arange(col.numel(), dtype=torch.int32 if col.numel() < 2**31 else torch.int64)
    return CSR(rowptr=rowptr.cpu().to(torch.int64), col=col, e_id=e_id, num_cols=num_nodes)


def seed_nodes(input_nodes: Any, num_nodes: int) -> tuple[Tensor, Tensor]:
    """(seeds, input_id), int64 both: the seed nodes in order, and what PyG calls each one's input_id:
    the node for a mask, the place in the vector for indices.

    input_nodes: None for all nodes, a bool or uint8 mask [N], or int indices (a tensor, array or list; repeats
    stay). Raises InvalidConfig for another type, a mask of another length, an int vector that reads
    like a mask, or none at all; InvalidGraph for an index outside 0 .. N - 1.
    """
    if input_nodes is None:
        nodes = torch.arange(num_nodes)
        if num_nodes == 0:
            raise InvalidConfig("The graph has no nodes, so there is nothing to sample.")
        return nodes, nodes
    if isinstance(input_nodes, (str, tuple)) and (isinstance(input_nodes, str) or _names_a_type(input_nodes)):
        raise InvalidConfig(
            f"input_nodes is {input_nodes!r}, which names a node type; heterogeneous graphs are not supported."
        )
    nodes = _as_tensor(input_nodes)
    if nodes.dim() != 1:
        raise InvalidConfig(
            f"input_nodes has shape {list(nodes.shape)}; give a mask of shape [{num_nodes}] or a vector of node indices"
            f"{', one column of the masks' if nodes.dim() == 2 else ''}."
        )
    if nodes.dtype is torch.bool or (nodes.dtype is torch.uint8 and nodes.numel() == num_nodes):
        if nodes.numel() != num_nodes:
            raise InvalidConfig(
                f"input_nodes is a mask of {nodes.numel():,} entries; the graph has {num_nodes:,} nodes."
            )
        nodes = input_id = nodes.nonzero().view(-1)
    elif nodes.is_floating_point() or nodes.is_complex():
        raise InvalidConfig(
            f"input_nodes has dtype {str(nodes.dtype).removeprefix('torch.')}; give a bool mask or int64 node indices."
        )
    else:
        nodes = nodes.to(torch.int64)
        check_indices(nodes, num_nodes, "input_nodes")
        if num_nodes > 2 and nodes.numel() == num_nodes and bool((nodes <= 1).all()):
            raise InvalidConfig(
                f"input_nodes is an int vector of {num_nodes:,} zeros and ones, as long as the graph has nodes: a mask? "
                "As indices it would mean nodes 0 and 1 over and over. Give mask.bool()."
            )
        input_id = torch.arange(nodes.numel())
    if nodes.numel() == 0:
        raise InvalidConfig("input_nodes selects no node, so there is nothing to sample; give at least one.")
    return nodes, input_id


def _names_a_type(value: tuple[Any, ...]) -> bool:
    return len(value) > 0 and isinstance(value[0], str)


def _as_tensor(value: Any) -> Tensor:
    if isinstance(value, Tensor):
        return value.detach().cpu()
    if isinstance(value, (list, tuple, range)) and len(value) == 0:
        return torch.empty(0, dtype=torch.int64)
    try:
        array = np.asarray(value)
        return torch.from_numpy(array.copy())
    except (TypeError, ValueError):
        raise InvalidConfig(
            f"input_nodes is a {type(value).__name__}; give None, a mask or a vector of node indices."
        ) from None


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerOptions:
    """What is left of PyG's options: num_threads, and whether batches are pinned."""

    num_threads: int
    pin_memory: bool


def worker_options(options: Mapping[str, Any], num_threads: int | None) -> WorkerOptions:
    """Reads PyG's remaining keyword arguments: those that need no worker process are taken, and said once.

    Raises InvalidConfig for one that asks for another kind of sampling, and TypeError for one that PyG
    does not know either.
    """
    rest = dict(options)
    num_workers = rest.pop("num_workers", 0)
    pin_memory = bool(rest.pop("pin_memory", False))
    for name, value in rest.items():
        if name in ONLY_VALUE:
            if str(getattr(value, "value", value)) != str(ONLY_VALUE[name]):
                raise InvalidConfig(
                    f"{name}={value!r} is not supported by fasthop's NeighborLoader, which samples directional, "
                    f"uniform, non-temporal subgraphs of one graph; leave it out, or use PyG's loader for it."
                )
        elif name not in NOT_NEEDED:
            raise TypeError(f"NeighborLoader() got an unexpected keyword argument {name!r}")
    _check_count("num_workers", num_workers)
    _check_count("num_threads", num_threads or 0)
    threads = min(num_workers, os.cpu_count() or 1) if num_threads is None else num_threads
    if num_threads is None and num_workers:
        _say_once(
            "num_workers",
            f"num_workers={num_workers}: batches are made by {threads} thread(s) of this process; "
            "no worker processes are started.",
        )
    return WorkerOptions(num_threads=threads, pin_memory=pin_memory)


def _check_count(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidConfig(f"{name} is {value!r}; it must be an int of at least 0.")


def _say_once(topic: str, sentence: str) -> None:
    if topic not in _said:
        _said.add(topic)
        log.info(sentence)
