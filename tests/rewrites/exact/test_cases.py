"""Cases from the field by their number, on the exact rungs: small inputs on which a wrong rewrite gives a wrong number."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch_geometric import nn as gnn
from torch_geometric.nn import models as zoo

from fasthop.errors import InvalidGraph
from tests.rewrites.exact.graphs import (
    ALL,
    NUM_CLASSES,
    NUM_FEATURES,
    Data,
    build,
    data,
    predict,
    randomise,
    verdict,
)

RUNGS = [(name,) for name in ALL] + [ALL]
X = torch.tensor([[1.0], [2.0], [3.0]], dtype=torch.float64)


def ones(conv=gnn.GCNConv, **options):
    layer = conv(1, 1, bias=False, **options).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.fill_(1.0)
    return layer


def small(edges, x=X, weight=None):
    mask = torch.ones(x.size(0), dtype=torch.bool)
    edge_index = torch.tensor(edges, dtype=torch.int64).t().contiguous()
    return Data(x=x, edge_index=edge_index, edge_weight=weight, train_mask=mask)


def numbers(out):
    return out.flatten().tolist()


@pytest.mark.parametrize("rungs", RUNGS, ids=lambda names: names[0] if len(names) == 1 else "all")
@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_02_a_normalisation_of_another_graph_is_not_used(rungs, cached, training):
    first, second = small([(0, 1), (1, 0)]), small([(1, 2), (2, 1)])
    fast = build(ones(cached=cached).train(training), first, *rungs).model
    for _ in range(2):
        assert numbers(fast(*first.call)) == pytest.approx([1.5, 1.5, 3])
        assert numbers(fast(*second.call)) == pytest.approx([1, 2.5, 2.5])
        assert numbers(fast(first.x, first.edge_index.clone())) == pytest.approx([1.5, 1.5, 3])
    again = copy.deepcopy(fast)
    assert numbers(again(*second.call)) == pytest.approx([1, 2.5, 2.5])
    first.edge_index.copy_(second.edge_index)
    assert numbers(fast(*first.call)) == pytest.approx([1, 2.5, 2.5])


@pytest.mark.parametrize("rungs", RUNGS, ids=lambda names: names[0] if len(names) == 1 else "all")
@pytest.mark.parametrize("training", [False, True])
def test_03_parallel_edges_count(rungs, training):
    given = small([(0, 1), (0, 1), (1, 0)])
    fast = build(ones().train(training), given, *rungs).model
    assert numbers(fast(*given.call)) == pytest.approx([1.3165, 1.4832, 3], abs=1e-4)


@pytest.mark.parametrize("rungs", RUNGS, ids=lambda names: names[0] if len(names) == 1 else "all")
@pytest.mark.parametrize("training", [False, True])
def test_04_self_loops_count_once(rungs, training):
    given = small([(0, 1), (1, 0), (0, 0)])
    fast = build(ones().train(training), given, *rungs).model
    assert numbers(fast(*given.call)) == pytest.approx([1.5, 1.5, 3])


class TwoSage(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.c1, self.c2 = gnn.SAGEConv(NUM_FEATURES, 8), gnn.SAGEConv(8, NUM_CLASSES)
        self.norm = nn.BatchNorm1d(8) if norm else nn.Identity()

    def forward(self, x, edge_index):
        return self.c2(self.norm(self.c1(x, edge_index)).relu(), edge_index)


@pytest.mark.parametrize("norm", [False, True])
def test_05_no_pruning_under_batch_norm(norm):
    torch.manual_seed(1)
    model, given = randomise(TwoSage(norm)), data()
    built = build(model, given, "csr_spmm", "receptive_field")
    assert built.order.is_whole == norm
    assert (built.mixes is not None and "BatchNorm1d" in built.mixes["en"]) == norm
    assert verdict(model, given, None, "csr_spmm", "receptive_field").passed


def test_05_frozen_batch_norm_may_be_pruned():
    torch.manual_seed(1)
    model, given = randomise(TwoSage(True)), data()
    model.norm.running_mean.normal_()
    model.norm.eval()
    built = build(model, given, "receptive_field")
    assert not built.order.is_whole
    torch.testing.assert_close(
        built.model(*given.call), model(*given.call)[given.train_mask], rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("rungs", RUNGS, ids=lambda names: names[0] if len(names) == 1 else "all")
@pytest.mark.parametrize("training", [False, True])
def test_06_weights_of_one_column_are_weights(rungs, training):
    edges, weight = [(0, 1), (1, 0), (2, 0)], torch.tensor([0.5, 2.0, 3.0], dtype=torch.float64)
    want = ones()(X, torch.tensor(edges).t(), weight)
    given = small(edges, weight=weight[:, None])
    fast = build(ones().train(training), given, *rungs).model
    torch.testing.assert_close(fast(*given.call), want)


@pytest.mark.parametrize("shape", [(3, 2), (2,), (4,), (3, 1, 1), ()])
def test_06_edge_features_are_no_weights(shape):
    given = small([(0, 1), (1, 0), (2, 0)], weight=torch.ones(shape, dtype=torch.float64))
    with pytest.raises(InvalidGraph, match=str(list(shape)).replace("[", r"\[").replace("]", r"\]")):
        build(ones(), given)


@pytest.mark.parametrize("training", [False, True])
def test_06_sage_takes_no_weights(training):
    """x_1 = 2 reaches node 0, x_0 = 1 node 1; weights of 10 that the loop does not hand over change nothing."""
    given = small([(1, 0), (0, 1)])
    model = ones(gnn.SAGEConv, root_weight=False).train(training)
    fast = build(model, given).model
    assert numbers(fast(*given.call)) == pytest.approx([2, 1, 0])


@pytest.mark.parametrize("rungs", RUNGS, ids=lambda names: names[0] if len(names) == 1 else "all")
def test_07_directed_graphs(rungs):
    torch.manual_seed(1)
    model, given = randomise(zoo.GraphSAGE(NUM_FEATURES, 8, 2, NUM_CLASSES)), data()
    built = build(model, given, *rungs)
    want, got = model(*given.call), built.model(*given.call)
    want = want if built.order.is_whole else want[given.train_mask]
    torch.testing.assert_close(got, want, rtol=0, atol=1e-10)
    against = model(given.x, given.edge_index.flip(0))
    against = against if built.order.is_whole else against[given.train_mask]
    assert float((got - against).detach().abs().max()) > 0.05


@pytest.mark.parametrize("rungs", RUNGS, ids=lambda names: names[0] if len(names) == 1 else "all")
def test_17_learnable_edge_weights_learn(rungs):
    given = data(weighted=True)
    given.edge_weight.requires_grad_()
    torch.manual_seed(1)
    model = randomise(gnn.GCNConv(NUM_FEATURES, NUM_CLASSES))
    built = build(model, given, *rungs)
    optimizer = torch.optim.SGD([given.edge_weight, *model.parameters()], lr=0.5)
    for _ in range(2):
        want = model(*given.call)[given.train_mask]
        out = built.model(*given.call)
        out = out if out.size(0) == want.size(0) else out[given.train_mask]
        torch.testing.assert_close(out, want, rtol=0, atol=1e-10)
        wanted = torch.autograd.grad(want.pow(2).sum(), [given.edge_weight, model.lin.weight])
        optimizer.zero_grad()
        out.pow(2).sum().backward()
        assert float(given.edge_weight.grad.abs().sum()) > 0
        torch.testing.assert_close(given.edge_weight.grad, wanted[0])
        torch.testing.assert_close(model.lin.weight.grad, wanted[1])
        optimizer.step()


@pytest.mark.parametrize("conv", [gnn.GINConv, gnn.SAGEConv, gnn.GraphConv], ids=lambda conv: conv.__name__)
@pytest.mark.parametrize("training", [False, True])
def test_21_sums_in_bfloat16_do_not_stop_growing(conv, training):
    num_nodes = 1001
    edge_index = torch.stack([torch.arange(1, num_nodes), torch.zeros(num_nodes - 1, dtype=torch.int64)])
    mask = torch.zeros(num_nodes, dtype=torch.bool)
    mask[0] = True
    layer = {
        gnn.GINConv: lambda: gnn.GINConv(nn.Linear(1, 1, bias=False), eps=-1.0),
        gnn.SAGEConv: lambda: gnn.SAGEConv(1, 1, aggr="sum", root_weight=False, bias=False),
        gnn.GraphConv: lambda: gnn.GraphConv(1, 1, bias=False),
    }[conv]()
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            parameter.fill_(0.0 if "root" in name else 1.0)
    model = layer.to(torch.bfloat16).train(training)
    x = torch.ones(num_nodes, 1, dtype=torch.bfloat16)
    given = Data(x=x, edge_index=edge_index, edge_weight=None, train_mask=mask)
    out = build(model, given, "csr_spmm", "receptive_field").model(*given.call)
    assert out.dtype == torch.bfloat16
    assert float(out.detach()[0]) == 1000


@pytest.mark.parametrize("layout", ["coo", "csr"])
@pytest.mark.parametrize("conv", [gnn.GCNConv, gnn.GATConv], ids=lambda conv: conv.__name__)
@pytest.mark.parametrize("rungs", RUNGS, ids=lambda names: names[0] if len(names) == 1 else "all")
def test_23_sparse_x(layout, conv, rungs):
    torch.manual_seed(1)
    model, given = randomise(conv(NUM_FEATURES, NUM_CLASSES)), data()
    x = given.x.to_sparse_coo() if layout == "coo" else given.x.to_sparse_csr()
    sparse = Data(x=x, edge_index=given.edge_index, edge_weight=None, train_mask=given.train_mask)
    want = model(*given.call)
    torch.testing.assert_close(model(*sparse.call), want)
    built = build(model, sparse, *rungs)
    built.observe(*sparse.call)
    out = built.model(*sparse.call)
    wanted = want if built.order.is_whole else want[given.train_mask]
    torch.testing.assert_close(out, wanted, rtol=0, atol=1e-10)
    for one, two in zip(
        torch.autograd.grad(wanted.pow(2).sum(), list(model.parameters()), retain_graph=True),
        torch.autograd.grad(out.pow(2).sum(), list(model.parameters())),
        strict=True,
    ):
        torch.testing.assert_close(two, one, rtol=0, atol=1e-9)
    model.eval()
    torch.testing.assert_close(built.model(*sparse.call), want, rtol=0, atol=1e-10)
    if "sparse_features" in rungs:
        assert "sparse_features" in built.acted
    if "receptive_field" in rungs:
        assert not built.order.is_whole


def test_23_eye_as_x():
    for layout in (torch.eye(3).to_sparse_coo(), torch.eye(3).to_sparse_csr()):
        given = small([(0, 1), (1, 2)], x=layout)
        for conv in (gnn.GCNConv, gnn.GATConv):
            model = conv(3, 2)
            torch.testing.assert_close(build(model, given).model(*given.call), model(*given.call))


def test_23_what_else_reads_a_sparse_x_reads_it_as_it_is():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.w = (
                gnn.GCNConv(NUM_FEATURES, NUM_CLASSES),
                nn.Parameter(torch.randn(NUM_FEATURES, NUM_CLASSES)),
            )

        def forward(self, x, edge_index):
            return self.conv(x, edge_index) + torch.sparse.mm(x, self.w)

    model, given = randomise(Model()), data()
    sparse = Data(
        x=given.x.to_sparse_coo(), edge_index=given.edge_index, edge_weight=None, train_mask=given.train_mask
    )
    built = build(model, sparse)
    assert "sparse" in built.untraceable["en"]
    torch.testing.assert_close(built.model(*sparse.call), model(*sparse.call), rtol=0, atol=1e-10)


@pytest.mark.parametrize("jk", [None, "cat", "max", "lstm"])
@pytest.mark.parametrize("norm", [None, "BatchNorm", "LayerNorm"])
def test_24_evaluation_is_the_users(jk, norm):
    torch.manual_seed(1)
    model = randomise(zoo.GCN(NUM_FEATURES, 8, 3, NUM_CLASSES, jk=jk, norm=norm, dropout=0.5))
    given = data()
    fast = build(model, given).model
    for _ in range(2):
        fast.train()
        fast(*given.call).sum().backward()
        torch.testing.assert_close(predict(fast, given), predict(model, given), rtol=0, atol=1e-10)
        fresh = Data(
            x=given.x.clone(), edge_index=given.edge_index, edge_weight=None, train_mask=given.train_mask
        )
        torch.testing.assert_close(predict(fast, fresh), predict(model, given), rtol=0, atol=1e-10)
