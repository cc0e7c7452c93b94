"""Every dropout of torch, PyG and fasthop is the identity inside dropout_off, and itself again outside."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn import GATConv

from fasthop.kernels.segment_softmax import attention
from fasthop.kernels.sparse_linear.features import SparseFeatures
from fasthop.verify.intercept import dropout_off
from tests.verify.models import adjacency, data

FORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "F.dropout": lambda x: F.dropout(x, 0.5),
    "F.dropout by name": lambda x: F.dropout(input=x, p=0.5, training=True),
    "F.dropout in place": lambda x: F.dropout(x.clone(), 0.5, True, True),
    "F.dropout1d": F.dropout1d,
    "F.dropout2d": lambda x: F.dropout2d(x[None])[0],
    "F.dropout3d": lambda x: F.dropout3d(x[None, None])[0, 0],
    "F.alpha_dropout": lambda x: F.alpha_dropout(x, 0.5, True),
    "F.feature_alpha_dropout": lambda x: F.feature_alpha_dropout(x, 0.5, True),
    "torch.dropout": lambda x: torch.dropout(x, 0.5, True),
    "torch.dropout_": lambda x: torch.dropout_(x.clone(), 0.5, True),
    "torch.native_dropout": lambda x: torch.native_dropout(x, 0.5, True)[0],
    "torch.feature_dropout": lambda x: torch.feature_dropout(x, 0.5, True),
    "torch.feature_dropout_": lambda x: torch.feature_dropout_(x.clone(), 0.5, True),
    "torch.alpha_dropout_": lambda x: torch.alpha_dropout_(x.clone(), 0.5, True),
    "nn.Dropout": torch.nn.Dropout(0.5),
    "nn.Dropout in place": lambda x: torch.nn.Dropout(0.5, inplace=True)(x.clone()),
    "nn.Dropout1d": torch.nn.Dropout1d(0.5),
    "nn.AlphaDropout": torch.nn.AlphaDropout(0.5),
    "nn.FeatureAlphaDropout": torch.nn.FeatureAlphaDropout(0.5),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_dropout_is_the_identity_inside_and_itself_outside(form):
    torch.manual_seed(0)
    x = torch.randn(6, 5, 4)
    with dropout_off():
        assert torch.equal(FORMS[form](x), x)
    assert not torch.equal(FORMS[form](x), x)
    with pytest.raises(KeyError), dropout_off():
        raise KeyError
    assert not torch.equal(FORMS[form](x), x)


def test_what_comes_back_is_a_copy_unless_it_is_in_place():
    x = torch.ones(3)
    with dropout_off():
        F.dropout(x, 0.5).mul_(2)
        assert torch.equal(x, torch.ones(3))
        kept = F.dropout(x, 0.5, True, True)
        assert kept is x
        assert torch.dropout_(x, 0.5, True) is x
        assert torch.nn.Dropout(0.5, inplace=True)(x) is x


def test_gradients_pass_through():
    x = torch.randn(4, 3, requires_grad=True)
    with dropout_off():
        F.dropout(x * 3, 0.5).sum().backward()
    assert torch.equal(x.grad, torch.full((4, 3), 3.0))


MODULES: dict[str, Callable[[], tuple[torch.nn.Module, tuple[Tensor, ...]]]] = {
    "attention": lambda: (torch.nn.MultiheadAttention(4, 2, dropout=0.5), (torch.randn(5, 2, 4),) * 3),
    "encoder": lambda: (torch.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.5), (torch.randn(5, 2, 4),)),
    "lstm": lambda: (torch.nn.LSTM(3, 4, 2, dropout=0.5), (torch.randn(5, 2, 3),)),
    "gru": lambda: (torch.nn.GRU(3, 4, 2, dropout=0.5), (torch.randn(5, 2, 3),)),
    "gat": lambda: (GATConv(7, 4, heads=2, dropout=0.5), (data().x, data().edge_index)),
}


@pytest.mark.parametrize("name", MODULES)
def test_dropout_inside_larger_functions_is_off_and_train_mode_stays(name):
    torch.manual_seed(0)
    module, inputs = MODULES[name]()

    def out() -> Tensor:
        result = module(*inputs)
        return result[0] if isinstance(result, tuple) else result

    with dropout_off():
        first, second = out(), out()
        assert module.training
    assert torch.equal(first, second)
    assert not torch.equal(out(), first)
    module.eval()
    assert torch.allclose(out(), first, atol=1e-6)


def test_a_packed_sequence_is_taken():
    packed = torch.nn.utils.rnn.pack_sequence([torch.randn(4, 3), torch.randn(2, 3)])
    lstm = torch.nn.LSTM(3, 4, 2, dropout=0.5)
    with dropout_off():
        assert torch.equal(lstm(packed)[0].data, lstm(packed)[0].data)


def test_attention_by_its_own_function_is_off_however_it_is_called():
    q = torch.randn(5, 2, 4)
    with dropout_off():
        plain = F.scaled_dot_product_attention(q, q, q)
        assert torch.equal(F.scaled_dot_product_attention(q, q, q, dropout_p=0.5), plain)
        assert torch.equal(F.scaled_dot_product_attention(q, q, q, None, 0.5), plain)


def test_the_kernels_own_dropouts_are_off():
    graph = data()
    matrix = adjacency(graph.edge_index, graph.x.size(0))
    z, a = torch.randn(60, 1, 4), torch.randn(60, 1)
    features = SparseFeatures.from_tensor(graph.x)
    with dropout_off():
        assert torch.equal(attention.gat(matrix, z, a, a, dropout=0.5), attention.gat(matrix, z, a, a))
        values = features.dropout(0.5).values(torch.float32)[0]
    assert torch.equal(values, features.values(torch.float32)[0])
    assert not torch.equal(attention.gat(matrix, z, a, a, dropout=0.5), attention.gat(matrix, z, a, a))


def test_other_random_numbers_are_left_alone():
    with dropout_off():
        assert not torch.equal(torch.rand(4), torch.rand(4))
