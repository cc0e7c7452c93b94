"""Watched: whether the user's model still is what a fast model was made of."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import torch

from fasthop.rewrites.exact.attributes import PLAIN, attributes, is_the_users, state_of
from fasthop.rewrites.exact.fast_layer import HOOKS
from fasthop.rewrites.exact.guarded_layer import GuardedLayer

MISSING = object()


class Watched:
    """What must stay as it was for the copies to be copies: modules, parameters, buffers, hooks and attributes.

    `mode()` is a check of some microseconds in each call. A change of train/eval flags alone is handed on to the general
    copy. What the general copy's own forward pass writes is handed back to the model: `push()` before the call, `adopt()`
    after it.
    """

    def __init__(self, original: torch.nn.Module, general: torch.nn.Module, *, has_program: bool) -> None:
        twins = twins_of(general)
        self._has_program = has_program
        self._modules = [(module, twins.get(path, [])) for path, module in original.named_modules()]
        self._pairs = [
            (module, twin)
            for module, found in self._modules
            for twin in found
            if is_the_users(module) and type(twin) is type(module) and twin is not module
        ]
        # What holds modules was copied with them, and differs by that.
        self._copied = {
            (id(twin), name): value
            for module, twin in self._pairs
            for name, value in attributes(twin).items()
            if vars(module).get(name, MISSING) is not value
        }
        self._written: dict[int, set[str]] = {}
        self._flags = [module.training for module, _ in self._modules]
        # A model that is in eval mode now will be trained in train mode.
        self._trained_as = list(self._flags) if original.training else [True] * len(self._flags)
        self.take_stock()

    def take_stock(self) -> None:
        """What the model is now is what it was."""
        modules = [module for module, _ in self._modules]
        self._objects = _columns(
            (owner, name, value)
            for module in modules
            for owner in (module._parameters, module._buffers, module._modules)
            for name, value in owner.items()
        )
        self._sized = [
            owner
            for module in modules
            for owner in (
                module._parameters,
                module._buffers,
                module._modules,
                *(getattr(module, kind) for kind in HOOKS if isinstance(getattr(module, kind, None), dict)),
            )
        ]
        self._sizes = list(map(len, self._sized))
        own = [
            (module, name, value)
            for module in modules
            for name, value in attributes(module).items()
            if name not in self._written.get(id(module), ())
        ]
        self._values = _columns(
            (vars(module), name, value)
            for module, name, value in own
            if isinstance(value, PLAIN) or callable(value)
        )
        self._states = [
            (vars(module), name, value, state_of(value))  # the value is kept, so that its id stays its own
            for module, name, value in own
            if is_the_users(module) and not isinstance(value, PLAIN) and not callable(value)
        ]
        self._names = [
            (vars(module), self._written.get(id(module), set()), self._num_names(module))
            for module in modules
        ]

    def _num_names(self, module: torch.nn.Module) -> int:
        return len(vars(module).keys() - self._written.get(id(module), set()))

    def mode(self) -> bool | None:
        """True: in the mode that was traced. False: in another. None: something else was changed."""
        if not _are(*self._objects) or list(map(len, self._sized)) != self._sizes:
            return None
        if not _are(*self._values) and not all(
            found.get(name, MISSING) == value for found, name, value in zip(*self._values, strict=True)
        ):
            return None
        for found, name, _, state in self._states:
            if state_of(found.get(name, MISSING)) != state:
                return None
        for found, written, number in self._names:
            if (len(found.keys() - written) if written else len(found)) != number:
                return None
        flags = [module.training for module, _ in self._modules]
        if flags != self._flags:
            self._flags = flags
            for module, twins in self._modules:
                for twin in twins:
                    twin.training = module.training
        return flags == self._trained_as

    def push(self) -> None:
        """Before a call of the general copy: what forward passes have written, as the model has it now."""
        for module, twin in self._pairs:
            for name in self._written.get(id(module), ()):
                if name in vars(module):
                    vars(twin)[name] = vars(module)[name]

    def adopt(self) -> None:
        """After a call of the general copy: what it has written becomes the model's.

        Where there is a program, which may have been made of what was written over, the model is not what it was.
        """
        changed = False
        for module, twin in self._pairs:
            for name, value in attributes(twin).items():
                before = vars(module).get(name, MISSING)
                if before is value or self._copied.get((id(twin), name), MISSING) is value:
                    continue
                vars(module)[name] = value
                if before is MISSING or not self._has_program:
                    self._written.setdefault(id(module), set()).add(name)
                    changed = True
        if changed or not self._has_program:
            self.take_stock()


Columns = tuple[list[dict[str, Any]], list[str], list[Any]]


def _columns(rows: Iterable[tuple[dict[str, Any], str, Any]]) -> Columns:
    owners, names, values = [], [], []
    for owner, name, value in rows:
        owners.append(owner)
        names.append(name)
        values.append(value)
    return owners, names, values


def _are(owners: list[dict[str, Any]], names: list[str], values: list[Any]) -> bool:
    """Whether each owner has the very value under the name; without a Python instruction for each."""
    return all(map(operator.is_, map(dict.get, owners, names), values))


def twins_of(general: torch.nn.Module) -> dict[str, list[torch.nn.Module]]:
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
