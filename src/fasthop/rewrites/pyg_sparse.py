"""The rung `pyg_sparse`: what PyG itself offers, a sparse matrix in the place of edge_index."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.utils import to_torch_csr_tensor

from fasthop.exactness import Exactness
from fasthop.graph.graph import Graph
from fasthop.graph.note import Note, note
from fasthop.noise import silence
from fasthop.rewrites.base import Inapplicable, Rung, Words
from fasthop.train.batching import Batch, FullBatch
from fasthop.train.mode import evaluating
from fasthop.train.setup import Setup

# Outputs and gradients against the edge_index form, relative to the largest entry: summing in another order
# leaves about 1e-6 in float32, a self-loop counted twice 1e-1.
TOLERANCE = 1e-4


@dataclass(frozen=True, kw_only=True)
class PygSparse(Rung):
    """PyG's own sparse path: `adj_t` as torch.sparse CSR, else PyG's EdgeIndex.

    form: "auto" takes the first that gives the numbers of edge_index, "adj_t" or "edge_index_class".
    PyG's paths are not the same in every corner: with adj_t a GCN adds a second self-loop where the graph has
    one, and merged parallel edges change a mean. So outputs and gradients are compared first.
    """

    name = "pyg_sparse"
    exactness = Exactness.REASSOCIATED
    words = {  # noqa: RUF012
        "en": Words(
            title="PyG's sparse matrices",
            does="The graph is handed to the layers as adj_t, a sparse matrix, in the place of edge_index; they then aggregate "
            "by one sparse-dense product.",
            why="No tensor of edges x channels is written and read again.",
            costs="The conversion, once. Layers that need a message an edge do not profit.",
        ),
        "zh": Words(
            title="PyG 自带的稀疏矩阵",
            does="用稀疏矩阵 adj_t 代替 edge_index 传给各层，聚合变成一次稀疏—稠密矩阵乘法。",
            why="不必再写出并读回“边数 × 通道数”的消息张量。",
            costs="只需转换一次。必须逐边计算消息的层得不到好处。",
        ),
    }

    form: str = "auto"

    def check(self, setup: Setup) -> Note | None:
        if not isinstance(setup.batches, FullBatch):
            return note("It changes the form of the full batch's graph only.", "它只改变全批次图的存储形式。")
        if setup.compiled is not None:
            return note("It comes before compilation.", "它必须在编译之前应用。")
        return None

    def apply(self, setup: Setup) -> Setup:
        assert isinstance(setup.batches, FullBatch)
        batch = setup.batches.batch
        want = _numbers(setup, batch)
        failures: list[str] = []
        for form, build in FORMS.items():
            if self.form not in ("auto", form):
                continue
            try:
                with warnings.catch_warnings():
                    silence()
                    edges, weight = build(setup.task.graph, batch.edge_weight)
                    other = dataclasses.replace(batch, edges=edges, edge_weight=weight)
                    error = _largest_error(want, _numbers(setup, other))
            except Exception as failure:  # a layer may raise anything at all on a form that it does not know
                text = str(failure).splitlines()[0] if str(failure) else type(failure).__name__
                failures.append(f"{form}: {text}")
                continue
            if error <= TOLERANCE:
                return dataclasses.replace(setup, batches=FullBatch(other))
            failures.append(f"{form}: {error:.2g}")
        found = "; ".join(failures)
        raise Inapplicable(
            note(
                f"No sparse form gives the numbers of edge_index with this model and graph ({found}).",
                f"对此模型和图，没有一种稀疏形式能给出与 edge_index 相同的数值（{found}）。",
            )
        )


def _adj_t(graph: Graph, edge_weight: Tensor | None) -> tuple[Tensor, None]:
    size = (graph.num_nodes, graph.num_nodes)
    value = edge_weight
    if value is None and graph.x is not None:
        # PyG's default values are float32, which a product with features of another dtype refuses.
        value = torch.ones(graph.num_edges, dtype=graph.x.dtype, device=graph.x.device)
    return to_torch_csr_tensor(graph.edge_index.long().flip(0), value, size=size), None


def _edge_index_class(graph: Graph, edge_weight: Tensor | None) -> tuple[Tensor, Tensor | None]:
    # Sorted by target, which is what the product over incoming edges reads.
    order = graph.csr.e_id.long()
    size = (graph.num_nodes, graph.num_nodes)
    edges = EdgeIndex(graph.edge_index.long()[:, order], sparse_size=size, sort_order="col")  # pyright: ignore[reportCallIssue]
    edges.fill_cache_()
    return edges, None if edge_weight is None else edge_weight[order]


FORMS: dict[str, Callable[[Graph, Tensor | None], tuple[Tensor, Tensor | None]]] = {
    "adj_t": _adj_t,
    "edge_index_class": _edge_index_class,
}


def _numbers(setup: Setup, batch: Batch) -> list[Tensor]:
    """The output on every node and the gradient of every parameter, in eval mode."""
    parameters = [p for p in setup.model.parameters() if p.requires_grad]
    with evaluating(setup.model):
        out = setup.forward(batch)
        loss = setup.task.loss(batch.select(out), batch.labels())
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True) if parameters else ()
    return [out.detach(), *(torch.zeros(()) if g is None else g for g in gradients)]


def _largest_error(want: list[Tensor], got: list[Tensor]) -> float:
    worst = 0.0
    for a, b in zip(want, got, strict=True):
        if a.shape != b.shape:
            return float("inf")
        if a.numel() == 0:
            continue
        error = (a - b).abs().max().item() / max(a.abs().max().item(), 1e-12)
        worst = max(worst, error if error == error else float("inf"))
    return worst
