"""A Subject: one side of a proof, as the judge sees it: something to call, parameters and buffers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fasthop.verify.subgraph import Subgraph


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Subject:
    """One side: a model in train mode with its own copy of the parameters, and the data it is called with.

    forward: one forward pass; returns the rows that are trained on, [num_rows, C]. Both sides return the same rows
        in the same order.
    parameters: by the names that both sides share. Values and gradients are changed in place.
    buffers: the buffers as they are now, by shared names; asked again after the last step, since a module may put
        another tensor in a buffer's place. What only the candidate has is not looked at.
    backward: (out, cotangent) to gradients in `.grad`; None is `out.backward(cotangent)`.
    predict: the output of all rows in eval mode, in the user's order, compared after the last step; both sides have it or none.
    """

    forward: Callable[[], Tensor]
    parameters: Mapping[str, Tensor]
    buffers: Callable[[], Mapping[str, Tensor]]
    backward: Callable[[Tensor, Tensor], None] | None = None
    predict: Callable[[], Tensor] | None = None

    @classmethod
    def of(
        cls,
        model: torch.nn.Module,
        forward: Callable[[], Tensor],
        *,
        predict: Callable[[], Tensor] | None = None,
    ) -> Subject:
        """The subject that a module's own parameters and buffers make."""
        return cls(
            forward=forward,
            parameters=dict(model.named_parameters()),
            buffers=lambda: dict(model.named_buffers()),
            predict=predict,
        )


Maker = Callable[[torch.dtype, Subgraph | None], Subject]
"""(dtype, part of the graph or None for all of it) to a fresh subject: parameters, buffers and inputs are those of the
user's model and data, cast to dtype; on a part, its rows are those of `part.seeds`."""
