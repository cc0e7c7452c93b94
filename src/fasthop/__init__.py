"""fasthop makes the training of PyTorch Geometric models fast and small, measured and proven.

This is the map: what stands in `__all__` is public, and is imported when it is first asked for, so
that `import fasthop` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fasthop.errors import (
        DoesNotFit,
        FasthopError,
        GraphNotFound,
        InvalidConfig,
        InvalidGraph,
        NotApplicable,
        NotExact,
        TrialFailed,
    )
    from fasthop.graph.graph import Graph
    from fasthop.graph.sources import load_graph
    from fasthop.measure.profile import profile
    from fasthop.report.bench import bench
    from fasthop.report.report import Report
    from fasthop.report.tune import tune
    from fasthop.search.accelerate import accelerate
    from fasthop.search.plan import Plan
    from fasthop.search.training import train
    from fasthop.train.neighbor_loader import NeighborLoader

__version__ = "0.1.0"

_HOMES = {
    "DoesNotFit": "fasthop.errors",
    "FasthopError": "fasthop.errors",
    "Graph": "fasthop.graph.graph",
    "GraphNotFound": "fasthop.errors",
    "InvalidConfig": "fasthop.errors",
    "InvalidGraph": "fasthop.errors",
    "NeighborLoader": "fasthop.train.neighbor_loader",
    "NotApplicable": "fasthop.errors",
    "NotExact": "fasthop.errors",
    "Plan": "fasthop.search.plan",
    "Report": "fasthop.report.report",
    "TrialFailed": "fasthop.errors",
    "accelerate": "fasthop.search.accelerate",
    "bench": "fasthop.report.bench",
    "load_graph": "fasthop.graph.sources",
    "profile": "fasthop.measure.profile",
    "train": "fasthop.search.training",
    "tune": "fasthop.report.tune",
}

__all__ = [
    "DoesNotFit",
    "FasthopError",
    "Graph",
    "GraphNotFound",
    "InvalidConfig",
    "InvalidGraph",
    "NeighborLoader",
    "NotApplicable",
    "NotExact",
    "Plan",
    "Report",
    "TrialFailed",
    "__version__",
    "accelerate",
    "bench",
    "load_graph",
    "profile",
    "train",
    "tune",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "train":
        # A folder as well: its package, which can be called. With the function, `import fasthop.train.x as x` would fail.
        return import_module("fasthop.train")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
