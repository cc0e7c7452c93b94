"""GCNWeights: what makes a GCN-like layer unbiased on a sampled batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from fasthop.errors import NotApplicable
from fasthop.graph.graph import Graph
from fasthop.kernels.buffers import BufferPool
from fasthop.kernels.sample.weights import batch_weights, weighted_degrees
from fasthop.train.loader_inputs import edges_of

# The weights of the batch at hand, of the next, and of two whose backward pass is still to come.
BUFFERS_IN_USE = 4


class GCNWeights:
    """The weights with which a sum over sampled edges has the full graph's GCN sum as its mean.

    GCN (Kipf and Welling, ICLR 2017, equation 2) sums d(u)^-1/2 w(u, v) d(v)^-1/2 x(u) over the in-edges
    of v and v itself, d being the weighted in-degree with the self-loop. Of degree(v) in-edges a batch
    holds k(v), each with probability k/degree; so each is multiplied by degree/k (Horvitz and Thompson,
    JASA 1952), with replacement too. The self-loop is never sampled and never scaled.

    graph: the `Graph` or PyG `Data` that the batches are sampled from. Its degrees are computed here, once
        (16 bytes a node kept); `edge_weight` [E] is honoured.
    improved, add_self_loops: as in PyG's GCNConv over edge_index: self-loops in the graph are taken out of the
        edges and give their node's own weight (the last of several), other nodes get 1 (with
        `improved`, 2, where the graph has weights: without them PyG gives 1 there too). With
        add_self_loops=False self-loops are edges like all others.
    dtype: of the weights; by default that of edge_weight, else of x, else float32.
    Raises NotApplicable where edge_weight requires a gradient, which would not flow through these weights,
    and for a Data with adj_t.
    """

    def __init__(
        self,
        graph: Graph | Any,
        *,
        improved: bool = False,
        add_self_loops: bool = True,
        dtype: torch.dtype | None = None,
    ) -> None:
        if isinstance(graph, Graph):
            csr = graph.csr
        else:
            edges = edges_of(graph)
            if edges.form == "adj_t":
                raise NotApplicable(
                    "the batches have adj_t, and these weights belong to an edge_index; use Graph.from_data(data)"
                )
            csr = edges.csr
        edge_weight, x = (getattr(graph, name, None) for name in ("edge_weight", "x"))
        if edge_weight is not None and edge_weight.requires_grad:
            raise NotApplicable(
                "edge_weight requires a gradient, and the weights of a sampled batch are computed outside autograd"
            )
        if dtype is None:
            like = x if edge_weight is None else edge_weight
            dtype = like.dtype if like is not None and like.is_floating_point() else torch.float32
        self.dtype = dtype
        self.add_self_loops = add_self_loops
        self._rowptr = csr.rowptr.cpu().numpy()
        self._edge_weight = _as_numpy(edge_weight)
        num_nodes = csr.num_rows
        self._loop = np.empty(num_nodes, dtype=np.float64)
        degree = np.empty(num_nodes, dtype=np.float64)
        fill = 2.0 if improved and edge_weight is not None else 1.0
        num_loops = weighted_degrees(
            self._rowptr,
            csr.col.cpu().numpy(),
            csr.e_id.cpu().numpy(),
            self._edge_weight,
            add_self_loops,
            fill,
            self._loop,
            degree,
        )
        self._drop_loops = add_self_loops and num_loops > 0
        with np.errstate(divide="ignore", invalid="ignore"):
            inv_sqrt = degree**-0.5
        inv_sqrt[np.isinf(inv_sqrt)] = 0.0
        self._inv_sqrt_degree = inv_sqrt
        self._pool = BufferPool(BUFFERS_IN_USE)

    def for_batch(self, batch: Any) -> tuple[Tensor, Tensor]:
        """(edge_weight [e], loop_weight [n]) of a NeighborLoader's batch, on the CPU in `dtype`.

        The layer's output is sum over the batch's edges of edge_weight * x[source] at each target, plus
        loop_weight * x. Reads the batch's n_id, e_id and edge_index; only in the rows whose neighbors were
        sampled (all but those of the last hop) the sum is the layer's.
        """
        n_id, e_id = batch.n_id.cpu().numpy(), batch.e_id.cpu().numpy()
        source, target = batch.edge_index.cpu().contiguous().numpy()
        # NumPy has no bfloat16; float16 would round twice.
        dtype = self.dtype if self.dtype in (torch.float32, torch.float64) else torch.float32
        edge_weight = self._pool.tensor("edge_weight", dtype, (e_id.size,))
        loop_weight = self._pool.tensor("loop_weight", dtype, (n_id.size,))
        batch_weights(
            self._rowptr,
            self._inv_sqrt_degree,
            self._loop,
            self._edge_weight,
            self._drop_loops,
            n_id,
            source,
            target,
            e_id,
            np.zeros((2, n_id.size)),
            edge_weight.numpy(),
            loop_weight.numpy(),
        )
        return edge_weight.to(self.dtype), loop_weight.to(self.dtype)


def _as_numpy(edge_weight: Tensor | None) -> np.ndarray:
    if edge_weight is None:
        return np.empty(0, dtype=np.float64)
    weight = edge_weight.detach().cpu()
    # NumPy has no bfloat16.
    return (weight.float() if weight.dtype is torch.bfloat16 else weight).contiguous().numpy()
