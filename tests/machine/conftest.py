"""PyG is imported once with its own warnings silenced, as fasthop does it, before warnings are errors."""

from __future__ import annotations

import warnings

from fasthop.noise import silence

with warnings.catch_warnings():
    silence()
    import torch_geometric  # noqa: F401
