"""The switch of fasthop's own dropouts."""

from __future__ import annotations

import threading

import pytest
import torch

from fasthop.kernels.dropout import dropout_is_on, without_dropout
from fasthop.kernels.segment_softmax.attention import gat
from fasthop.kernels.sparse_linear.features import SparseFeatures
from fasthop.kernels.spmm.adjacency import Adjacency


def test_it_is_on_unless_switched_off_and_comes_back_after_an_error():
    assert dropout_is_on()
    with pytest.raises(KeyError), without_dropout():  # noqa: PT012
        assert not dropout_is_on()
        raise KeyError
    assert dropout_is_on()
    with without_dropout(), without_dropout():
        pass
    assert dropout_is_on()


def test_other_threads_go_on_dropping():
    seen = []
    with without_dropout():
        thread = threading.Thread(target=lambda: seen.append(dropout_is_on()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_sparse_features_are_left_whole():
    features = SparseFeatures.from_tensor(torch.eye(30))
    with without_dropout():
        assert features.dropout(0.5) is features
    assert features.dropout(0.5) is not features


def test_attention_keeps_every_entry():
    adj = Adjacency(rowptr=torch.tensor([0, 4, 6]), col=torch.tensor([0, 1, 2, 3, 0, 2]), num_cols=4)
    x, a_src, a_dst = torch.randn(4, 2, 3), torch.randn(4, 2), torch.randn(2, 2)
    with without_dropout():
        switched_off = gat(adj, x, a_src, a_dst, dropout=0.9)
    assert torch.equal(switched_off, gat(adj, x, a_src, a_dst))
    assert not torch.equal(switched_off, gat(adj, x, a_src, a_dst, dropout=0.9, seed=1))
