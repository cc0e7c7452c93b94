"""Gather: the rows of a tensor by index, into memory that was used before."""
