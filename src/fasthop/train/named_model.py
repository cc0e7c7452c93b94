"""Models by name: the function or class that stands in a file or a module, and what goes wrong on the way, in sentences.

A model's file is code that the user chose to run: it is imported, and so run, in this process and in the workers.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import sys
import traceback
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from fasthop.errors import FasthopError, InvalidConfig

FILES: dict[Path, tuple[int, types.ModuleType]] = {}
"""Model files that were imported, with the time of their last change: an edited file is imported anew."""


def find_model(place: str) -> Any:
    """What "path/to/file.py:name" or "package.module:name" stands for: a callable or a module.

    A file is imported with its folder first on sys.path, a module with the working directory there, as Python would
    run them. Raises InvalidConfig where there is no such file, module or name, or importing it fails.
    """
    where, _, name = place.rpartition(":")
    if not name or not where:
        raise InvalidConfig(
            f"model is {place!r}; after the colon comes the name of a function or class, such as {where or 'net.py'}:make_model."
        )
    module = _file(Path(where)) if _is_path(where) else _module(where)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise InvalidConfig(f"{where} has no {part!r}.{_near(part, _makers(found))}")
        found = getattr(found, part)
    if not callable(found):
        raise InvalidConfig(
            f"{place} is {type(found).__name__}; it must be a function or a class that makes an nn.Module."
            f"{_near(name, _makers(module))}"
        )
    return found


@contextmanager
def users_code(place: str, doing: str) -> Iterator[None]:
    """Turns what the user's code raises into InvalidConfig: the line of their file, and the error as Python says it.

    place: as the user named it. doing: what was being done, such as "importing it".
    """
    try:
        yield
    except (FasthopError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        where = place.rpartition(":")[0] if ".py" in place else place
        line = _line_of(error, where)
        said = traceback.format_exception_only(error)[-1].strip()
        raise InvalidConfig(
            f"{where}{f', line {line}' if line else ''}: {doing} failed with {said}"
        ) from error


def _is_path(where: str) -> bool:
    return where.endswith(".py") or "/" in where or "\\" in where


def _file(path: Path) -> types.ModuleType:
    path = path.expanduser()
    if path.is_dir() or not path.exists():
        kind = "a folder" if path.is_dir() else "no file"
        near = _near(path.name, [entry.name for entry in _entries(path.parent) if entry.suffix == ".py"])
        raise InvalidConfig(f"The model's file {path} is {kind} (looked in {Path.cwd()}).{near}")
    full = path.resolve()
    changed = full.stat().st_mtime_ns
    if full in FILES and FILES[full][0] == changed:
        return FILES[full][1]
    # A name of its own, which no package can have; the same in every process.
    name = f"fasthop_model_{full.stem}_{hashlib.sha256(str(full).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, full)
    if spec is None or spec.loader is None:
        raise InvalidConfig(f"{path} is no file of Python; a model's file ends in .py.")
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(name)
    sys.modules[name] = module  # dataclasses and pickles in the file look their module up
    try:
        with users_code(f"{path}:", "importing it"), _first_on_path(full.parent):
            spec.loader.exec_module(module)
    except BaseException:
        if before is None:
            sys.modules.pop(name, None)
        else:
            sys.modules[name] = before
        raise
    FILES[full] = (changed, module)
    return module


def _module(where: str) -> types.ModuleType:
    missing = where
    if all(part.isidentifier() for part in where.split(".")):
        with users_code(where, "importing it"), _first_on_path(Path.cwd()):
            try:
                return importlib.import_module(where)
            except ModuleNotFoundError as error:
                if error.name is None or not f"{where}.".startswith(f"{error.name}."):
                    raise
                missing = error.name
    raise InvalidConfig(
        f"There is no module {missing!r} (for the model {where}); name one that can be imported from {Path.cwd()}, or a "
        "file: path/to/file.py:name."
    )


@contextmanager
def _first_on_path(folder: Path) -> Iterator[None]:
    """The folder first on sys.path while code is imported, and last from then on, for what is imported later."""
    text = str(folder)
    sys.path.insert(0, text)
    try:
        yield
    finally:
        sys.path.remove(text)
        if text not in sys.path:
            sys.path.append(text)


def _line_of(error: BaseException, where: str) -> int | None:
    """The last line of the user's file that the error went through."""
    if isinstance(error, SyntaxError) and error.filename and _same_file(error.filename, where):
        return error.lineno
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if _same_file(frame.filename, where)
    ]
    return lines[-1] if lines else None


def _same_file(filename: str, where: str) -> bool:
    if where.endswith(".py"):
        return Path(filename).name == Path(where).name
    module = sys.modules.get(where)
    return getattr(module, "__file__", None) == filename or filename.endswith(f"{where.replace('.', '/')}.py")


def _makers(module: Any) -> list[str]:
    """The functions and classes of modules that somebody may have meant."""
    found = []
    for name, value in vars(module).items():
        own = getattr(value, "__module__", None) == getattr(module, "__name__", None)
        is_module = isinstance(value, type) and issubclass(value, torch.nn.Module)
        is_function = isinstance(value, types.FunctionType) and own
        if not name.startswith("_") and ((is_module and own) or is_function):
            found.append(name)
    if not found:  # a package that hands on what its modules define
        found = [name for name, value in vars(module).items() if isinstance(value, type) and name[0] != "_"]
    return found


def _near(name: str, names: list[str]) -> str:
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if near:
        return f" Did you mean {near[0]!r}?"
    return f" There are {', '.join(sorted(names)[:8])}." if names else ""


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []
