"""FastModel: what the user's loop calls in place of the model: the same parameters, state_dict and modules, computed faster."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from fasthop.rewrites.exact.attributes import REGISTRIES
from fasthop.rewrites.exact.known import Known
from fasthop.rewrites.exact.program import Program
from fasthop.rewrites.exact.watched import Watched
from fasthop.train.task import takes_edge_weight


class FastModel(torch.nn.Module):
    """`original` by other means. Its parameters, buffers and modules *are* the original's.

    In train mode a call with the very tensors it was built for runs `program`, and returns the rows that it was built for
    (`rows`, or all where it is None). Any other call runs `general`, a copy of the model's structure whose layers know their
    graph, and returns all rows in the user's order. Where the user has since changed the model's modules or attributes, the
    original itself runs, because both were made of what the model was; `stale` then says so. Which rows come back depends
    on the mode and the tensors alone, not on which of them ran. Attributes are the original's, read and written.
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
        rows: Tensor | None = None,
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
        own["_watched"] = Watched(original, general, has_program=program is not None)
        own["runner"] = None if program is None else program.call
        own["rows"] = rows

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """As the original's forward; see the class for which rows come back."""
        if torch.is_inference_mode_enabled():
            # What is prepared in a first call serves later ones that need gradients.
            with torch.inference_mode(False), torch.no_grad():
                return self.forward(*args, **kwargs)
        mode = self._watched.mode()
        training = self.training
        # Where neither depends on whether the tensors are known ones, nobody asks.
        known = (
            training and (self.runner is not None or self.rows is not None) and self._known_in(args, kwargs)
        )
        if mode and self.runner is not None and known and all(tensor.is_unchanged for tensor in known):
            return self.runner()
        if mode is None:
            out = self.original(*args, **kwargs)
        else:
            self._watched.push()
            out = self.general(*args, **kwargs)
            self._watched.adopt()
        return out if self.rows is None or not known else out.index_select(0, self.rows)

    def _known_in(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Known, ...] | None:
        """The tensors that the model was built for where they are what the call is given, perhaps changed in place; else
        None."""
        x, edge_index, edge_weight = self._known
        if len(args) == 2 and not kwargs:
            mine = edge_weight is None and args[0] is x.tensor and args[1] is edge_index.tensor
            return (x, edge_index) if mine else None
        if len(args) > 3 or (len(args) == 3 and not self._takes_weight):
            return None
        given = dict(zip(("x", "edge_index", "edge_weight"), args, strict=False)) | kwargs
        wanted = {"x": x, "edge_index": edge_index, "edge_weight": edge_weight}
        for name, known in wanted.items():
            if given.pop(name, None) is not (None if known is None else known.tensor):
                return None
        if any(value is not None for value in given.values()):
            return None
        return (x, edge_index) if edge_weight is None else (x, edge_index, edge_weight)

    @property
    def original_x(self) -> torch.Tensor:
        """The features that the model was built for."""
        return self._known[0].tensor

    @property
    def stale(self) -> bool:
        """Whether the model was changed since, so that the original runs."""
        return self._watched.mode() is None

    @property
    def training(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The original's mode."""
        return vars(self)["original"].training

    @training.setter
    def training(self, mode: bool) -> None:
        if "original" in vars(self):
            vars(self)["original"].training = mode

    def renew(self) -> None:
        """Takes the model as it is now for the one that this was made of."""
        self._watched.take_stock()

    def train(self, mode: bool = True) -> FastModel:
        """Sets the mode of the original."""
        self.original.train(mode)
        return self

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The original's."""
        return self.original.state_dict(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Into the original."""
        return self.original.load_state_dict(*args, **kwargs)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in REGISTRIES or "original" not in vars(self):
            super().__setattr__(name, value)
        else:
            setattr(self.original, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.original, name)

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
