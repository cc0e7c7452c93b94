"""A graph's fingerprint: which graph a plan or a checkpoint was made for, the same on every machine."""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any

import torch
from torch import Tensor

from fasthop.graph.graph import MASKS, Graph

# Version of what is hashed: another order or form of the parts must not pass for another graph.
VERSION = 1
CHUNK = 1 << 24


def graph_fingerprint(graph: Graph) -> str:
    """SHA-256 in hexadecimal over the graph's sizes, edges in their order, weights, features, labels and masks.

    Equal graphs have equal fingerprints whatever their device, the machine's byte order, the width of their
    indices or the layout of a sparse x (COO or CSR). Name, notes, extras and node_ids do not enter.
    Reads every byte once: about a second for each 1 to 2 GB.
    """
    digest = hashlib.sha256(f"fasthop graph {VERSION}\n".encode())
    digest.update(json.dumps([graph.num_nodes, graph.num_edges, graph.num_classes]).encode())
    parts: dict[str, Tensor | None] = {
        "edge_index": graph.edge_index,
        "edge_weight": graph.edge_weight,
        "y": graph.y,
        **{name: getattr(graph, name) for name in MASKS},
    }
    for name, tensor in parts.items():
        _add(digest, name, tensor)
    if graph.x is None or graph.x.layout is torch.strided:
        _add(digest, "x", graph.x)
    else:
        coo = graph.x.detach().to_sparse_coo().coalesce()
        digest.update(json.dumps(["sparse x", list(coo.shape)]).encode())
        _add(digest, "indices", coo.indices())
        _add(digest, "values", coo.values())
    return digest.hexdigest()


def _add(digest: Any, name: str, tensor: Tensor | None) -> None:
    """The tensor's name, dtype, shape and bytes, least byte first; integers as int64."""
    if tensor is None:
        digest.update(json.dumps([name, None]).encode())
        return
    is_index = not (tensor.is_floating_point() or tensor.dtype is torch.bool)
    dtype = "int64" if is_index else str(tensor.dtype).removeprefix("torch.")
    digest.update(json.dumps([name, dtype, list(tensor.shape)]).encode())
    flat = tensor.detach().reshape(-1)
    for start in range(0, flat.numel(), CHUNK):
        chunk = flat[start : start + CHUNK].cpu()
        if is_index:
            chunk = chunk.to(torch.int64)
        elif name == "y":  # NaN stands for "no label" there, and has many bit patterns
            chunk = torch.nan_to_num(chunk, nan=-1.0)
        octets = chunk.contiguous().view(torch.uint8).numpy()
        if sys.byteorder == "big":
            octets = octets.reshape(-1, chunk.element_size())[:, ::-1]
        digest.update(octets.tobytes())
