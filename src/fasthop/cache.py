"""Where caches live: the one place that decides it.

Everything that fasthop keeps between runs lies in sub-folders of one root, one a kind: `numba`
(compiled kernels), `peaks` (what this machine can do), `graphs` (what was derived from a data set).
All of it can be deleted at any time.
"""

from __future__ import annotations

import logging
import os
import re
import stat
import tempfile
from functools import lru_cache
from pathlib import Path

from fasthop.errors import InvalidConfig

logger = logging.getLogger("fasthop")

ENVIRONMENT_VARIABLE = "FASTHOP_CACHE"


def cache_root() -> Path:
    """The folder of all caches: FASTHOP_CACHE where that is set, else the user's cache folder.

    Where that cannot be written (a read-only home), a folder of this user's own under the
    system's temporary folder; a warning is logged once then.
    """
    return _writable_root(os.environ.get(ENVIRONMENT_VARIABLE, ""))


def cache_dir(kind: str) -> Path:
    """The folder for one kind of cache, made where it is missing.

    kind: a plain name such as "numba" or "peaks". Raises InvalidConfig where it is not one.
    """
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", kind):
        raise InvalidConfig(
            f"a cache's kind is a plain name of small letters, digits, '_' and '-', and got {kind!r}."
        )
    folder = cache_root() / kind
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def cache_sizes() -> dict[str, int]:
    """Bytes on disk of each kind of cache, by name; empty where nothing is cached."""
    root = cache_root()
    sizes: dict[str, int] = {}
    for folder in sorted(root.iterdir()):
        if folder.is_dir():
            sizes[folder.name] = sum(_size(path) for path in folder.rglob("*"))
    return sizes


def _size(path: Path) -> int:
    try:
        status = path.lstat()
    except OSError:  # another process may clear the cache meanwhile
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


@lru_cache(maxsize=8)
def _writable_root(configured: str) -> Path:
    import platformdirs

    wanted = Path(configured).expanduser() if configured else Path(platformdirs.user_cache_dir("fasthop"))
    if _usable(wanted):
        return wanted
    fallback = _private_temporary_folder()
    logger.warning(
        "the cache folder %s cannot be written, so caches go to %s and may be lost; set %s to a folder that "
        "can be written.",
        wanted,
        fallback,
        ENVIRONMENT_VARIABLE,
    )
    return fallback


def _usable(folder: Path) -> bool:
    """Whether files can be made in `folder`, found out by making one: rights alone do not say
    (a read-only mount, a full quota, root)."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _private_temporary_folder() -> Path:
    """A folder that only this user can write: compiled code is loaded from it, so a folder that
    somebody else made beforehand under the same name must not be taken."""
    owner = os.getuid() if hasattr(os, "getuid") else None
    folder = Path(tempfile.gettempdir()) / f"fasthop-{owner if owner is not None else 'cache'}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        private = owner is None or (status.st_uid == owner and not status.st_mode & 0o022)
        if stat.S_ISDIR(status.st_mode) and private and _usable(folder):
            return folder
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="fasthop-"))
