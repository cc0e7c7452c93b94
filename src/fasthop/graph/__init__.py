"""Graphs: a checked Graph and its CSR, and where graphs come from (names, files, PyG Data, seeds)."""
