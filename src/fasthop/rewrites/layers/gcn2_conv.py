"""GCN2Conv over prepared matrices (Chen et al. 2020)."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor
from torch_geometric.nn import GCN2Conv

from fasthop.graph.note import Note
from fasthop.rewrites.exact.fast_layer import FastLayer, aggregates_by_other, aggregation
from fasthop.rewrites.exact.hops import Hops, Value, dense, head, times
from fasthop.rewrites.exact.sums import plus
from fasthop.rewrites.layers.prepared import gcn_matrix, plain_matrix


class FastGCN2Conv(FastLayer):
    """((1 - beta) I + beta W) applied to (1 - alpha) A X + alpha X_0; with weight2, to each of the two by a W of its own."""

    covers: ClassVar[Any] = GCN2Conv
    normalises = True
    takes_x_0 = True

    @classmethod
    def refusal(cls, layer: GCN2Conv) -> Note | None:
        return aggregates_by_other(layer, "sum", "mean")  # PyG has no gradient for the others

    def forward(self, x: Value, hops: Hops, x_0: Value | None = None) -> Tensor:
        """x_0: at least size(depth) rows of the initial features, which must be given."""
        layer: GCN2Conv = self.layer
        assert x_0 is not None
        reduce = aggregation(layer) or "sum"
        alpha, beta = layer.alpha, layer.beta
        if layer.normalize:
            # (1 - alpha) stands in the matrix's values, which are there anyway.
            matrix = gcn_matrix(hops, x, add_self_loops=layer.add_self_loops, scale=1 - alpha)
            out = times(matrix, x, reduce)
        else:
            out = dense(times(plain_matrix(hops, x), x, reduce)) * (1 - alpha)
        initial = dense(head(x_0, hops.num_out))
        if layer.weight2 is None:
            # A product that is kept is not written into.
            out = (
                plus(out, initial, alpha=alpha) if isinstance(out, Tensor) else out.dense() + alpha * initial
            )
            return torch.addmm(out, out, layer.weight1, beta=1 - beta, alpha=beta)
        out, initial = dense(out), alpha * initial
        out = torch.addmm(out, out, layer.weight1, beta=1 - beta, alpha=beta)
        return plus(out, torch.addmm(initial, initial, layer.weight2, beta=1 - beta, alpha=beta))
