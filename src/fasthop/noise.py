"""Warnings of other packages that say nothing to a user of fasthop, silenced one by one.

Each entry names the message, the category and why it is kept from the reader; nothing else is touched.
"""

from __future__ import annotations

import warnings

QUIET: tuple[tuple[str, type[Warning]], ...] = (
    # torch warns once a process that CSR tensors are in beta; fasthop checks the results it takes from them.
    (r"Sparse CSR tensor support is in beta state", UserWarning),
    # torch's own checks of a CSR tensor are off by default, which is what PyG expects.
    (r"Sparse invariant checks are implicitly disabled", UserWarning),
    # Arrays that are only read may well be read-only, such as memory-mapped graphs.
    (r"The given NumPy array is not writable", UserWarning),
    # PyG scripts its aggregations with an interface that newer versions of torch deprecate; the user can't mend that.
    (r"`torch\.jit\.\w+` is deprecated", DeprecationWarning),
    (r"`torch\.jit\.\w+` is not supported in Python", DeprecationWarning),
)


def silence() -> None:
    """Adds the filters of `QUIET` to the process's, in front of those that stand."""
    for message, category in QUIET:
        warnings.filterwarnings("ignore", message=message, category=category)
