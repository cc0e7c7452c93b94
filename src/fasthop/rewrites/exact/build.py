"""From a model and its inputs to a FastModel: traced where it can be, guarded layers everywhere else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import MessagePassing

from fasthop.errors import InvalidGraph
from fasthop.graph.csr import CSR
from fasthop.graph.note import Note, note
from fasthop.kernels.sparse_linear.features import SparseFeatures
from fasthop.rewrites.exact.attributes import kept_attributes
from fasthop.rewrites.exact.constant import Constant
from fasthop.rewrites.exact.fast_model import FastModel
from fasthop.rewrites.exact.guarded_layer import GuardedLayer
from fasthop.rewrites.exact.known import Known, KnownGraph
from fasthop.rewrites.exact.options import ExactOptions
from fasthop.rewrites.exact.order import NodeOrder
from fasthop.rewrites.exact.program import Program, build_program
from fasthop.rewrites.exact.rehearsal import rehearse
from fasthop.rewrites.exact.row_sets import RowSets, analyse
from fasthop.rewrites.exact.trace import Untraceable, random_states, restore, trace
from fasthop.rewrites.layers.covered import fast_layer, refusal
from fasthop.rewrites.structure import copy_sharing, message_passing_layers, replace_modules
from fasthop.train.compiled import first_line


@dataclass(kw_only=True, eq=False)
class Built:
    """A fast model and what was found on the way.

    left: why each layer that is left as it is stays so, by its path. untraceable: why there is no program.
    mixes: why rows cannot be cut or reordered. acted: the names of the rungs that changed what was computed, known after
    `observe`. num_hops: how far a row of the output reaches. weighted: whether edge
    weights are handed to the model.
    """

    model: FastModel
    options: ExactOptions
    left: dict[str, Note] = field(default_factory=dict)
    covered: tuple[str, ...] = ()
    untraceable: Note | None = None
    mixes: Note | None = None
    order: NodeOrder
    num_hops: int = 0
    weighted: bool = False
    program: Program | None = None
    acted: set[str] = field(default_factory=set)

    def observe(self, *inputs: Tensor) -> None:
        """Runs the model once as the loop will, and notes which rungs acted. The model and generators are left as they were."""
        model = self.model.original
        buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
        modes = [(part, part.training) for part in model.modules()]
        states = random_states()
        try:
            with torch.no_grad(), torch.random.fork_rng(devices=_devices(model)), kept_attributes(model):
                if not model.training:
                    model.train()
                self.model(*inputs)
        finally:
            restore(states)
            for part, training in modes:
                part.training = training
            with torch.no_grad():
                for buffer, before in buffers:
                    buffer.copy_(before)
            self.model.renew()
        if self.program is not None and not self.order.is_whole:
            self.acted.add("receptive_field")
        if self.options.reorder_nodes and self.order.n_id is not None:
            self.acted.add("reorder_nodes")
        if self.options.csr_spmm and self.covered:
            self.acted.add("csr_spmm")


def build_fast_model(
    model: torch.nn.Module,
    *,
    x: Tensor,
    edge_index: Tensor,
    edge_weight: Tensor | None,
    train_mask: Tensor | None,
    options: ExactOptions,
) -> Built:
    """The FastModel of `model` for exactly these inputs, and what was found on the way.

    train_mask: the rows that the loss reads, for the rung `receptive_field`. edge_weight: None where the loop gives none.
    The model is left as it is; in whichever mode it is now, it is train mode that is prepared. Raises InvalidGraph unless
    edge_weight has one number an edge.
    """
    if isinstance(model, FastModel):
        model = model.original
    states = random_states()
    num_nodes = x.size(0)
    layers = message_passing_layers(model)
    left = {path: reason for path, layer in layers.items() if (reason := refusal(layer)) is not None}
    _check_weight(edge_weight, edge_index)
    csr = CSR.from_edge_index(edge_index.long(), num_nodes)
    acted: set[str] = set()
    order = NodeOrder.whole(csr)
    sets, program, untraceable, copies = RowSets(), None, None, True
    try:
        if not options.names:
            raise Uncopied(note("no rung is in use.", "没有启用任何优化。"))
        twin = _copied(model)
        # A model that is in eval mode now will be trained in train mode.
        twin = twin if model.training else twin.train()
        entry, graph = trace(twin, weighted=edge_weight is not None)
        sets = analyse(entry, graph, options, rehearse(entry, graph, x, edge_index, edge_weight))
        chosen = _order(csr, sets, train_mask, options)
        known = KnownGraph(edge_index, edge_weight, chosen, use_spmm=options.csr_spmm, acted=acted)
        constant = arranged_constant(x, chosen, sets.num_hops, options, acted)
        program = build_program(
            entry,
            graph,
            sets,
            known,
            constant,
            options,
            (edge_index, edge_weight),
            is_sparse=x.layout != torch.strided,
        )
        order = chosen
    except Untraceable as error:
        untraceable, copies = error.reason, not isinstance(error, Uncopied)
    if not copies and untraceable is not None:
        left = dict.fromkeys(layers, untraceable)
    left_at_calls = {_path(node.target): why for node, why in sets.left.items()}
    general = model
    if copies:
        general = _guarded(model, x, edge_index, edge_weight, csr, options, left, acted)
    fast = FastModel(
        model,
        general,
        program,
        x=Known(x),
        edge_index=Known(edge_index),
        edge_weight=None if edge_weight is None else Known(edge_weight),
        rows=None if order.is_whole or order.n_id is None else order.n_id[: order.size(0)],
    )
    restore(states)  # copying a model may draw, too: PyG's Sequential does
    return Built(
        model=fast,
        options=options,
        left=left | left_at_calls,
        covered=tuple(path for path in layers if path not in left | left_at_calls),
        untraceable=untraceable,
        mixes=sets.mixes,
        order=order,
        num_hops=sets.num_hops,
        weighted=edge_weight is not None,
        program=program,
        acted=acted,
    )


def arranged_constant(
    x: Tensor, order: NodeOrder, depth: int, options: ExactOptions, acted: set[str]
) -> Constant:
    """The input in the program's order, as many rows as it reads."""
    keeps = options.first_hop
    x = x.detach()
    n_id = order.n_id
    if x.layout == torch.strided and n_id is None:
        return Constant.of(x, by_non_zeros=options.sparse_features, keeps_products=keeps, acted=acted)
    if x.layout == torch.strided and n_id is not None:
        return Constant.arranged(
            lambda num_rows: x.index_select(0, n_id[:num_rows]),
            (order.size(depth), x.size(1)),
            dtype=x.dtype,
            by_non_zeros=options.sparse_features,
            keeps_products=keeps,
            acted=acted,
        )
    arranged = x.to_sparse_coo()
    if order.n_id is not None:
        arranged = arranged.index_select(0, order.n_id[: order.size(depth)])
    if not options.sparse_features:
        return Constant(dense=arranged.to_dense(), dtype=x.dtype, keeps_products=keeps, acted=acted)
    return Constant(
        sparse=SparseFeatures.from_tensor(arranged), dtype=x.dtype, keeps_products=keeps, acted=acted
    )


class Uncopied(Untraceable):
    """Not even a copy of the model's structure can be made."""


def _copied(model: torch.nn.Module) -> torch.nn.Module:
    if any(torch.nn.parameter.is_lazy(parameter) for parameter in model.parameters()):
        raise Uncopied(
            note(
                "it has parameters without a shape yet; run the model once before.",
                "它还有未确定形状的惰性参数；请先运行一次模型。",
            )
        )
    try:
        return copy_sharing(model)
    except Exception as error:  # a lock, an open file: what a user's module may hold is not to be listed
        reason = first_line(error)
        raise Uncopied(note(f"it cannot be copied ({reason}).", f"它无法复制（{reason}）。")) from error


def _check_weight(edge_weight: Tensor | None, edge_index: Tensor) -> None:
    """Raises InvalidGraph unless there is one weight an edge: [E] or [E, 1]."""
    if edge_weight is None:
        return
    num_edges = edge_index.size(1)
    if edge_weight.shape not in ((num_edges,), (num_edges, 1)):
        raise InvalidGraph(
            f"edge_weight has one number for each of the {num_edges} edges, and got the shape {list(edge_weight.shape)}. "
            "Edge features of several numbers are not edge weights."
        )


def _order(csr: CSR, sets: RowSets, train_mask: Tensor | None, options: ExactOptions) -> NodeOrder:
    if sets.mixes is None and options.receptive_field and train_mask is not None:
        return NodeOrder.shells(csr, train_mask, sets.num_hops, locality=options.reorder_nodes)
    return NodeOrder.whole(csr, locality=sets.mixes is None and options.reorder_nodes)


def _path(target: Any) -> str:
    """Of a call in the trace, below the user's model."""
    return str(target).removeprefix("model").removeprefix(".")


def _guarded(
    model: torch.nn.Module,
    x: Tensor,
    edge_index: Tensor,
    edge_weight: Tensor | None,
    csr: CSR,
    options: ExactOptions,
    left: dict[str, Note],
    acted: set[str],
) -> torch.nn.Module:
    graphs: list[KnownGraph] = []
    constants: dict[bool, Constant] = {}
    known_x = Known(x)

    def prepared() -> KnownGraph:
        if not graphs:
            kept = KnownGraph(
                edge_index, edge_weight, NodeOrder.whole(csr), use_spmm=options.csr_spmm, acted=acted
            )
            graphs.append(kept)
        return graphs[0]

    general = copy_sharing(model, share_attributes=True)

    def constant_of(value: Tensor) -> Constant | None:
        if not known_x.is_it(value):
            return None
        # Kept products of all nodes would stay beside the program's; an evaluation now and then does not need them.
        keeps = options.first_hop and general.training
        if keeps not in constants:
            chosen = ExactOptions.of(*(n for n in options.names if n != "first_hop" or keeps))
            constants[keeps] = arranged_constant(x, NodeOrder.whole(csr), 0, chosen, acted)
        return constants[keeps]

    def guard(path: str, layer: MessagePassing) -> torch.nn.Module | None:
        if path in left:
            return None
        fast = fast_layer(layer, options)
        fast.acted = acted
        return GuardedLayer(layer, fast, prepared, constant_of)

    return replace_modules(general, guard)


def _devices(model: torch.nn.Module) -> list[torch.device]:
    return list({p.device for p in model.parameters() if p.device.type == "cuda"})
