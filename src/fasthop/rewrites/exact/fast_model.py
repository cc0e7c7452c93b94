"""FastModel: what the user's loop calls in place of the model: the same parameters, state_dict and modules, computed faster."""

from __future__ import annotations

import copy
from typing import Any

import torch

from fasthop.rewrites.exact.guarded_layer import GuardedLayer
from fasthop.rewrites.exact.known import Known
from fasthop.rewrites.exact.program import Program
from fasthop.train.task import takes_edge_weight


class FastModel(torch.nn.Module):
    """`original` by other means. Its parameters, buffers and modules *are* the original's.

    In train mode a call with the very tensors it was built for runs `program`, and returns the rows that it was built for.
    Any other call runs `general`, a copy of the model's structure whose layers know their graph, and returns all rows in
    the user's order. Where the user has since changed the model's modules or attributes, the original itself runs, because both
    were made of what the model was; `stale` then says so.
    """

    def __init__(
        self,
        original: torch.nn.Module,
        general: torch.nn.Module,
        program: Program | None,
        *,
        x: Known,
        edge_index: Known,
        edge_weight: Known | None,
    ) -> None:
        super().__init__()
        own = self.__dict__
        own["_parameters"], own["_buffers"], own["_modules"] = (
            original._parameters,
            original._buffers,
            original._modules,
        )
        own["original"], own["general"], own["program"] = original, general, program
        own["_known"] = (x, edge_index, edge_weight)
        own["_takes_weight"] = takes_edge_weight(original)
        own["_watched"] = _Watched(original, general)
        own["runner"] = None if program is None else program.call
        own["training"] = original.training

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """As the original's forward; see the class for which rows come back."""
        mode = self._watched.mode()
        if mode is None:
            return self.original(*args, **kwargs)
        if mode and self.runner is not None and self.is_known(args, kwargs):
            return self.runner()
        return self.general(*args, **kwargs)

    def is_known(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether a call has the very tensors that the model was built for, unchanged."""
        x, edge_index, edge_weight = self._known
        if len(args) == 2 and not kwargs:
            return edge_weight is None and x.is_it(args[0]) and edge_index.is_it(args[1])
        given = dict(zip(("x", "edge_index", "edge_weight"), args[:3], strict=False)) | kwargs
        if len(args) > 3 or (len(args) == 3 and not self._takes_weight):
            return False
        weight = given.pop("edge_weight", None)
        if (weight is None) != (edge_weight is None) or (
            edge_weight is not None and not edge_weight.is_it(weight)
        ):
            return False
        known = x.is_it(given.pop("x", None)) and edge_index.is_it(given.pop("edge_index", None))
        return known and all(value is None for value in given.values())

    @property
    def original_x(self) -> torch.Tensor:
        """The features that the model was built for."""
        return self._known[0].tensor

    @property
    def stale(self) -> bool:
        """Whether the model was changed since, so that the original runs."""
        return self._watched.mode() is None

    def train(self, mode: bool = True) -> FastModel:
        """Sets the mode of the original, too."""
        self.original.train(mode)
        self.__dict__["training"] = mode
        return self

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.__dict__["original"], name)

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.nn.Module:
        """A copy is a copy of the user's model: what was prepared for these very tensors does not travel."""
        return copy.deepcopy(self.original, memo)

    def __reduce__(self) -> Any:
        return _itself, (self.original,)

    def __repr__(self) -> str:
        return f"FastModel({self.original!r})"


def _itself(model: torch.nn.Module) -> torch.nn.Module:
    return model


class _Watched:
    """What must stay as it was for the copies to be copies: modules, parameters, and plain attributes.

    `mode()` is a flag check of some microseconds in each call. A change of train/eval flags alone is handed on
    to the general copy.
    """

    def __init__(self, original: torch.nn.Module, general: torch.nn.Module) -> None:
        twins = _twins(general)
        self.modules = [(module, twins.get(path, [])) for path, module in original.named_modules()]
        self.tensors = [
            (owner, name, value)
            for module, _ in self.modules
            for owner in (module._parameters, module._buffers, module._modules)
            for name, value in owner.items()
        ]
        self.sizes = [
            (owner, len(owner))
            for module, _ in self.modules
            for owner in (module._parameters, module._buffers, module._modules, module._forward_hooks)
        ]
        self.values = [
            (module.__dict__, name, value)
            for module, _ in self.modules
            for name, value in module.__dict__.items()
            if name != "training"
            and isinstance(value, bool | int | float | str | None)
            and not name.startswith("_cached")
        ]
        self.flags = [module.training for module, _ in self.modules]
        self.trained_as = list(self.flags)

    def mode(self) -> bool | None:
        """True: in the mode that was traced. False: in another. None: something else was changed."""
        for owner, name, value in self.tensors:
            if owner.get(name) is not value:
                return None
        for owner, size in self.sizes:
            if len(owner) != size:
                return None
        for attributes, name, value in self.values:
            if attributes.get(name) is not value and attributes.get(name) != value:
                return None
        flags = [module.__dict__["training"] for module, _ in self.modules]
        if flags != self.flags:
            self.flags = flags
            for module, twins in self.modules:
                for twin in twins:
                    twin.training = module.training
        return flags == self.trained_as


def _twins(general: torch.nn.Module) -> dict[str, list[torch.nn.Module]]:
    """The modules of the general copy by the path that they have in the original: a guarded layer stands in the
    place of the layer that it holds."""
    found: dict[str, list[torch.nn.Module]] = {}
    guarded: list[str] = []
    for path, module in general.named_modules():
        parts = path.split(".") if path else []
        place: list[str] = []
        for depth, part in enumerate(parts):
            if ".".join(parts[:depth]) in guarded and part in ("layer", "fast"):
                continue
            place.append(part)
        if isinstance(module, GuardedLayer):
            guarded.append(path)
        found.setdefault(".".join(place), []).append(module)
    return found
