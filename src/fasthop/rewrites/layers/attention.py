"""What GATConv and GATv2Conv share: their options, the matrix, and what follows the weighted sum."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor
from torch_geometric.utils import scatter, softmax

from fasthop.graph.note import Note, note
from fasthop.rewrites.exact.fast_layer import FastLayer, aggregates_by_other
from fasthop.rewrites.exact.hops import Hops, Value, head, linear
from fasthop.rewrites.exact.matrix import Matrix
from fasthop.rewrites.layers.prepared import looped_matrix, structure_matrix


class FastAttention(FastLayer):
    """A layer that weights each entry by a softmax over its row."""

    @classmethod
    def refusal(cls, layer: Any) -> Note | None:
        name = type(layer).__name__
        if layer.edge_dim is not None:
            return note(
                f"{name} scores edge features (edge_dim {layer.edge_dim}), which the attention kernels do not have.",
                f"{name} 使用边特征计算注意力（edge_dim 为 {layer.edge_dim}），注意力内核不支持。",
            )
        return aggregates_by_other(layer, "sum")

    def matrix(self, hops: Hops) -> Matrix:
        """The entries that the softmax goes over."""
        return looped_matrix(hops) if self.layer.add_self_loops else structure_matrix(hops)

    @property
    def attention_dropout(self) -> float:
        """The probability with which an entry is dropped now."""
        return float(self.layer.dropout) if self.training else 0.0

    def heads_of(self, x: Value, lin: Any) -> Tensor:
        """lin(x) by heads: [n, heads, channels]."""
        return linear(x, lin.weight, lin.bias).view(-1, self.layer.heads, self.layer.out_channels)

    def weighted_sum(self, score: Tensor, x: Tensor, matrix: Matrix) -> Tensor:
        """As PyG computes it: [num_rows, heads, channels] of the scores [entries, heads] and the rows x."""
        weight = score
        if score.numel() > 0:
            weight = softmax(score, matrix.row(), num_nodes=matrix.num_rows)
            weight = F.dropout(weight, p=self.attention_dropout, training=self.attention_dropout > 0)
        message = weight.unsqueeze(-1) * x.index_select(0, matrix.adjacency.col)
        return scatter(message, matrix.row(), 0, dim_size=matrix.num_rows, reduce="sum")

    def finished(self, out: Tensor, x: Value) -> Tensor:
        """The heads side by side or averaged, plus residual and bias."""
        layer = self.layer
        out = out.flatten(1) if layer.concat else out.mean(dim=1)
        if layer.res is not None:
            return out + linear(head(x, out.size(0)), layer.res.weight, layer.bias)
        return out if layer.bias is None else out + layer.bias
