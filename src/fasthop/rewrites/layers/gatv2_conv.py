"""GATv2Conv over the prepared edges (Brody et al. 2022)."""

from __future__ import annotations

from typing import Any, ClassVar

import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn import GATv2Conv

from fasthop.kernels.segment_softmax.attention import gatv2
from fasthop.rewrites.exact.hops import Hops, Value, head
from fasthop.rewrites.layers.attention import FastAttention


class FastGATv2Conv(FastAttention):
    """softmax over each row of a . leaky_relu(W_l x_j + W_r x_i), times W_l x_j."""

    covers: ClassVar[Any] = GATv2Conv

    def forward(self, x: Value, hops: Hops) -> Tensor:
        layer: GATv2Conv = self.layer
        matrix = self.matrix(hops)
        num_rows = matrix.num_rows
        x_l = self.heads_of(x, layer.lin_l)
        x_r = x_l[:num_rows] if layer.share_weights else self.heads_of(head(x, num_rows), layer.lin_r)
        slope = layer.negative_slope
        if matrix.use_spmm:
            dropout = self.attention_dropout
            out = gatv2(matrix.adjacency, x_l, x_r, layer.att, negative_slope=slope, dropout=dropout)
        else:
            both = x_l.index_select(0, matrix.adjacency.col) + x_r.index_select(0, matrix.row())
            score = (F.leaky_relu(both, slope) * layer.att).sum(dim=-1)
            out = self.weighted_sum(score, x_l, matrix)
        return self.finished(out, x)
