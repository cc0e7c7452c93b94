"""Models written with PyG, the same by hand over fasthop's kernels, and what makes subjects of them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn import GATConv, GCNConv, SAGEConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from fasthop.graph.csr import CSR
from fasthop.kernels.segment_softmax import attention
from fasthop.kernels.spmm.adjacency import Adjacency, spmm
from fasthop.verify.subgraph import Subgraph
from fasthop.verify.subject import Maker, Subject
from tests.kernels.graphs import random_edges

NUM_NODES, NUM_EDGES, IN_CHANNELS, NUM_CLASSES = 60, 240, 7, 3
Call = Callable[[torch.nn.Module, Tensor, Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class Data:
    """A small directed graph with a self-loop, parallel edges and an isolated node."""

    x: Tensor
    edge_index: Tensor
    rows: Tensor


def data(num_nodes: int = NUM_NODES, num_edges: int = NUM_EDGES, seed: int = 0) -> Data:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(num_nodes, IN_CHANNELS, generator=generator)
    rows = torch.randperm(num_nodes, generator=generator)[: num_nodes // 2]
    return Data(x=x, edge_index=random_edges(num_nodes, num_edges, seed), rows=rows)


class Net(torch.nn.Module):
    """Two layers, with BatchNorm and dropout between them where asked."""

    def __init__(
        self,
        conv: Callable[..., torch.nn.Module],
        *,
        norm: bool = False,
        dropout: float = 0.0,
        attention_dropout: float | None = None,
    ):
        super().__init__()
        options = {} if attention_dropout is None else {"dropout": attention_dropout}
        torch.manual_seed(1)
        self.conv1 = conv(IN_CHANNELS, 8, **options)
        self.norm = torch.nn.BatchNorm1d(8) if norm else torch.nn.Identity()
        self.conv2 = conv(8, NUM_CLASSES, **options)
        self.dropout = dropout
        # PyG starts biases at 0, where a lost one would not be seen in the first output.
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                if name.endswith("bias"):
                    parameter.normal_()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.over(x, lambda conv, h: conv(h, edge_index))

    def over(self, x: Tensor, layer: Callable[[torch.nn.Module, Tensor], Tensor]) -> Tensor:
        """The network around any form of its layers."""
        x = F.dropout(x, self.dropout, self.training)
        x = self.norm(layer(self.conv1, x)).relu()
        return layer(self.conv2, F.dropout(x, self.dropout, self.training))


def as_written(model: torch.nn.Module, x: Tensor, edge_index: Tensor) -> Tensor:
    return model(x, edge_index)


def adjacency(edge_index: Tensor, num_nodes: int, value: Tensor | None = None) -> Adjacency:
    csr = CSR.from_edge_index(edge_index, num_nodes)
    value = None if value is None else value[csr.e_id.long()]
    return Adjacency(rowptr=csr.rowptr, col=csr.col, num_cols=num_nodes, value=value)


def gcn(model: Net, x: Tensor, edge_index: Tensor) -> Tensor:
    """Net(GCNConv) by spmm over the normalised matrix."""
    edges, weight = gcn_norm(edge_index, None, x.size(0), dtype=x.dtype)
    matrix = adjacency(edges, x.size(0), weight)
    return model.over(x, lambda conv, h: spmm(matrix, conv.lin(h)) + conv.bias)


def sage(model: Net, x: Tensor, edge_index: Tensor) -> Tensor:
    """Net(SAGEConv) by spmm with a mean."""
    matrix = adjacency(edge_index, x.size(0))
    return model.over(x, lambda conv, h: conv.lin_l(spmm(matrix, h, reduce="mean")) + conv.lin_r(h))


def gat(model: Net, x: Tensor, edge_index: Tensor) -> Tensor:
    """Net(GATConv) by the fused attention."""
    from torch_geometric.utils import add_self_loops, remove_self_loops

    edges = add_self_loops(remove_self_loops(edge_index)[0], num_nodes=x.size(0))[0]
    matrix = adjacency(edges, x.size(0))

    def layer(conv: GATConv, h: Tensor) -> Tensor:
        z = conv.lin(h).view(-1, conv.heads, conv.out_channels)
        a_src, a_dst = (z * conv.att_src).sum(-1), (z * conv.att_dst).sum(-1)
        out = attention.gat(matrix, z, a_src, a_dst, dropout=conv.dropout if conv.training else 0.0)
        return out.flatten(1) + conv.bias

    return model.over(x, layer)


REWRITTEN: dict[type[torch.nn.Module], Call] = {GCNConv: gcn, SAGEConv: sage, GATConv: gat}


def maker(model: torch.nn.Module, graph: Data, call: Call = as_written) -> Maker:
    """Subjects of a model: its copies, the rows of the graph's, or of a part's seeds."""

    def make(dtype: torch.dtype, part: Subgraph | None) -> Subject:
        own = copy.deepcopy(model).to(dtype).train()
        x, edge_index, rows = graph.x.to(dtype), graph.edge_index, graph.rows
        if part is not None:
            x, edge_index, rows = x[part.n_id], part.edge_index, part.seeds
        return Subject.of(own, lambda: call(own, x, edge_index)[rows])

    return make
