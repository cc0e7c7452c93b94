"""GATConv over the prepared edges (Velickovic et al. 2018)."""

from __future__ import annotations

from typing import Any, ClassVar

import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn import GATConv

from fasthop.kernels.segment_softmax.attention import gat, node_scores
from fasthop.rewrites.exact.hops import Hops, Value, head
from fasthop.rewrites.layers.attention import FastAttention


class FastGATConv(FastAttention):
    """softmax over each row of leaky_relu(a_src . x_j + a_dst . x_i), times W x_j."""

    covers: ClassVar[Any] = GATConv

    def forward(self, x: Value, hops: Hops) -> Tensor:
        layer: GATConv = self.layer
        matrix = self.matrix(hops)
        num_rows = matrix.num_rows
        if layer.lin is not None:
            sent = self.heads_of(x, layer.lin)
            a_src, a_dst = node_scores(sent, layer.att_src, layer.att_dst)
            a_dst = a_dst[:num_rows]
        else:
            sent = self.heads_of(x, layer.lin_src)
            (a_src,) = node_scores(sent, layer.att_src)
            (a_dst,) = node_scores(self.heads_of(head(x, num_rows), layer.lin_dst), layer.att_dst)
        slope = layer.negative_slope
        if matrix.use_spmm:
            dropout = self.attention_dropout
            out = gat(matrix.adjacency, sent, a_src, a_dst, negative_slope=slope, dropout=dropout)
        else:
            score = a_src.index_select(0, matrix.adjacency.col) + a_dst.index_select(0, matrix.row())
            out = self.weighted_sum(F.leaky_relu(score, slope), sent, matrix)
        return self.finished(out, x)
