"""What memory at rest is: which kind each address belongs to, found from the objects that hold it."""

from __future__ import annotations

import bisect
import gc
import itertools
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from fasthop.machine.live import Range, instances, live_ranges, resident_ranges

PARAMETERS, GRADIENTS, OPTIMIZER_STATE, FEATURES, GRAPH, BATCHES, FUSED, OTHER = (
    "parameters",
    "gradients",
    "optimizer_state",
    "features",
    "graph",
    "batches",
    "fused",
    "other",
)
# Whose tensors and arrays are of which kind: module, class, the attribute that holds them ("": all), kind.
_HOLDERS = (
    ("fasthop.kernels.stack.training", "StackTraining", "_moments", OPTIMIZER_STATE),
    ("fasthop.kernels.stack.plan", "Tape", "_arena", FUSED),
    ("fasthop.kernels.buffers", "Buffer", "_bytes", BATCHES),
    ("fasthop.kernels.sparse_linear.features", "SparseFeatures", "", FEATURES),
    ("fasthop.kernels.spmm.adjacency", "Adjacency", "", GRAPH),
    ("fasthop.graph.csr", "CSR", "", GRAPH),
)
_GRAPHS = (("fasthop.graph.graph", "Graph"), ("torch_geometric.data", "Data"))


class Residents:
    """The memory at rest on a device, each address with its kind: that of the first claim that holds it.

    features, graph: the resident inputs, where they are known; else they are looked for: the tensors of PyG's and
    fasthop's graphs, sparse tensors, integer tensors [2, E], and floating matrices that nothing trains.
    is_whole: False leaves out what no kind is known of.
    """

    def __init__(
        self,
        device: torch.device,
        *,
        features: Iterable[Any] | None = None,
        graph: Iterable[Any] | None = None,
        is_whole: bool = True,
    ) -> None:
        objects = gc.get_objects()
        claims = [
            *_claims_of_training(objects),
            *((entry, FEATURES) for entry in features or ()),
            *((entry, GRAPH) for entry in graph or ()),
            *_claims_of_holders(objects),
        ]
        if features is None and graph is None:
            claims += _guessed_inputs(objects)
        self._starts: list[int] = []
        self._parts: list[tuple[int, int, str]] = []
        self._claim(claims, device, live_ranges(device) if is_whole else [])

    def _claim(self, claims: list[tuple[Any, str]], device: torch.device, rest: list[Range]) -> None:
        ranges: list[tuple[Range, str]] = []
        for entry, kind in claims:
            ranges += [(one, kind) for one in resident_ranges((entry,), device)]
        ranges += [(one, OTHER) for one in rest]
        # Of overlapping ranges the one that was claimed first has the address.
        order = sorted(range(len(ranges)), key=lambda place: (ranges[place][0][0], place))
        edges = sorted({edge for one, _ in ranges for edge in one})
        opened: list[int] = []
        upcoming = iter(order)
        following = next(upcoming, None)
        for first, last in itertools.pairwise(edges):
            while following is not None and ranges[following][0][0] <= first:
                opened.append(following)
                following = next(upcoming, None)
            opened = [place for place in opened if ranges[place][0][1] > first]
            if opened:
                self._parts.append((first, last, ranges[min(opened)][1]))
        self._starts = [first for first, _, _ in self._parts]

    def cut(self, address: int, num_bytes: int) -> Iterator[tuple[str, int]]:
        """The kinds of what lies at an address, with the bytes of each; nothing where nothing was at rest."""
        end = address + num_bytes
        place = max(bisect.bisect_right(self._starts, address) - 1, 0)
        while place < len(self._parts) and self._parts[place][0] < end:
            first, last, kind = self._parts[place]
            length = min(last, end) - max(first, address)
            if length > 0:
                yield kind, length
            place += 1

    def kind_at(self, address: int) -> str | None:
        """The kind of what lies at an address; None where nothing was at rest."""
        return next((kind for kind, _ in self.cut(address, 1)), None)

    def num_bytes(self) -> dict[str, int]:
        """The bytes of each kind."""
        found: dict[str, int] = {}
        for first, last, kind in self._parts:
            found[kind] = found.get(kind, 0) + last - first
        return found


def _claims_of_training(objects: list[Any]) -> Iterator[tuple[Any, str]]:
    """Parameters with buffers, their gradients, and the optimisers' state."""
    trained: list[Tensor] = instances(objects, torch.nn.Parameter)
    for optimizer in instances(objects, torch.optim.Optimizer):
        trained += [parameter for group in optimizer.param_groups for parameter in group["params"]]
        for state in list(optimizer.state.values()):
            yield from ((value, OPTIMIZER_STATE) for value in state.values() if isinstance(value, Tensor))
    for module in instances(objects, torch.nn.Module):
        yield from ((buffer, PARAMETERS) for buffer in module.buffers(recurse=False))
    for one in trained:
        yield one, PARAMETERS
        if one.grad is not None:
            yield one.grad, GRADIENTS


def _claims_of_holders(objects: list[Any]) -> Iterator[tuple[Any, str]]:
    for module, name, attribute, kind in _HOLDERS:
        owner = _loaded(module, name)
        if owner is not None:
            for one in instances(objects, owner):
                values = [getattr(one, attribute, None)] if attribute else _attributes(one)
                yield from ((entry, kind) for value in values for entry in _data(value))
    for module, name in _GRAPHS:
        owner = _loaded(module, name)
        if owner is not None:
            for one in instances(objects, owner):
                yield from _claims_of_graph(one)


def _claims_of_graph(graph: Any) -> Iterator[tuple[Any, str]]:
    is_data = callable(getattr(graph, "to_dict", None))
    held = graph.to_dict() if is_data else vars(graph)
    for name, value in held.items():
        yield from ((entry, FEATURES if name == "x" else GRAPH) for entry in _data(value))


def _guessed_inputs(objects: list[Any]) -> Iterator[tuple[Any, str]]:
    from torch._subclasses.fake_tensor import FakeTensor

    for one in instances(objects, Tensor):
        if issubclass(type(one), FakeTensor | torch.nn.Parameter):
            continue
        if one.layout is not torch.strided or (
            one.dim() == 2 and one.size(0) == 2 and not one.is_floating_point() and not one.is_complex()
        ):
            yield one, GRAPH
        elif one.dim() == 2 and one.is_floating_point() and not one.requires_grad and one.is_leaf:
            yield one, FEATURES


def _attributes(one: Any) -> list[Any]:
    """The values of an object's attributes; what its attributes hold in turn, one step down."""
    names = list(getattr(one, "__dict__", {}))
    for base in type(one).__mro__:
        slots = base.__dict__.get("__slots__", ())
        names += [slots] if isinstance(slots, str) else list(slots)
    values = [getattr(one, name, None) for name in names]
    adjacency = _loaded("fasthop.kernels.spmm.adjacency", "Adjacency")
    if adjacency is not None:
        values += [v for inner in values if isinstance(inner, adjacency) for v in _attributes(inner)]
    return values


def _data(value: Any) -> list[Any]:
    """The tensors and arrays that a value is or holds."""
    if isinstance(value, list | tuple):
        return [entry for one in value for entry in _data(one)]
    numpy = sys.modules.get("numpy")
    if isinstance(value, Tensor) or (numpy is not None and isinstance(value, numpy.ndarray)):
        return [value]
    return []


def _loaded(module: str, name: str) -> Any:
    return getattr(sys.modules.get(module), name, None)
