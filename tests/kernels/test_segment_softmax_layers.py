"""Fused attention against PyG's own GATConv and GATv2Conv: outputs and every parameter's gradient."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch_geometric.nn import GATConv, GATv2Conv
from torch_geometric.utils import add_self_loops, remove_self_loops

from fasthop.kernels.segment_softmax.attention import gat, gatv2, node_scores
from fasthop.kernels.spmm.adjacency import Adjacency
from tests.kernels.graphs import by_target, random_edges

NUM_NODES = 50
SHAPES = [(1, 1), (2, 3), (8, 7), (1, 8), (8, 8), (2, 16), (1, 64)]


def directed(num_edges: int) -> Tensor:
    """Directed, with self-loops, parallel edges, a hub and an isolated last node."""
    edge_index = random_edges(NUM_NODES, num_edges, 3)
    edge_index[1, : num_edges // 3] = 4
    edge_index[:, num_edges - num_edges // 10 :] = edge_index[
        :, num_edges - 2 * (num_edges // 10) : num_edges - num_edges // 10
    ]
    return edge_index


def adjacency(conv: GATConv | GATv2Conv, edge_index: Tensor) -> Adjacency:
    """The matrix over which the layer aggregates: PyG replaces self-loops by one each."""
    if conv.add_self_loops:
        edge_index, _ = add_self_loops(remove_self_loops(edge_index)[0], num_nodes=NUM_NODES)
    rowptr, col, _ = by_target(edge_index, NUM_NODES)
    return Adjacency(rowptr=rowptr, col=col.int(), num_cols=NUM_NODES)


def ours(conv: GATConv | GATv2Conv, x: Tensor, edge_index: Tensor) -> Tensor:
    """The layer with its aggregation replaced."""
    adj, shape = adjacency(conv, edge_index), (-1, conv.heads, conv.out_channels)
    if isinstance(conv, GATConv):
        assert conv.lin is not None
        row = conv.lin(x).view(shape)
        a_src, a_dst = node_scores(row, conv.att_src, conv.att_dst)
        out = gat(adj, row, a_src, a_dst, negative_slope=conv.negative_slope)
    else:
        x_l, x_r = conv.lin_l(x).view(shape), conv.lin_r(x).view(shape)
        out = gatv2(adj, x_l, x_r, conv.att, negative_slope=conv.negative_slope)
    out = out.flatten(1) if conv.concat else out.mean(1)
    return out if conv.bias is None else out + conv.bias


def compare(conv: GATConv | GATv2Conv, edge_index: Tensor, dtype: torch.dtype, tolerance: float) -> None:
    conv = conv.to(dtype)
    x = torch.randn(NUM_NODES, 5, generator=torch.Generator().manual_seed(2), dtype=dtype).requires_grad_()
    leaves = [x, *conv.parameters()]
    expected, got = conv(x, edge_index), ours(conv, x, edge_index)
    torch.testing.assert_close(got, expected, atol=tolerance, rtol=tolerance)
    cotangent = torch.randn(got.shape, generator=torch.Generator().manual_seed(4), dtype=dtype)
    # Without entries GATConv has no scores, hence no gradient to what they come from.
    theirs = torch.autograd.grad(expected, leaves, cotangent, allow_unused=True, materialize_grads=True)
    mine = torch.autograd.grad(got, leaves, cotangent)
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a, b, atol=tolerance * max(1.0, float(b.abs().max())), rtol=tolerance)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("layer", [GATConv, GATv2Conv])
def test_equals_the_layer(layer, shape):
    torch.manual_seed(0)
    heads, channels = shape
    for concat in (True, False):
        conv = layer(5, channels, heads=heads, concat=concat)
        compare(conv, directed(300), torch.float64, 1e-11)


@pytest.mark.parametrize("layer", [GATConv, GATv2Conv])
def test_in_float32_without_self_loops_and_with_another_slope(layer):
    torch.manual_seed(0)
    conv = layer(5, 8, heads=8, add_self_loops=False, negative_slope=0.05)
    compare(conv, directed(300), torch.float32, 2e-5)


@pytest.mark.parametrize("add_loops", [True, False])
@pytest.mark.parametrize("layer", [GATConv, GATv2Conv])
def test_no_edges(layer, add_loops):
    torch.manual_seed(0)
    conv = layer(5, 3, heads=2, add_self_loops=add_loops)
    compare(conv, torch.empty(2, 0, dtype=torch.int64), torch.float64, 1e-12)


def test_gatv2_with_shared_weights():
    torch.manual_seed(0)
    compare(GATv2Conv(5, 8, heads=2, share_weights=True), directed(300), torch.float64, 1e-11)
