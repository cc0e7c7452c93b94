from __future__ import annotations

import numpy as np

from fasthop.graph.compiled import compiled
from fasthop.graph.counting_sort import _count


def test_a_function_without_a_place_for_its_code_still_compiles():
    # A function without a file is what numba finds no cache folder for.
    scope = {}
    exec("def double(x):\n    return 2 * x", scope)
    assert compiled(scope["double"])(21) == 42


def test_the_functions_are_compiled_and_kept():
    _count(np.zeros(3, np.int64), np.zeros(2, np.int64))
    assert _count.signatures
    assert _count.stats.cache_path
