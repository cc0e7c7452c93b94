"""From a model and its inputs to a FastModel: traced where it can be, guarded layers everywhere else."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch_geometric.nn import MessagePassing

from fasthop.graph.csr import CSR
from fasthop.graph.note import Note
from fasthop.kernels.sparse_linear.features import SparseFeatures
from fasthop.rewrites.exact.constant import Constant
from fasthop.rewrites.exact.fast_model import FastModel
from fasthop.rewrites.exact.guarded_layer import GuardedLayer
from fasthop.rewrites.exact.known import Known, KnownGraph
from fasthop.rewrites.exact.options import ExactOptions
from fasthop.rewrites.exact.order import NodeOrder
from fasthop.rewrites.exact.program import Program, build_program
from fasthop.rewrites.exact.row_sets import RowSets, analyse
from fasthop.rewrites.exact.trace import Untraceable, trace
from fasthop.rewrites.layers.covered import fast_layer, refusal
from fasthop.rewrites.structure import copy_sharing, message_passing_layers, replace_modules


@dataclass(kw_only=True, eq=False)
class Built:
    """A fast model and what was found on the way.

    left: why each layer that is left as it is stays so, by its path. untraceable: why there is no program.
    mixes: why rows cannot be cut or reordered. acted: the names of the rungs that changed what was computed, known after
    `observe`. num_hops: how far a row of the output reaches.
    """

    model: FastModel
    options: ExactOptions
    left: dict[str, Note] = field(default_factory=dict)
    covered: tuple[str, ...] = ()
    untraceable: Note | None = None
    mixes: Note | None = None
    order: NodeOrder
    num_hops: int = 0
    program: Program | None = None
    acted: set[str] = field(default_factory=set)

    def observe(self, *inputs: Tensor) -> None:
        """Runs the model once as the loop will, and notes which rungs acted. Buffers and generators are put back."""
        model = self.model.original
        buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
        with torch.no_grad(), torch.random.fork_rng(devices=_devices(model)):
            self.model(*inputs)
            for buffer, before in buffers:
                buffer.copy_(before)
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
    The model is in train mode with all parameters in their places; it is left as it is.
    """
    num_nodes = x.size(0)
    layers = message_passing_layers(model)
    left = {path: reason for path, layer in layers.items() if (reason := refusal(layer)) is not None}
    csr = CSR.from_edge_index(edge_index.long(), num_nodes)
    weighted = edge_weight is not None

    left_at_calls: dict[str, Note] = {}
    untraceable: Note | None = None
    sets = RowSets()
    traced = None
    try:
        traced = trace(copy_sharing(model), weighted=weighted)
        sets = analyse(*traced, options)
        left_at_calls = {str(node.target).removeprefix("model."): why for node, why in sets.left.items()}
    except Untraceable as error:
        untraceable = error.reason

    acted: set[str] = set()
    order = NodeOrder.whole(csr)
    if traced is not None and sets.mixes is None:
        if options.receptive_field and train_mask is not None:
            order = NodeOrder.shells(csr, train_mask, sets.num_hops, locality=options.reorder_nodes)
        elif options.reorder_nodes:
            order = NodeOrder.whole(csr, locality=True)
    program = None
    if traced is not None:
        known = KnownGraph(edge_index, edge_weight, order, use_spmm=options.csr_spmm, acted=acted)
        constant = arranged_constant(x, order, sets.num_hops, options, acted)
        program = build_program(*traced, sets, known, constant, options, (edge_index, edge_weight))
    general = _guarded(model, x, edge_index, edge_weight, csr, options, left, acted)
    fast = FastModel(
        model,
        general,
        program,
        x=Known(x),
        edge_index=Known(edge_index),
        edge_weight=None if edge_weight is None else Known(edge_weight),
    )
    return Built(
        model=fast,
        options=options,
        left=left | left_at_calls,
        covered=tuple(path for path in layers if path not in left | left_at_calls),
        untraceable=untraceable,
        mixes=sets.mixes,
        order=order,
        num_hops=sets.num_hops,
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

    general = copy_sharing(model)

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
