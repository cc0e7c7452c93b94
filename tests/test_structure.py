"""The house keeps its shape: imports point down, floors keep their peers apart, files stay small."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src" / "fasthop"
FLOORS = {
    "machine": 1,
    "graph": 1,
    "kernels": 1,
    "train": 2,
    "measure": 3,
    "verify": 3,
    "rewrites": 3,
    "search": 4,
    "report": 5,
    "cli": 6,
}
# Peers of one floor that one of them may know; design.md says why.
ALLOWED_PEERS = {("kernels", "machine")}
FILES = sorted(SRC.rglob("*.py"))


def folder_of(path: Path) -> str | None:
    parts = path.relative_to(SRC).parts
    return parts[0] if len(parts) > 1 else None


def imported_folders(path: Path) -> set[str]:
    """The first-level folders of fasthop that a file imports, at the top or inside a function."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module] + [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "fasthop" and len(parts) > 1 and parts[1] in FLOORS:
                found.add(parts[1])
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SRC)))
def test_imports_point_down(path):
    own = folder_of(path)
    if own is None:
        if path.name not in {"__init__.py", "__main__.py"}:
            assert not imported_folders(path), "a file of the ground floor imports no folder"
        return
    for other in imported_folders(path) - {own}:
        if (own, other) in ALLOWED_PEERS:
            continue
        assert FLOORS[other] < FLOORS[own], f"{own}/ imports {other}/, which is not below it"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SRC)))
def test_files_are_small_and_well_named(path):
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= 320, "a file holds one noun in about 300 lines"
    assert path.stem not in {"utils", "util", "helpers", "helper", "common", "misc"}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            assert not node.name.endswith(("Manager", "Helper", "Util")), node.name


def test_every_folder_is_on_a_floor():
    folders = {folder_of(path) for path in FILES} - {None}
    assert folders <= set(FLOORS)


def test_importing_the_package_does_not_import_torch():
    code = "import sys, fasthop, fasthop.cli.main; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
