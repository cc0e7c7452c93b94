"""SAGEConv over the prepared edges (Hamilton et al. 2017)."""

from __future__ import annotations

from typing import Any, ClassVar

import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn import SAGEConv

from fasthop.graph.note import Note
from fasthop.rewrites.exact.fast_layer import FastLayer, aggregates_by_other, aggregation
from fasthop.rewrites.exact.hops import Hops, Value, linear
from fasthop.rewrites.layers.prepared import aggregating
from fasthop.rewrites.layers.rooted import rooted


class FastSAGEConv(FastLayer):
    """W_l reduce(X over the neighbours) + W_r X; mean and sum in the order that moves less."""

    covers: ClassVar[Any] = SAGEConv

    @classmethod
    def refusal(cls, layer: SAGEConv) -> Note | None:
        return aggregates_by_other(layer)

    def forward(self, x: Value, hops: Hops) -> Tensor:
        layer: SAGEConv = self.layer
        matrix, reduce = aggregating(hops, x, aggregation(layer) or "mean", weighted=False)
        sent = linear(x, layer.lin.weight, layer.lin.bias).relu_() if layer.project else x
        root = layer.lin_r if layer.root_weight else None
        out = rooted(self, sent, x, matrix, layer.lin_l, root, reduce)
        return F.normalize(out, p=2.0, dim=-1) if layer.normalize else out
