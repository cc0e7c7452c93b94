"""GuardedLayer: the fast form of a layer where it is called with the known graph, the layer itself elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import MessagePassing

from fasthop.rewrites.exact.call import read_call
from fasthop.rewrites.exact.constant import Constant
from fasthop.rewrites.exact.fast_layer import FastLayer
from fasthop.rewrites.exact.hops import Hops, Value
from fasthop.rewrites.exact.known import KnownGraph


class GuardedLayer(torch.nn.Module):
    """Stands in the place of a PyG layer in a copy of the model.

    prepared(): the known graph in the user's order, made when it is first needed. constant_of(x): the known input as a
    Constant where x is the very tensor, else None. Attributes of the layer are found here, too.
    """

    def __init__(
        self,
        layer: MessagePassing,
        fast: FastLayer,
        prepared: Callable[[], KnownGraph],
        constant_of: Callable[[Tensor], Constant | None],
    ) -> None:
        super().__init__()
        self.layer, self.fast = layer, fast
        if getattr(layer, "cached", False) and not fast.remembers_input(layer):
            # The known graph's normalisation is kept by `fast`; PyG would keep the first other graph's for all others.
            vars(layer)["cached"] = False
        self._prepared, self._constant_of = prepared, constant_of
        self._hops: dict[bool, Hops] = {}

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("layer"), name)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """As the layer's own forward."""
        call = read_call(self.layer, args, kwargs, has_x_0=self.fast.takes_x_0)
        if call is None or not isinstance(call.x, Tensor) or call.x.dim() != 2:
            return self.layer(*args, **kwargs)
        graph = self._prepared()
        weighted = call.edge_weight is not None
        is_known = (
            graph.edge_index.is_it(call.edge_index)
            and call.x.size(0) == graph.num_nodes
            and (
                not weighted or (graph.edge_weight is not None and graph.edge_weight.is_it(call.edge_weight))
            )
        )
        if not is_known:
            return self.layer(*args, **kwargs)
        if weighted not in self._hops:
            self._hops[weighted] = Hops(graph=graph, depth=0, num_hops=self.fast.num_hops, weighted=weighted)
        x = self._value(call.x)
        if isinstance(x, Tensor) and (x.layout != torch.strided or self.fast.remembers_input(self.layer)):
            return self.layer(*args, **kwargs)
        if self.fast.takes_x_0:
            return self.fast(x, self._hops[weighted], x_0=self._value(call.x_0))
        return self.fast(x, self._hops[weighted])

    def _value(self, x: Tensor) -> Value:
        constant = self._constant_of(x)
        return x if constant is None else constant
