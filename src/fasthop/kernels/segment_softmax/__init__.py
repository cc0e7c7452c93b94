"""Attention over the edges of a graph, softmax and aggregation in one: no tensor of edges x heads x channels."""
