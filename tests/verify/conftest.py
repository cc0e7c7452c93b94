"""PyG is imported here, once, with the warnings of its own import kept out (they are errors in the tests)."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    # PyG scripts some of its classes at import, which torch 2.13 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    import torch_geometric  # noqa: F401
