"""Kernels: each operation has a reference (the definition of correct) and a compiled form. They take raw arrays."""
