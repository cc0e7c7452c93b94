"""The rung `sample`: neighbour-sampled mini-batches, section 2 of the tutorial."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch
from torch_geometric.data import Data

from fasthop.errors import NotApplicable
from fasthop.exactness import Exactness
from fasthop.graph.note import Note, note
from fasthop.rewrites.base import Inapplicable, Rung, Words
from fasthop.rewrites.sampled_layers import correct, num_hops
from fasthop.rewrites.structure import copy_sharing, message_passing_layers
from fasthop.train.batch_weights import BatchWeights
from fasthop.train.batching import FullBatch, SampledBatches, arguments_of
from fasthop.train.mode import evaluating
from fasthop.train.presented import attributes_of
from fasthop.train.setup import Setup

# How far the seeds' outputs with all neighbours may be from the full batch's, relative to the largest
# output. float32 reassociation leaves about 1e-6 here; a layer that uses the subgraph's degrees leaves 0.1 and more.
TOLERANCE = 1e-4
NUM_CHECKED_SEEDS = 8


@dataclass(frozen=True, kw_only=True)
class Sample(Rung):
    """Mini-batches of `batch_size` training nodes with sampled neighbours (Hamilton et al. 2017).

    num_neighbors: fan-out a hop, -1 for all; None is 10, then 5 for every further hop of the model.
    """

    name = "sample"
    exactness = Exactness.STATISTICAL
    words = {  # noqa: RUF012
        "en": Words(
            title="neighbour-sampled mini-batches",
            does="Each step draws a few training nodes and a few neighbours of each, hop by hop, and trains on that "
            "small graph alone. Layers that normalise or sum get weights that keep the sums unbiased.",
            why="Work and memory of a step depend on the batch and the fan-out, no longer on the size of the graph; "
            "and an epoch makes several steps instead of one.",
            costs="Sampling and gathering take time on every batch, and the gradient is noisier. On a small "
            "graph, where the whole of it fits into the cache, this seldom pays.",
        ),
        "zh": Words(
            title="邻居采样小批量",
            does="每一步只抽取少量训练节点，再逐跳抽取它们的少量邻居，只在这个小图上训练。需要归一化或求和的层会拿到保证求和无偏的权重。",
            why="每一步的计算量和内存只取决于批大小与扇出，不再取决于图的规模；一个 epoch 里也能更新多次参数。",
            costs="每个批次都要花时间采样和取特征，梯度噪声也更大。小图整个都能放进缓存，这时采样很少划算。",
        ),
    }

    num_neighbors: tuple[int, ...] | None = None
    batch_size: int = 128

    def check(self, setup: Setup) -> Note | None:
        if not isinstance(setup.batches, FullBatch):
            return note("The setup is in mini-batches already.", "该配置已经使用小批量。")
        if setup.compiled is not None:
            return note("Sampling comes before compilation.", "采样必须在编译之前应用。")
        weight = setup.batches.batch.edge_weight
        if weight is not None and weight.requires_grad:
            return note(
                "The edge weights require a gradient, and a sampled batch's weights are computed outside autograd.",
                "边权重需要梯度，而采样批次的权重是在自动求导之外计算的。",
            )
        layers = message_passing_layers(setup.model)
        if not layers:
            return note(
                "The model has no PyG layer, so that its hops are not known.",
                "模型里没有 PyG 的图层，无法知道它需要几跳邻居。",
            )
        for path, layer in layers.items():
            if layer.flow != "source_to_target":
                return note(
                    f"The layer {path!r} sends messages from target to source, and the sampler follows the edges "
                    "into a node.",
                    f"层 {path!r} 的消息从目标流向源，而采样器沿着指向节点的边采样。",
                )
        return None

    def apply(self, setup: Setup) -> Setup:
        assert isinstance(setup.batches, FullBatch)
        graph = setup.task.graph
        with_weight = setup.batches.batch.edge_weight is not None
        if graph.edge_weight is not None and not with_weight:
            # A model that is not handed the weights must not find them in the normalisation either.
            graph = dataclasses.replace(graph, edge_weight=None)
        hops = self.num_neighbors or (10,) + (5,) * (num_hops(setup.model) - 1)
        weights = BatchWeights(graph)
        model = correct(copy_sharing(setup.model), weights).train()
        setup_sampled = dataclasses.replace(
            setup,
            model=model,
            batches=SampledBatches(
                graph,
                num_neighbors=hops,
                batch_size=self.batch_size,
                device=setup.device,
                with_weight=with_weight,
                weights=weights,
                seed=0,
                attributes=attributes_of(setup.original),
            ),
        )
        _check_same(setup, setup_sampled, weights, len(hops))
        return setup_sampled


@torch.no_grad()
def _check_same(full: Setup, sampled: Setup, weights: BatchWeights, num_hops: int) -> None:
    """Raises Inapplicable where the seeds' outputs with all neighbours are not those of the full batch.

    This finds what no list of layers could: a model that reaches further than the fan-outs, that normalises
    by the degrees of the graph it is given, or that mixes rows (a mean over all nodes, a GraphNorm).
    """
    from fasthop.train.neighbor_loader import NeighborLoader

    graph = sampled.batches.graph  # type: ignore[attr-defined]
    assert graph.x is not None
    seeds = graph.train_mask.nonzero().view(-1)[:NUM_CHECKED_SEEDS]
    loader = NeighborLoader(graph, [-1] * num_hops, input_nodes=seeds, batch_size=len(seeds))
    data: Data = next(iter(loader))
    assert data.x is not None
    assert data.edge_index is not None
    edge_index = data.edge_index.to(full.device)
    batch = dataclasses.replace(
        FullBatch.of(graph, with_weight=False).batch,
        x=data.x.to(full.device),
        edges=edge_index,
        edge_weight=data.edge_weight.to(full.device) if full.batches.batch.edge_weight is not None else None,  # type: ignore[attr-defined]
        rows=len(seeds),
        arguments=arguments_of(data, sampled.batches.attributes, full.device),  # type: ignore[attr-defined]
    )
    weights.bind(data, edge_index)
    weights.probing = True
    buffers = [(buffer, buffer.clone()) for buffer in sampled.model.buffers()]
    try:
        # In eval mode: running statistics and dropout must not move the comparison.
        with evaluating(full.model, sampled.model):
            want = full.forward(full.batches.batch)[seeds]  # type: ignore[attr-defined]
            got = batch.select(sampled.forward(batch))
        # In train mode once more, for models that drop edges then; only that check is asked here.
        sampled.forward(batch)
    except NotApplicable as error:
        raise Inapplicable(
            note(f"Sampling would be wrong here: {error}.", f"在此采样会得到错误结果：{error}。")
        ) from None
    except (IndexError, RuntimeError, TypeError, ValueError) as error:
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise Inapplicable(
            note(f"The model does not run on a sampled batch: {text}", f"模型无法在采样批次上运行：{text}")
        ) from None
    finally:
        weights.probing = False
        for buffer, before in buffers:
            buffer.copy_(before)
    if not bool(want.isfinite().all()):
        raise Inapplicable(
            note(
                "The model's outputs on the full batch are not all finite, so that sampled ones cannot be held against "
                "them; edge weights that are negative make a GCN's normalisation so.",
                "模型在全批次上的输出不全是有限值，无法据以核对采样的输出；负的边权会使 GCN 的归一化如此。",
            )
        )
    scale = max(want.abs().max().item(), 1e-12)
    error = (got - want).abs().max().item() / scale
    if not error <= TOLERANCE:
        raise Inapplicable(
            note(
                f"With all neighbours of {num_hops} hops the seeds' outputs differ from the full batch's by {error:.2g} of the "
                "largest output: the model reaches further than the fan-outs, uses the degrees of the graph it is given, or "
                "mixes rows over the whole graph.",
                f"取 {num_hops} 跳的全部邻居时，种子节点的输出与全批次相差最大输出的 {error:.2g}：模型的感受野超出了采样跳数，"
                "或使用了所给子图的度数，或跨全图混合了各行。",
            )
        )
