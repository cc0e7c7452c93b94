"""Where fasthop keeps what it downloads and derives."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def cache_dir() -> Path:
    """The user's cache folder for fasthop, or the folder that FASTHOP_CACHE names. It may not exist yet."""
    return Path(os.environ.get("FASTHOP_CACHE") or platformdirs.user_cache_dir("fasthop")).expanduser()
