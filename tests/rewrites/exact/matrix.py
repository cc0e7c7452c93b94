"""The matrix's rows. Read as a table: a model, the rungs that must act, the rungs that must refuse and why."""

from __future__ import annotations

from torch import nn
from torch_geometric import nn as gnn
from torch_geometric.nn import models as zoo

from tests.rewrites.exact.models import (
    COUPLED,
    DROPPED,
    F_,
    FREE,
    GCNII,
    HIDDEN,
    NO_NORM,
    Appnp,
    H,
    Mixed,
    N,
    S,
    basic,
    case,
    gin,
    heads,
    net,
    of,
)  # fmt: skip

GCN, SAGE, GAT = gnn.GCNConv, gnn.SAGEConv, gnn.GATConv

CASES = {
    # layers
    "gcn": case(net(GCN), *FREE, N, F_, H),
    "gcn improved, no loops": case(net(of(GCN, improved=True, add_self_loops=False)), *FREE, N),
    "gcn not normalised": case(net(of(GCN, normalize=False)), *FREE, **NO_NORM),
    "sage mean": case(net(SAGE), *FREE, H),
    "sage max": case(net(of(SAGE, aggr="max")), *FREE, **NO_NORM),
    "sage sum, normalised": case(net(of(SAGE, aggr="sum", normalize=True)), *FREE, H, **NO_NORM),
    "sage project": case(net(of(SAGE, project=True)), *FREE, F_, **DROPPED),
    "sage max, project": case(net(of(SAGE, aggr="max", project=True)), *FREE, F_, **DROPPED),
    "gin": case(net(gin), *FREE, H),
    "gin, eps learnt": case(net(lambda i, o: gin(i, o, train_eps=True)), *FREE, **NO_NORM),
    "gat": case(net(heads(GAT)), *FREE, F_, **NO_NORM, **DROPPED),
    "gat averaged": case(net(of(GAT, heads=3, concat=False)), *FREE, F_, **NO_NORM, **DROPPED),
    "gat, attention dropped": case(net(heads(GAT, dropout=0.4)), *FREE, F_, **NO_NORM, **DROPPED),
    "gatv2": case(net(heads(gnn.GATv2Conv)), *FREE, F_, **NO_NORM, **DROPPED),
    "gatv2 shared, residual": case(net(heads(gnn.GATv2Conv, share_weights=True, residual=True)), *FREE, F_),
    "graph": case(net(gnn.GraphConv), *FREE, H, **NO_NORM),
    "graph max": case(net(of(gnn.GraphConv, aggr="max")), *FREE, **NO_NORM),
    "sg": case(net(of(gnn.SGConv, K=2)), *FREE, N, H),
    "sg cached": case(net(of(gnn.SGConv, K=2, cached=True), depth=1), *FREE, N, H),
    "appnp": case(Appnp, *FREE, N, F_, **DROPPED),
    "appnp, entries dropped": case(
        lambda: Appnp(dropout=0.3),
        F_,
        receptive_field="drops entries",
        reorder_nodes="drops entries",
        csr_spmm="drops entries",
        first_hop="drops entries",
    ),
    "tag": case(net(of(gnn.TAGConv, K=2)), *FREE, N),
    "cheb": case(net(of(gnn.ChebConv, K=3)), *FREE, N),
    "gcn2": case(GCNII, *FREE, N, F_, **DROPPED),
    "gcn2, two weights": case(lambda: GCNII(shared_weights=False), *FREE, N, F_, **DROPPED),
    "cluster": case(net(of(gnn.ClusterGCNConv, diag_lambda=0.3)), *FREE, N, H),
    "le": case(net(gnn.LEConv), *FREE, F_, **NO_NORM),
    # depth and dropout
    "gcn of 1": case(net(GCN, depth=1), *FREE, N),
    "gcn of 4": case(net(GCN, depth=4), *FREE, N),
    "gcn, dropout": case(net(GCN, dropout=0.5), *FREE, N, F_, H),
    "gcn, x dropped": case(net(GCN, dropout=0.5, input_dropout=0.5), *FREE, N, F_, **DROPPED),
    "sage, x dropped": case(net(SAGE, input_dropout=0.5), *FREE, F_, **DROPPED),
    "tag, x dropped": case(net(of(gnn.TAGConv, K=2), input_dropout=0.5), *FREE, N, F_, **DROPPED),
    "gat, x dropped": case(net(heads(GAT), input_dropout=0.5), *FREE, F_, **DROPPED),
    # norms
    "gcn, BatchNorm": case(net(GCN, norm=lambda: nn.BatchNorm1d(HIDDEN)), S, N, H, **COUPLED),
    "sage, PyG's BatchNorm": case(net(SAGE, norm=lambda: gnn.BatchNorm(HIDDEN)), S, H, **COUPLED),
    "gcn, LayerNorm": case(net(GCN, norm=lambda: nn.LayerNorm(HIDDEN)), *FREE, N, H),
    "gcn, PyG's LayerNorm by node": case(net(GCN, norm=lambda: gnn.LayerNorm(HIDDEN, mode="node")), *FREE, N),
    "gcn, PyG's LayerNorm by graph": case(net(GCN, norm=lambda: gnn.LayerNorm(HIDDEN)), S, N, **COUPLED),
    "gat, PairNorm": case(net(heads(GAT), norm=gnn.PairNorm), S, F_, **COUPLED),
    "gin, GraphNorm": case(net(gin, norm=lambda: gnn.GraphNorm(HIDDEN)), S, H, **COUPLED),
    "gcn, InstanceNorm": case(net(GCN, norm=lambda: gnn.InstanceNorm(HIDDEN)), S, N, **COUPLED),
    "gcn, MeanSubtraction": case(net(GCN, norm=gnn.MeanSubtractionNorm), S, N, **COUPLED),
    # structure
    "gcn, residual": case(net(GCN, depth=3, residual=True), *FREE, N, H),
    "sage, residual, before": case(net(SAGE, depth=3, residual=True, before=True), *FREE, F_, **DROPPED),
    "gcn, jk cat": case(net(GCN, depth=3, jk="cat"), *FREE, N, H),
    "sage, jk max": case(net(SAGE, depth=3, jk="max"), *FREE, H),
    "gcn, jk lstm": case(net(GCN, depth=2, jk="lstm"), S, N, **COUPLED),
    "gcn shared": case(net(GCN, shared=True, before=True), *FREE, N, F_),
    "gat shared": case(net(heads(GAT), shared=True), *FREE, F_),
    "gcn, more heads": case(
        net(GCN, heads=3),
        S,
        N,
        H,
        receptive_field="something else than one row",
        reorder_nodes="something else than one row",
    ),
    "gcn beside graph": case(lambda: Mixed(gnn.GraphConv), *FREE, N, H),
    "gcn beside another": case(
        lambda: Mixed(lambda i, o: gnn.TransformerConv(i, o)),
        S,
        N,
        H,
        receptive_field="TransformerConv is not one of the layers",
        reorder_nodes="TransformerConv",
    ),
    "a layer alone": case(lambda: GCN(12, 4), *FREE, N),
    "nothing covered": case(
        net(lambda i, o: gnn.TransformerConv(i, o)),
        csr_spmm="TransformerConv",
        cache_norm="TransformerConv",
        first_hop="TransformerConv",
        receptive_field="TransformerConv",
    ),
    # PyG's own classes
    "GCN": case(basic(zoo.GCN), *FREE, N, H),
    "GCN, dropout, jk, BatchNorm": case(
        basic(zoo.GCN, dropout=0.5, jk="cat", norm="BatchNorm"), S, N, **COUPLED
    ),
    "GraphSAGE": case(basic(zoo.GraphSAGE, num_layers=3, dropout=0.5), *FREE, H),
    "GIN": case(basic(zoo.GIN, jk="last"), *FREE, H),
    "GAT": case(basic(zoo.GAT, heads=2, dropout=0.5), *FREE, F_),
    "GATv2": case(basic(zoo.GAT, v2=True, jk="max"), *FREE, F_),
    # weights
    "gcn, weighted": case(net(GCN), *FREE, N, H, weighted=True),
    "graph, weighted": case(net(of(gnn.GraphConv, aggr="mean")), *FREE, H, weighted=True),
    "graph max, weighted": case(net(of(gnn.GraphConv, aggr="max")), *FREE, weighted=True),
    "sg, weighted": case(net(of(gnn.SGConv, K=2)), *FREE, N, H, weighted=True),
    "tag, weighted, residual": case(
        net(of(gnn.TAGConv, K=2), depth=3, residual=True), *FREE, N, weighted=True
    ),
    "cheb, weighted": case(net(of(gnn.ChebConv, K=3)), *FREE, N, weighted=True),
    "le, weighted": case(net(gnn.LEConv), *FREE, F_, weighted=True),
    "GCN, weighted": case(basic(zoo.GCN, num_layers=3), *FREE, N, H, weighted=True),
    "gcn, weighted, x dropped": case(net(GCN, input_dropout=0.3, jk="max"), *FREE, N, F_, weighted=True),
}
