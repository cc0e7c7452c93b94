"""The program of a fast model: the traced calls again, its layers over prepared matrices and its input a constant."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx.node import map_arg
from torch_geometric.nn.dense.linear import Linear as PyGLinear

from fasthop.graph.note import note
from fasthop.rewrites.exact.aliases import aliases, dropout_of
from fasthop.rewrites.exact.constant import Constant
from fasthop.rewrites.exact.fast_layer import FastLayer, hidden_state
from fasthop.rewrites.exact.hops import Hops, Value, head, linear
from fasthop.rewrites.exact.known import KnownGraph
from fasthop.rewrites.exact.options import ExactOptions
from fasthop.rewrites.exact.row_sets import Placeholders, RowSets, Site
from fasthop.rewrites.exact.trace import Entry, Untraceable, module_of
from fasthop.rewrites.layers.covered import fast_layer


class LayerCallSite(torch.nn.Module):
    """A fast layer at one call site."""

    def __init__(self, fast: FastLayer, hops: Hops) -> None:
        super().__init__()
        self.fast, self.hops = fast, hops

    def forward(self, x: Value, x_0: Value | None = None) -> Tensor:
        if self.fast.takes_x_0:
            return self.fast(x, self.hops, x_0=x_0)
        return self.fast(x, self.hops)


@dataclass(kw_only=True, eq=False)
class Program:
    """A program that takes no argument: `call()` is the model's output in train mode.

    graph: what the program was made of, read by rungs that go on from it (fused_step).
    """

    call: fx.GraphModule
    x: Constant
    known: KnownGraph
    sets: RowSets


def build_program(
    entry: Entry,
    graph: fx.Graph,
    sets: RowSets,
    known: KnownGraph,
    x: Constant,
    options: ExactOptions,
    edges: Any,
    *,
    is_sparse: bool = False,
) -> Program:
    """The traced calls over `known` and the arranged constant `x`.

    edges: (edge_index, edge_weight) as the user gave them, for calls that are left as they are. is_sparse: whether the
    user's x is. Raises Untraceable where a sparse x is read by anything that would tell the difference.
    Values are computed at as many leading rows as their depth needs, where `known.order` has fewer rows than nodes.
    """
    return _Builder(entry, graph, sets, known, x, options, edges, is_sparse).build()


class _Builder:
    def __init__(
        self,
        entry: Entry,
        graph: fx.Graph,
        sets: RowSets,
        known: KnownGraph,
        x: Constant,
        options: ExactOptions,
        edges: Any,
        is_sparse: bool,
    ) -> None:
        self.entry, self.old, self.sets, self.known, self.x, self.options = (
            entry,
            graph,
            sets,
            known,
            x,
            options,
        )
        self.inputs = Placeholders.of(graph)
        self.new = fx.Graph()
        self.attributes: dict[str, Any] = {}
        self.placed: dict[fx.Node, fx.Node] = {}
        self.fast: dict[int, FastLayer] = {}
        self.same_as = aliases(entry, graph)
        self.constants = self._constants()
        self.edges, self.is_sparse = edges, is_sparse

    def build(self) -> Program:
        wanted = self._wanted()
        for node in self.old.nodes:
            if node.op == "output":
                self.new.output(
                    map_arg(node.args[0], lambda old: self._output(self._rows_at(self._alias(old), 0)))
                )
            elif node.op != "placeholder" and self._alias(node) is node and node in wanted:
                self._emit(node)
        self.new.lint()
        module = fx.GraphModule(self.attributes, self.new)
        return Program(call=module, x=self.x, known=self.known, sets=self.sets)

    def _wanted(self) -> set[fx.Node]:
        """What the output depends on. Where rows are told apart, nothing else may have an effect (`RowSets.mixes`), and how
        many rows of it there were to be is not known; elsewhere everything is done as the forward does it."""
        if self.sets.mixes is not None:
            return set(self.old.nodes)
        wanted: set[fx.Node] = set()
        for node in reversed(self.old.nodes):
            if node.op == "output" or node in wanted:
                wanted |= {node, *node.all_input_nodes, *map(self._alias, node.all_input_nodes)}
        return wanted

    def _output(self, out: fx.Node) -> fx.Node:
        order = self.known.order
        if order.rank is None or not order.is_whole:
            return out
        return self.new.call_function(torch.index_select, (out, 0, self._attribute("rank", order.rank)))

    # --- values ------------------------------------------------------------------------------------------------

    def _alias(self, node: Any) -> Any:
        while node in self.same_as:
            node = self.same_as[node]
        return node

    def _constants(self) -> set[fx.Node]:
        """The nodes that stay a Constant: the input, and a dropout of it that only products read."""
        found = {self.inputs.x}
        if self.x.sparse is None:
            return found
        for node in self.old.nodes:
            dropped = dropout_of(self.entry, node)
            if dropped is not None and self._alias(dropped[0]) is self.inputs.x and self._only_products(node):
                found.add(node)
        return found

    def _only_products(self, node: fx.Node) -> bool:
        readers = [user for user in node.users if user.op != "output"]
        return len(readers) == len(node.users) and all(
            (self._alias(user) is not user and self._only_products(user))
            or user in self.sets.sites
            or self._is_linear(user)
            for user in readers
        )

    def _is_linear(self, node: fx.Node) -> bool:
        if node.op != "call_module":
            return False
        module = module_of(self.entry, node)
        return type(module) in (torch.nn.Linear, PyGLinear) and hidden_state(module) is None

    def _size(self, node: fx.Node) -> int:
        return self.known.order.size(self.sets.depth.get(node, 0))

    def _value(self, node: fx.Node) -> fx.Node:
        """The new node of an old one; the constant input as it is."""
        if node is self.inputs.x:
            return self._attribute("x", self.x)
        if node is self.inputs.edge_index:
            return self._attribute("edge_index", self.edges[0])
        if node is self.inputs.edge_weight:
            return self._attribute("edge_weight", self.edges[1])
        return self.placed[node]

    def _rows_at(self, node: fx.Node, depth: int, *, as_constant: bool = False) -> fx.Node:
        """A value cut to the rows that a reader at `depth` needs; a tensor unless the reader takes constants."""
        wanted = self.known.order.size(depth)
        has = self.x.num_rows if node is self.inputs.x else self._size(node)
        if node is self.inputs.x and not as_constant:
            if self.is_sparse:
                raise Untraceable(
                    note(
                        "x is sparse, and its forward reads it by other means than layers and linear maps.",
                        "x 是稀疏张量，而其 forward 以层和线性映射以外的方式读取它。",
                    )
                )
            return self._attribute(f"x_{wanted}", self.x.head(wanted).dense())
        value = self._value(node)
        if node is self.inputs.x and wanted < has:
            return self._attribute(f"constant_{wanted}", self.x.head(wanted))
        return value if wanted == has else self.new.call_function(head, (value, wanted))

    def _attribute(self, name: str, value: Any) -> fx.Node:
        self.attributes[name] = value
        return self.new.get_attr(name)

    # --- calls -------------------------------------------------------------------------------------------------

    def _emit(self, node: fx.Node) -> None:
        if node in self.sets.sites:
            self.placed[node] = self._emit_site(self.sets.sites[node])
            return
        if self.sets.mixes is None and node in self.sets.rows and node not in self.sets.depth:
            return  # nothing of it reaches the output
        if node in self.constants:
            dropped = dropout_of(self.entry, node)
            assert dropped is not None
            x = self._rows_at(self.inputs.x, self.sets.depth.get(node, 0), as_constant=True)
            self.placed[node] = self.new.call_method("dropout", (x, dropped[1]))
            return
        depth = self.sets.depth.get(node, 0)
        source = self._alias(node.args[0]) if node.args else None
        if source in self.constants and self._is_linear(node):
            module = module_of(self.entry, node)
            name = str(node.target)
            weight = self._attribute(f"{name}.weight", module.weight)
            bias = None if module.bias is None else self._attribute(f"{name}.bias", module.bias)
            x = self._rows_at(source, depth, as_constant=True)
            self.placed[node] = self.new.call_function(linear, (x, weight, bias))
            return

        def read(old: fx.Node) -> fx.Node:
            old = self._alias(old)
            return self._rows_at(old, depth) if old in self.sets.rows else self._value(old)

        args = map_arg(node.args, read)
        kwargs = map_arg(node.kwargs, read)
        if node.op in ("call_module", "get_attr"):
            name = str(node.target)
            self.attributes[name] = operator.attrgetter(name)(self.entry)
        self.placed[node] = self.new.create_node(node.op, node.target, args, kwargs)

    def _emit_site(self, site: Site) -> fx.Node:
        depth = self.sets.depth.get(site.node, 0)
        if id(site.layer) not in self.fast:
            self.fast[id(site.layer)] = fast_layer(site.layer, self.options)
            self.fast[id(site.layer)].acted = self.known.acted
        fast = self.fast[id(site.layer)]
        hops = Hops(graph=self.known, depth=depth, num_hops=fast.num_hops, weighted=site.weighted)
        name = f"site_{len(self.placed)}"
        self.attributes[name] = LayerCallSite(fast, hops)
        args = [self._rows_at(self._alias(site.x), depth + fast.num_hops, as_constant=True)]
        if site.x_0 is not None:
            args.append(self._rows_at(self._alias(site.x_0), depth, as_constant=True))
        return self.new.call_module(name, tuple(args))
