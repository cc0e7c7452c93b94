"""The public map: its names are frozen, and asking for one imports only what it needs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import fasthop

PUBLIC = [
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


def test_the_public_names_are_these():
    assert sorted(fasthop.__all__) == sorted(PUBLIC)
    assert set(PUBLIC) <= set(dir(fasthop))


def test_every_public_name_is_there_and_has_a_docstring():
    for name in set(PUBLIC) - {"__version__"}:
        value = getattr(fasthop, name)
        assert value.__doc__, name
        # `train` is a folder as well, whose package can be called.
        assert value.__name__.rpartition(".")[2] == name
        assert callable(value)


def test_star_import_gives_the_public_names():
    names: dict[str, object] = {}
    exec("from fasthop import *", names)
    assert set(PUBLIC) <= set(names)


def test_type_checkers_see_the_same_names():
    tree = ast.parse(Path(fasthop.__file__).read_text(encoding="utf-8"))
    seen = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fasthop.")
        for alias in node.names
    }
    assert seen == set(PUBLIC) - {"__version__"}


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(fasthop, "speed_up")


def test_errors_come_without_torch():
    code = "import sys; from fasthop import InvalidGraph, __version__; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
