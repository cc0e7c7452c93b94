"""Which rows of each value the output needs: how many hops a value lies below the output, or why that cannot be said."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch_geometric.nn import MLP

from fasthop.graph.note import Note, note
from fasthop.rewrites.exact.aliases import aliases
from fasthop.rewrites.exact.call import read_call
from fasthop.rewrites.exact.in_place import is_seen_by_one, may_be, writes_into
from fasthop.rewrites.exact.row_local import call_is_row_local, module_is_row_local
from fasthop.rewrites.exact.trace import Entry, Untraceable, module_of, name_of
from fasthop.rewrites.layers.covered import BY_CLASS, fast_layer, refusal

PAIRS = (torch.max, torch.min, "max", "min")


@dataclass(kw_only=True, eq=False)
class Placeholders:
    """The placeholders of a traced graph."""

    x: fx.Node
    edge_index: fx.Node
    edge_weight: fx.Node

    @classmethod
    def of(cls, graph: fx.Graph) -> Placeholders:
        """From an Entry's trace."""
        x, edge_index, edge_weight = [node for node in graph.nodes if node.op == "placeholder"]
        return cls(x=x, edge_index=edge_index, edge_weight=edge_weight)


@dataclass(frozen=True, kw_only=True, eq=False)
class Site:
    """A call of a covered layer on the user's own graph. x, x_0: nodes. weighted: whether edge_weight is handed over."""

    node: fx.Node
    layer: Any
    x: fx.Node
    x_0: fx.Node | None
    weighted: bool
    num_hops: int


@dataclass(kw_only=True, eq=False)
class RowSets:
    """The analysis of one trace.

    sites: the calls of covered layers by node. left: why each other call of a layer is left as it is.
    mixes: why rows cannot be told apart anywhere (then no value may be cut or reordered), or None.
    depth: hops below the output, for each value of rows; a value that the output does not need has none.
    """

    sites: dict[fx.Node, Site] = field(default_factory=dict)
    left: dict[fx.Node, Note] = field(default_factory=dict)
    mixes: Note | None = None
    rows: set[fx.Node] = field(default_factory=set)
    depth: dict[fx.Node, int] = field(default_factory=dict)

    @property
    def num_hops(self) -> int:
        """How far the output reaches."""
        return max(self.depth.values(), default=0)


def analyse(entry: Entry, graph: fx.Graph, options: Any, num_nodes: int) -> RowSets:
    """The sites, the values of rows and their depths; see RowSets.

    num_nodes: of the graph that the trace was rehearsed on, from which each node's meta["shape"] comes. Raises Untraceable
    where the forward pass writes into its input.
    """
    inputs = Placeholders.of(graph)
    sets = RowSets(rows={inputs.x})
    pairs: set[fx.Node] = set()
    for node in graph.nodes:
        if node.op == "placeholder":
            continue
        if node.op == "output":
            if node.args[0] not in sets.rows:
                sets.mixes = sets.mixes or note(
                    "it returns something else than one row a node.", "它返回的不是每节点一行。"
                )
            continue
        if node.op == "call_module" and _is_layer(entry, node):
            site = _site(entry, node, inputs, options)
            if isinstance(site, Site):
                sets.sites[node] = site
                sets.mixes = sets.mixes or _mixes_inside(site, options)
                if site.x not in sets.rows or (site.x_0 is not None and site.x_0 not in sets.rows):
                    sets.mixes = sets.mixes or note(
                        f"{name_of(entry, node)} is given something else than rows of nodes.",
                        f"{name_of(entry, node)} 的输入不是按节点排列的行。",
                    )
            else:
                sets.left[node] = site
                sets.mixes = sets.mixes or site
            sets.rows.add(node)
            continue
        sources = node.all_input_nodes
        written = writes_into(entry, node)
        if written is not None and any(may_be(entry, written, node) for node in vars(inputs).values()):
            raise Untraceable(
                note(
                    f"its forward writes into its own input ({name_of(entry, node)}).",
                    f"其 forward 会改写自己的输入（{name_of(entry, node)}）。",
                )
            )
        if not any(
            source in sets.rows or source in (inputs.edge_index, inputs.edge_weight) for source in sources
        ):
            continue
        if _touches_graph(node, inputs):
            sets.mixes = sets.mixes or note(
                f"its forward computes with the edges themselves ({name_of(entry, node)}).",
                f"其 forward 直接用边参与计算（{name_of(entry, node)}）。",
            )
            continue
        if node.target is operator.getitem and node.args[0] in pairs and isinstance(node.args[1], int):
            pass
        elif not _row_local(entry, node, sets.rows, pairs):
            sets.mixes = sets.mixes or note(
                f"{name_of(entry, node)} is not known to leave the nodes' rows apart.",
                f"{name_of(entry, node)} 可能混合不同节点的行。",
            )
        elif node.target in PAIRS and "shape" not in node.meta:
            pairs.add(node)
        if node not in pairs and sets.mixes is None and node.meta.get("shape", (None,))[0] != num_nodes:
            sets.mixes = note(
                f"{name_of(entry, node)} returns something else than one row a node.",
                f"{name_of(entry, node)} 返回的不是每节点一行。",
            )
        sets.rows.add(node)
    _measure_depths(graph, sets)
    return sets


def _is_layer(entry: Entry, node: fx.Node) -> bool:
    from torch_geometric.nn import MessagePassing

    return isinstance(module_of(entry, node), MessagePassing)


def _site(entry: Entry, node: fx.Node, inputs: Placeholders, options: Any) -> Site | Note:
    layer: Any = module_of(entry, node)
    reason = refusal(layer)
    if reason is not None:
        return reason
    name = type(layer).__name__
    has_x_0 = BY_CLASS[type(layer)].takes_x_0
    call = read_call(layer, node.args, node.kwargs, has_x_0=has_x_0)
    if call is None:
        return note(
            f"{name} is called with more than x, edge_index and edge_weight.",
            f"{name} 的调用参数不止 x、edge_index 和 edge_weight。",
        )
    if call.edge_index is not inputs.edge_index or call.edge_weight not in (None, inputs.edge_weight):
        return note(
            f"{name} is called with edges that the forward pass makes anew.",
            f"{name} 使用的边由 forward 现场生成。",
        )
    same_as = aliases(entry, node.graph)
    source = call.x
    while source in same_as:
        source = same_as[source]
    if BY_CLASS[type(layer)].remembers_input(layer) and source is not inputs.x:
        return note(
            f"{name} keeps the first input that it is given for good (cached), and here that is not x itself.",
            f"{name} 会永久保留首次的输入（cached），而这里的输入不是 x 本身。",
        )
    fast = fast_layer(layer, options)
    if not isinstance(call.x, fx.Node) or not isinstance(call.x_0, fx.Node | None):
        return note(f"{name} is called with a pair of inputs.", f"{name} 的输入是一对张量。")
    return Site(
        node=node,
        layer=layer,
        x=call.x,
        x_0=call.x_0,
        weighted=call.edge_weight is not None,
        num_hops=fast.num_hops,
    )


def _mixes_inside(site: Site, options: Any) -> Note | None:
    """What of the user's own modules in a layer, such as GINConv's nn, may mix rows."""
    name = type(site.layer).__name__
    for part in fast_layer(site.layer, options).inner_modules():
        if not module_is_row_local(part):
            return note(
                f"{name} has a {_mixing(part)} inside, which is not known to leave the nodes' rows apart.",
                f"{name} 内部的 {_mixing(part)} 可能混合不同节点的行。",
            )
    return None


def _mixing(module: torch.nn.Module) -> str:
    for part in module.children():
        if isinstance(module, torch.nn.Sequential | torch.nn.ModuleList | MLP) and not module_is_row_local(
            part
        ):
            return _mixing(part)
    return type(module).__name__


def _touches_graph(node: fx.Node, inputs: Placeholders) -> bool:
    return any(source in (inputs.edge_index, inputs.edge_weight) for source in node.all_input_nodes)


def _row_local(entry: Entry, node: fx.Node, rows: set[fx.Node], pairs: set[fx.Node]) -> bool:
    if any(source in pairs for source in node.all_input_nodes):
        return False
    # Written over in place, a value that others read as well would be cut to the rows of one reader.
    written = writes_into(entry, node)
    if written is not None and not is_seen_by_one(entry, written):
        return False
    try:
        if node.op == "call_module":
            module = module_of(entry, node)
            others = [source for source in node.all_input_nodes if source not in rows]
            extra = [value for value in [*node.args[1:], *node.kwargs.values()] if value is not None]
            flat = [source for source in node.all_input_nodes if len(source.meta["shape"]) < 2]
            return module_is_row_local(module) and not others and not extra and not flat
        return call_is_row_local(node, lambda value: value in rows if isinstance(value, fx.Node) else False)
    except (
        IndexError,
        KeyError,
        TypeError,
        ValueError,
    ):  # arguments given in another way than the list knows
        return False


def _measure_depths(graph: fx.Graph, sets: RowSets) -> None:
    """Backwards: what an operation needs of its inputs is what is needed of it, and a layer reaches its hops further."""
    for node in reversed(graph.nodes):
        if node.op == "output":
            needed = dict.fromkeys(node.all_input_nodes, 0)
        elif node in sets.depth or node in sets.left:
            depth = sets.depth.get(node, 0)
            site = sets.sites.get(node)
            reach = site.num_hops if site is not None else 0
            needed = dict.fromkeys(node.all_input_nodes, depth + reach)
            if site is not None and site.x_0 is not None and site.x_0 is not site.x:
                needed[site.x_0] = depth
        else:
            continue
        for source, depth in needed.items():
            if source in sets.rows:
                sets.depth[source] = max(sets.depth.get(source, 0), depth)
