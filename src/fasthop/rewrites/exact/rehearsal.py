"""The traced calls and the forward pass itself, run on a small graph: they must agree, and the shapes are noted."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, fx
from torch.utils._pytree import tree_flatten

from fasthop.graph.note import note
from fasthop.rewrites.exact.trace import CHANGES, Entry, Untraceable, state_of_modules
from fasthop.rewrites.structure import copy_sharing
from fasthop.train.compiled import first_line

SIZES = (13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97)
"""Candidates for the number of nodes: one that no parameter has as a dimension, so that rows are not taken for channels."""

MOST_ENTRIES = 2_000_000
"""A model that runs on its own graph only (an embedding for each node) is tried there, up to so many numbers in x and edges."""


def rehearse(entry: Entry, graph: fx.Graph, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> int:
    """Runs both and notes every value's shape in its node's meta["shape"]; returns the number of nodes they were run on.

    What runs is a copy: layers may keep something of the graph. Buffers and generators are left as they were. Raises
    Untraceable where the two differ, where something else than buffers changes, or where the forward fails on the small graph
    and the user's own is too large to be tried.
    """
    twin = copy_sharing(entry)
    assert isinstance(twin, Entry)
    entry = twin
    before = state_of_modules(entry)
    inputs = _small(entry, x, edge_index, edge_weight)
    try:
        expected = _run(entry, entry, inputs)
    except Exception as error:
        if x.numel() + edge_index.numel() > MOST_ENTRIES:
            raise Untraceable(
                note(
                    f"its forward runs on this graph only ({first_line(error)}), which is too large to try the trace on.",
                    f"其 forward 只能在此图上运行（{first_line(error)}），而此图过大，无法试跑。",
                )
            ) from error
        inputs = (x.detach(), edge_index, None if edge_weight is None else edge_weight.detach())
        expected = _attempt(entry, entry, inputs)
    got = _attempt(entry, _Noting(entry, graph=graph).run, inputs)
    if not _equal(expected, got):
        raise Untraceable(
            note("its forward gives other numbers when it is traced.", "其 forward 在跟踪时给出不同的结果。")
        )
    if state_of_modules(entry) != before:
        raise Untraceable(CHANGES)
    return inputs[0].size(0)


class _Noting(fx.Interpreter):
    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        if isinstance(result, Tensor):
            n.meta["shape"] = tuple(result.shape)
        return result


def _attempt(entry: Entry, call: Any, inputs: tuple[Any, ...]) -> Any:
    try:
        return _run(entry, call, inputs)
    except Exception as error:  # what a user's code raises is not to be listed
        reason = first_line(error)
        raise Untraceable(
            note(f"its forward fails ({reason}).", f"其 forward 运行失败（{reason}）。")
        ) from error


def _run(entry: Entry, call: Any, inputs: tuple[Any, ...]) -> Any:
    """One pass from the same seed, on a copy of x, which the forward may write into."""
    buffers = [(buffer, buffer.clone()) for buffer in entry.buffers()]
    devices = [inputs[0].device] if inputs[0].is_cuda else []
    state = np.random.get_state()
    try:
        with torch.random.fork_rng(devices=devices), torch.enable_grad():
            torch.manual_seed(0)
            return call(inputs[0].clone(), *inputs[1:])
    finally:
        np.random.set_state(state)
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)


def _small(
    entry: Entry, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """A directed graph with a self-loop and a node without edges, and features in the form and dtype of x."""
    taken = {size for tensor in [*entry.parameters(), *entry.buffers()] for size in tensor.shape}
    num_nodes = next((size for size in SIZES if size not in taken), 101)
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(0, num_nodes - 1, (2, 3 * num_nodes), generator=generator)
    edges[1, 0] = edges[0, 0]
    small = torch.randn(num_nodes, x.size(1), generator=generator).to(x.dtype).to(x.device)
    if x.layout == torch.sparse_csr:
        small = small.to_sparse_csr()
    elif x.layout != torch.strided:
        small = small.to_sparse_coo()
    weight = None
    if edge_weight is not None:
        shape = (edges.size(1), *edge_weight.shape[1:])
        weight = (0.5 + torch.rand(shape, generator=generator)).to(edge_weight.dtype).to(x.device)
    return small, edges.to(edge_index.dtype).to(edge_index.device), weight


def _equal(expected: Any, got: Any) -> bool:
    one, two = tree_flatten(expected), tree_flatten(got)
    if len(one[0]) != len(two[0]):
        return False
    return all(_same(a, b) for a, b in zip(one[0], two[0], strict=True))


def _same(a: Any, b: Any) -> bool:
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        return type(a) is type(b) and (isinstance(a, Tensor) or a == b)
    if a.shape != b.shape or a.dtype != b.dtype or a.layout != b.layout:
        return False
    if a.layout != torch.strided:
        a, b = a.to_dense(), b.to_dense()
    if not a.is_floating_point():
        return bool(torch.equal(a, b))
    close = 1e-5 if a.dtype in (torch.float32, torch.float64) else 1e-2
    return bool(torch.allclose(a, b, rtol=close, atol=close, equal_nan=True))
