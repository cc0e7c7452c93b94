"""Training: the task, the setup that rungs rewrite, batches, the step, the loop and evaluation.

`fasthop.train(model, data, ...)` trains a model to the end; see `help(fasthop.search.training.train)` for its options. It is this
package that is called, since importing any of its modules binds it to that name.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    """`fasthop.train(...)`, whichever was imported first."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        import importlib

        # By name: the floor of training does not know the one above it, and only whoever calls asks for it.
        return importlib.import_module("fasthop.search.training").train(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
