"""Moved to fasthop.cache."""

from fasthop.cache import cache_dir as cache_dir
