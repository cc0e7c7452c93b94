"""The errors that fasthop raises on purpose. Each message is a sentence or two:
what is wrong, the value that was got, and what to do about it."""

from __future__ import annotations


class FasthopError(Exception):
    """The parent of every error that fasthop raises on purpose."""


class InvalidConfig(FasthopError, ValueError):
    """An option has a value that cannot work; raised before any work starts."""


class InvalidGraph(FasthopError, ValueError):
    """The graph has a fault; the message names the value and its place."""


class GraphNotFound(FasthopError, LookupError):
    """A graph asked for by name cannot be had; the message lists what was tried."""


class NotApplicable(FasthopError):
    """A rung does not apply to this setup; the message is the reason, one sentence."""


class NotExact(FasthopError):
    """A rung that claims to be exact was measured not to be."""


class DoesNotFit(FasthopError, MemoryError):
    """The work does not fit in the memory that it may use."""


class TrialFailed(FasthopError, RuntimeError):
    """A recipe's worker died, hung past its limit or raised; the message says which."""
