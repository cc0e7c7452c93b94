"""Moved to fasthop.jit."""

from fasthop.jit import cache_dir as cache_dir
from fasthop.jit import kernel as kernel
