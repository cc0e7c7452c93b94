from __future__ import annotations

import pytest
import torch
from torch.nn import BatchNorm1d, Dropout, Linear, ReLU, Sequential
from torch_geometric.nn import MLP, GINConv

from fasthop.rewrites.exact.options import ExactOptions
from fasthop.rewrites.layers.covered import fast_layer
from fasthop.rewrites.layers.gin_conv import split
from tests.rewrites.layers.against_pyg import NUM_FEATURES as F
from tests.rewrites.layers.against_pyg import check, empty_graph, reason

NODE = {"mode": "node"}  # PyG's LayerNorm mixes the rows unless it is told not to
NETS = {
    "narrowing": lambda: Sequential(Linear(F, 3), ReLU(), Linear(3, 3)),
    "widening": lambda: Sequential(Linear(F, 14), ReLU(), Linear(14, 3)),
    "one map": lambda: Linear(F, 3, bias=False),
    "one in a chain": lambda: Sequential(Linear(F, 3)),
    "mlp": lambda: MLP([F, 3, 3], norm=None),
    "mlp, normalised": lambda: MLP(
        [F, 4, 4, 3], norm="layer_norm", norm_kwargs=NODE, act="tanh", act_first=True
    ),
    "mlp, not plain": lambda: MLP([F, 3], norm="layer_norm", norm_kwargs=NODE, plain_last=False, bias=False),
    "no map first": lambda: Sequential(ReLU(), Linear(F, 3)),
}


OPTIONS = [{}, {"eps": 0.3}, {"train_eps": True}, {"aggr": "mean", "eps": -0.5}, {"aggr": "max"}]
CASES = [("narrowing", options) for options in OPTIONS]
CASES += [("widening", OPTIONS[1]), ("widening", OPTIONS[2]), ("one in a chain", OPTIONS[3])]
CASES += [(net, OPTIONS[place % 2 + 1]) for place, net in enumerate(NETS)][2:]


@pytest.mark.parametrize(("net", "options"), CASES, ids=str)
def test_equals_pyg(net, options):
    assert check(GINConv(NETS[net](), **options)) > 40


@pytest.mark.parametrize("options", [{}, {"aggr": "mean", "train_eps": True}, {"aggr": "min"}], ids=str)
def test_no_edges_deeper_and_float32(options):
    layer = GINConv(NETS["narrowing"](), eps=0.2, **options)
    check(layer, graph=empty_graph())
    check(layer, depth=1)
    check(layer, dtype=torch.float32, tolerance=2e-5)


def test_eps_that_is_set_later_is_read():
    layer = GINConv(NETS["narrowing"](), eps=0.1)
    check(layer)
    layer.eps.fill_(0.7)
    check(layer)


def test_batch_norm_is_the_users_own_and_follows_the_mode():
    norm = BatchNorm1d(3)
    layer = GINConv(Sequential(Linear(F, 3), norm, ReLU(), Linear(3, 3)))
    fast = fast_layer(layer, ExactOptions.all())
    assert fast.inner_modules() == (layer.nn,)
    assert [id(p) for p in fast.parameters()] == [id(p) for p in layer.parameters()]
    check(layer.eval())


def test_dropout_in_an_mlp_follows_the_mode():
    layer = GINConv(MLP([F, 3, 3], dropout=0.9, norm=None))
    check(layer.eval())
    fast = fast_layer(layer, ExactOptions.all())
    fast.train()
    hidden = torch.rand(50, 3, dtype=torch.float64)
    assert (fast._after_first(hidden) - fast._after_first(hidden)).abs().max() > 0
    fast.eval()
    assert torch.equal(fast._after_first(hidden), layer.nn.lins[1](hidden.relu()))


def test_split_knows_what_it_may_take_apart():
    class Own(Linear):
        pass

    assert split(Sequential(Own(2, 2), ReLU()))[0] is None
    assert split(Sequential())[0] is None
    assert split(Dropout())[0] is None
    assert split(MLP([2, 2, 2]))[0] is not None


def test_refusals():
    assert reason(GINConv(torch.relu)) == (
        "GINConv's nn is not a module, so what it does with the rows cannot be known."
    )
    assert reason(GINConv(Linear(2, 2), aggr="median")).startswith("GINConv aggregates by median")
    hooked = GINConv(Sequential(Linear(2, 2)))
    hooked.nn[0].register_forward_hook(lambda *_: None)
    assert "hooks" in reason(hooked)
