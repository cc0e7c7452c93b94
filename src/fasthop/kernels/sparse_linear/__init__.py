"""Sparse features times a dense weight: a first linear layer that never sees the zeros of a bag of words."""
