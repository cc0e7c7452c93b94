"""Batches whose memory is used again are never overwritten under anyone's eyes."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import SAGEConv

from fasthop.train.neighbor_loader import NeighborLoader
from tests.kernels.graphs import random_edges


def make_data(num_nodes: int = 4000) -> Data:
    torch.manual_seed(0)
    return Data(
        x=torch.randn(num_nodes, 16),
        edge_index=random_edges(num_nodes, 20_000, 3),
        y=torch.arange(num_nodes),
        edge_weight=torch.rand(20_000),
    )


@pytest.mark.parametrize("num_threads", [0, 2])
@pytest.mark.parametrize("reuse_buffers", [True, False])
def test_a_list_of_all_batches_is_right(num_threads, reuse_buffers):
    data = make_data()
    loader = NeighborLoader(
        data, [4, 4], batch_size=200, num_threads=num_threads, reuse_buffers=reuse_buffers
    )
    for batch in loader:  # so that there are used buffers to go wrong with
        assert batch.num_nodes > 200
    batches = list(loader)
    assert len({b.x.data_ptr() for b in batches}) == 20
    for number, batch in enumerate(batches):
        assert torch.equal(batch.n_id[:200], torch.arange(200 * number, 200 * number + 200))
        assert torch.equal(batch.x, data.x[batch.n_id])
        assert torch.equal(batch.y, batch.n_id)
        assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
        assert torch.equal(batch.edge_weight, data.edge_weight[batch.e_id])


def test_memory_is_used_again_in_a_plain_loop():
    loader = NeighborLoader(make_data(), [4, 4], batch_size=200)
    places = [batch.x.data_ptr() for _ in range(3) for batch in loader]
    assert len(set(places[5:])) == 2


@pytest.mark.parametrize("num_threads", [0, 2])
def test_gradients_of_losses_kept_over_batches(num_threads):
    """Gradient accumulation: the backward pass of all batches reads what the first ones saved."""
    data = make_data()
    gradients = []
    for reuse_buffers in (True, False):
        torch.manual_seed(1)
        conv = SAGEConv(16, 4)
        loader = NeighborLoader(
            data, [3], batch_size=500, num_threads=num_threads, reuse_buffers=reuse_buffers
        )
        losses = [conv(b.x, b.edge_index)[: b.batch_size].pow(2).sum() for b in loader]
        torch.stack(losses).sum().backward()
        gradients.append([p.grad for p in conv.parameters()])
    for reused, fresh in zip(*gradients, strict=True):
        assert torch.equal(reused, fresh)


def test_a_slice_that_outlives_its_batch():
    data = make_data()
    kept = [b.x[: b.batch_size] for b in NeighborLoader(data, [4], batch_size=100)]
    assert torch.equal(torch.cat(kept), data.x)
