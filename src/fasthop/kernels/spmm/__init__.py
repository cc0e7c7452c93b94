"""Sparse matrix times dense matrix: the aggregation of a GNN without a tensor of edges x channels."""
