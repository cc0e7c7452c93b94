"""Dropout off without eval mode and without patching: calls are answered before they reach torch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from fasthop.kernels.dropout import without_dropout

DROPOUTS: frozenset[Callable[..., Any]] = frozenset(
    {
        F.dropout,
        F.dropout1d,
        F.dropout2d,
        F.dropout3d,
        F.alpha_dropout,
        F.feature_alpha_dropout,
        torch.dropout,
        torch.feature_dropout,
        torch.alpha_dropout,
        torch.feature_alpha_dropout,
    }
)
IN_PLACE: frozenset[Callable[..., Any]] = frozenset(
    {torch.dropout_, torch.feature_dropout_, torch.alpha_dropout_, torch.feature_alpha_dropout_}
)
# Where the probability stands among the arguments of functions that have more to do than dropout.
PROBABILITY: dict[Callable[..., Any], int] = {
    F.scaled_dot_product_attention: 4,
    F.multi_head_attention_forward: list(inspect.signature(F.multi_head_attention_forward).parameters).index(
        "dropout_p"
    ),
}
RECURRENT: frozenset[Callable[..., Any]] = frozenset({torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu})


class DropoutOff(TorchFunctionMode):
    """Inside it every dropout of torch is the identity: F.dropout and its kin, in place or not, nn.Dropout and its kin,
    and the dropout inside attention and recurrent layers. All else, train mode included, is as it was.

    It sees calls of this thread only. Other random numbers (DropEdge, noise) are left alone: they are no dropout.
    """

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        """Answers one call."""
        kwargs = kwargs or {}
        if func in DROPOUTS:
            tensor = args[0] if args else kwargs["input"]
            in_place = bool(kwargs.get("inplace", func.__module__ == F.__name__ and True in args[3:4]))
            # A copy, as dropout's own result is one: what follows may change it in place.
            return tensor if in_place else tensor.clone()
        if func in IN_PLACE:
            return args[0] if args else kwargs["input"]
        if func is torch.native_dropout:
            tensor = args[0] if args else kwargs["input"]
            return tensor.clone(), torch.ones_like(tensor, dtype=torch.bool)
        if func in PROBABILITY:
            args, kwargs = _without(args, kwargs, PROBABILITY[func])
        elif func in RECURRENT:
            # ..., has_biases, num_layers, dropout, ...: has_biases is the first bool of both forms (packed or not)
            place = next(i for i, value in enumerate(args) if isinstance(value, bool)) + 2
            args = (*args[:place], 0.0, *args[place + 1 :])
        return func(*args, **kwargs)


@contextmanager
def dropout_off() -> Iterator[None]:
    """Every dropout the identity, torch's (`DropoutOff`) and that of fasthop's own kernels."""
    with without_dropout(), DropoutOff():
        yield


def _without(args: tuple, kwargs: dict, place: int) -> tuple[tuple, dict]:
    """The arguments with a dropout_p of 0."""
    if len(args) > place:
        return (*args[:place], 0.0, *args[place + 1 :]), kwargs
    return args, {**kwargs, "dropout_p": 0.0}
