"""`fasthop.accelerate`: two changed lines, the same training, and an account that tells the truth."""

from __future__ import annotations

import copy
import re

import pytest
import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.nn import BatchNorm, GCNConv

import fasthop
from fasthop.errors import InvalidConfig, InvalidGraph
from fasthop.search import accelerate as module
from fasthop.train.models import GAT, GCN, GIN, GraphSAGE
from tests.train.graphs import digraph


def data_of(**options) -> Data:
    return digraph(num_nodes=90, num_edges=300, **options).to_data()


def train(model, x, edge_index, y, mask, epochs=20, *more):
    """What a user's loop does."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    losses = []
    for _ in range(epochs):
        model.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x, edge_index, *more)[mask], y[mask])
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def predict(model, data, *more):
    model.eval()
    with torch.no_grad():
        return model(data.x, data.edge_index, *more)


@pytest.mark.parametrize("make", [GCN, GraphSAGE, GIN, GAT])
def test_two_changed_lines_train_the_user_s_own_parameters(make):
    data = data_of()
    torch.manual_seed(0)
    model = make(8, 6, 3).double()
    plain = copy.deepcopy(model)
    want = train(plain, data.x, data.edge_index, data.y, data.train_mask)

    fast = fasthop.accelerate(model, data)
    got = train(fast.model, fast.data.x, fast.data.edge_index, fast.data.y, fast.data.train_mask)

    assert got == pytest.approx(want, rel=1e-9)
    # The optimiser moved the user's own parameters; their state_dict is the user's.
    for (name, own), (other_name, other) in zip(
        model.state_dict().items(), plain.state_dict().items(), strict=True
    ):
        assert name == other_name
        assert torch.allclose(own, other, rtol=1e-7, atol=1e-10)
    assert list(fast.model.state_dict()) == list(model.state_dict())
    # test() in eval mode: all rows in the user's order, through either.
    assert torch.allclose(predict(fast.model, data), predict(plain, data), rtol=1e-7, atol=1e-10)
    assert torch.allclose(predict(model, data), predict(plain, data), rtol=1e-7, atol=1e-10)
    assert all(verdict.passed for verdict in fast.verdicts.values())
    assert set(fast.verdicts) == set(fast.used) >= {"csr_spmm", "receptive_field"}


def test_weights_are_handed_on_and_checked():
    data = data_of(weighted=True)
    torch.manual_seed(0)
    model = GCN(8, 6, 3).double()
    plain = copy.deepcopy(model)
    want = train(plain, data.x, data.edge_index, data.y, data.train_mask, 10, data.edge_weight)
    fast = fasthop.accelerate(model, data)
    got = train(
        fast.model,
        fast.data.x,
        fast.data.edge_index,
        fast.data.y,
        fast.data.train_mask,
        10,
        fast.data.edge_weight,
    )
    assert got == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize("make", [GCN, GraphSAGE, GIN])
def test_train_takes_the_compiled_step_and_gives_the_same_losses(make):
    data = data_of()
    torch.manual_seed(0)
    model = make(8, 6, 3).double()
    plain = copy.deepcopy(model)
    want = train(plain, data.x, data.edge_index, data.y, data.train_mask, 30)
    fast = fasthop.accelerate(model, data)
    report = fast.train(epochs=30, optimizer="adam", lr=0.01, weight_decay=5e-4)
    assert report.fused
    assert list(report.losses) == pytest.approx(want, rel=1e-9)
    assert torch.allclose(predict(model, data), predict(plain, data), rtol=1e-6, atol=1e-9)
    accuracies = fast.evaluate()
    right = predict(plain, data).argmax(dim=1) == data.y
    assert accuracies.test == pytest.approx(100 * float(right[data.test_mask].double().mean()))


def test_train_with_an_optimiser_that_exists_moves_its_state():
    data = data_of()
    torch.manual_seed(0)
    model = GCN(8, 6, 3).double()
    plain = copy.deepcopy(model)
    want = train(plain, data.x, data.edge_index, data.y, data.train_mask, 12)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    fast = fasthop.accelerate(model, data)
    first, second = fast.train(epochs=5, optimizer=optimizer), fast.train(epochs=7, optimizer=optimizer)
    assert [*first.losses, *second.losses] == pytest.approx(want, rel=1e-9)
    assert not first.fused
    assert "optimiser" in (first.why_not_fused or "")
    assert len(optimizer.state) > 0


def test_the_account_tells_what_was_done_and_what_was_not():
    fast = fasthop.accelerate(GraphSAGE(8, 6, 3).double(), data_of())
    text = str(fast)
    assert "Proven on the whole graph: error" in text
    assert re.search(r"cache_norm +No layer of the model normalises the edges", text)
    assert re.search(r"sparse_features +100 % of x are non-zero", text)
    assert re.search(r"cost \d+\.\d s, (pays after [\d,]+ epochs|and does not pay)", text)
    assert "rows computed in training, from the output back: 30," in text
    assert fast.cost_s > 0


def test_batch_norm_keeps_all_rows_in_the_user_s_order():  # case 5
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            # Without the bias: its true gradient is 0 before BatchNorm, and Adam makes steps of rounding errors.
            self.first, self.norm, self.last = GCNConv(8, 6, bias=False), BatchNorm(6), GCNConv(6, 3)

        def forward(self, x, edge_index):
            return self.last(self.norm(self.first(x, edge_index)).relu(), edge_index)

    data = data_of()
    torch.manual_seed(0)
    model = Net().double()
    plain = copy.deepcopy(model)
    fast = fasthop.accelerate(model, data)
    assert "BatchNorm" in fast.skipped["receptive_field"]["en"]
    assert fast.data.y is data.y
    got = train(fast.model, fast.data.x, fast.data.edge_index, fast.data.y, fast.data.train_mask)
    assert got == pytest.approx(train(plain, data.x, data.edge_index, data.y, data.train_mask), rel=1e-9)
    assert torch.allclose(model.norm.module.running_mean, plain.norm.module.running_mean)
    assert int(model.norm.module.num_batches_tracked) == 20


def test_a_rung_that_is_wrong_is_dropped_with_its_figure(monkeypatch):
    from fasthop.rewrites.exact import build

    real = build.KnownGraph._sorted

    def transposed(self, edge_index, value):
        return real(self, edge_index.flip(0) if self.use_spmm else edge_index, value)

    monkeypatch.setattr(build.KnownGraph, "_sorted", transposed)
    data = data_of()
    torch.manual_seed(0)
    model = GCN(8, 6, 3).double()
    plain = copy.deepcopy(model)
    fast = fasthop.accelerate(model, data, rungs=["cache_norm", "csr_spmm"])
    assert fast.used == ("cache_norm",)
    assert fast.verdicts["csr_spmm"].is_refuted
    assert fast.skipped["csr_spmm"]["en"].startswith("Wrong:")
    got = train(fast.model, fast.data.x, fast.data.edge_index, fast.data.y, fast.data.train_mask)
    assert got == pytest.approx(train(plain, data.x, data.edge_index, data.y, data.train_mask), rel=1e-9)


def test_learned_edge_weights_step_aside():  # case 17
    data = data_of(weighted=True)
    data.edge_weight.requires_grad_()
    fast = fasthop.accelerate(GCN(8, 6, 3).double(), data)
    assert fast.used == ()
    assert all("being learned" in reason["en"] for reason in fast.skipped.values())
    out = fast.model(fast.data.x, fast.data.edge_index, fast.data.edge_weight)
    out.sum().backward()
    assert data.edge_weight.grad is not None


def test_weights_in_another_precision_step_aside():  # case 6
    data = data_of(weighted=True, dtype=torch.float32)
    data.edge_weight = data.edge_weight.double()
    model = GCN(8, 6, 3, num_layers=1)
    fast = fasthop.accelerate(model, data)
    assert fast.used == ()
    assert "change precision" in fast.skipped["csr_spmm"]["en"]
    call = (fast.data.x, fast.data.edge_index, fast.data.edge_weight)
    assert torch.equal(fast.model(*call), model(*call))


def test_prove_false_says_so():
    fast = fasthop.accelerate(GCN(8, 6, 3).double(), data_of(), prove=False)
    assert fast.verdicts == {}
    assert "not proven (prove=False)" in str(fast)


def test_generators_parameters_gradients_and_buffers_stay():
    data = data_of()
    model = GCN(8, 6, 3, dropout=0.5).double()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.random.get_rng_state()
    fasthop.accelerate(model, data)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_what_cannot_be_is_refused_in_a_sentence():
    data = data_of()
    model = GCN(8, 6, 3).double()
    with pytest.raises(InvalidConfig, match=r"takes an nn\.Module"):
        fasthop.accelerate(GCN, data)
    with pytest.raises(InvalidConfig, match="no exact rung named 'amp'"):
        fasthop.accelerate(model, data, rungs=["amp"])
    with pytest.raises(InvalidGraph):
        fasthop.accelerate(model, Data(x=data.x, edge_index=data.edge_index))
    fast = fasthop.accelerate(model, data, prove=False)
    with pytest.raises(InvalidConfig, match="epochs is -1"):
        fast.train(epochs=-1)
    with pytest.raises(InvalidConfig, match="no optimiser named 'lion'"):
        fast.train(epochs=1, optimizer="lion")
    with pytest.raises(AttributeError, match=r"your own data, such as data\.test_mask"):
        _ = fast.data.test_mask


def test_the_default_leaves_out_what_only_a_measurement_can_choose():
    assert "reorder_nodes" not in fasthop.accelerate(GCN(8, 6, 3).double(), data_of(), prove=False).used
    assert set(module.NOT_BY_DEFAULT) < {rung.name for rung in module.EXACT_RUNGS}
