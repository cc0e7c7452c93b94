"""Which rows of each value the output needs: how many hops a value lies below the output, or why that cannot be said."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx.node import map_arg
from torch_geometric.nn import MLP

from fasthop.graph.note import Note, note
from fasthop.rewrites.exact.call import read_call
from fasthop.rewrites.exact.row_local import call_is_row_local, module_is_row_local, num_dims_after
from fasthop.rewrites.exact.trace import Entry, module_of, name_of
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


def analyse(entry: Entry, graph: fx.Graph, options: Any) -> RowSets:
    """The sites, the values of rows and their depths; see RowSets."""
    inputs = Placeholders.of(graph)
    sets = RowSets(rows={inputs.x})
    dims: dict[fx.Node, int | None] = {inputs.x: 2}
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
            dims[node] = 2
            continue
        sources = node.all_input_nodes
        if not any(
            source in sets.rows or source in (inputs.edge_index, inputs.edge_weight) for source in sources
        ):
            _evaluate(entry, node)
            continue
        if _touches_graph(node, inputs):
            sets.mixes = sets.mixes or note(
                f"its forward computes with the edges themselves ({name_of(entry, node)}).",
                f"其 forward 直接用边参与计算（{name_of(entry, node)}）。",
            )
            continue
        if node.target is operator.getitem and node.args[0] in pairs and isinstance(node.args[1], int):
            dims[node] = dims.get(node.args[0])
        elif not _row_local(entry, node, dims, sets.rows, pairs):
            sets.mixes = sets.mixes or note(
                f"{name_of(entry, node)} is not known to leave the nodes' rows apart.",
                f"{name_of(entry, node)} 可能混合不同节点的行。",
            )
        else:
            first = next(source for source in sources if source in sets.rows)
            before = dims.get(first)
            dims[node] = before if node.op == "call_module" else num_dims_after(node, before)
            if node.target in PAIRS:
                pairs.add(node)
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


def _row_local(
    entry: Entry, node: fx.Node, dims: dict[fx.Node, int | None], rows: set[fx.Node], pairs: set[fx.Node]
) -> bool:
    if any(source in pairs for source in node.all_input_nodes):
        return False
    if node.op == "call_module":
        module = module_of(entry, node)
        # Written over in place, a value that others read as well would be cut to the rows of one reader.
        if getattr(module, "inplace", False) and any(
            len(source.users) > 1 for source in node.all_input_nodes
        ):
            return False
        others = [source for source in node.all_input_nodes if source not in rows]
        extra = [value for value in [*node.args[1:], *node.kwargs.values()] if value is not None]
        return module_is_row_local(module) and not others and not extra
    return call_is_row_local(
        node, lambda value: dims.get(value) if isinstance(value, fx.Node) else None, lambda value: value in rows
        if isinstance(value, fx.Node) else False
    )  # fmt: skip


def _evaluate(entry: Entry, node: fx.Node) -> None:
    """The shape of a value that is made of parameters only, such as a learned scale."""
    try:
        with torch.no_grad():
            if node.op == "get_attr":
                value = operator.attrgetter(str(node.target))(entry)
            else:
                inputs = {source: source.meta["value"] for source in node.all_input_nodes}
                args = map_arg(node.args, lambda source: inputs[source])
                kwargs = map_arg(node.kwargs, lambda source: inputs[source])
                if node.op == "call_function":
                    assert callable(node.target)
                    value = node.target(*args, **kwargs)
                elif node.op == "call_method":
                    value = getattr(args[0], str(node.target))(*args[1:], **kwargs)
                else:
                    return
    except Exception:  # what cannot be computed has no shape, and then nothing is said of it
        return
    node.meta["value"] = value
    if isinstance(value, Tensor):
        node.meta["shape"] = tuple(value.shape)


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
